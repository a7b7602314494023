//! Work is proportional to the change: shown by the counters of both tiers, not by time.
//!
//! 20,000 hosts are served by the real controller and pilot to a fake Envoy. One edited host, one added host and one
//! changed endpoint must each cost one unit, one message and one resource.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use e2e::bench::client::{Client, Event, Expected, bootstrap, node};
use e2e::bench::generate::{Generated, Plan};
use e2e::process::wait_until;
use e2e::stack::{Options, Port, Stack};
use e2e::trial::{self, Needs};
use tokio::sync::mpsc;

const PLAN: Plan = Plan {
    routes: 20_000,
    services: 200,
    edited: 1,
    seed: 3,
    tls: false,
};
/// A debug build reads 20,000 objects in this time, also on a loaded machine.
const LIMIT: Duration = Duration::from_secs(180);
/// How long counters are watched for work that must not come.
const SETTLE: Duration = Duration::from_millis(500);

/// Name, port of the program, part of the labels.
type Counter = (&'static str, Port, &'static str);

const UNITS: Counter = ("isthmus_units_translated_total", Port::ControllerHttp, "");
const MCP_SENT: Counter = ("isthmus_mcp_resources_sent_total", Port::ControllerHttp, "");
const CHANGES: Counter = ("isthmus_config_changes_total", Port::Monitoring, "");
const CONTEXTS: Counter = ("isthmus_push_contexts_total", Port::Monitoring, "");
const GENERATED: &str = "isthmus_resources_generated_total";
const SENT: &str = "isthmus_xds_resources_sent_total";

const fn generated(kind: &'static str) -> Counter {
    (GENERATED, Port::Monitoring, kind)
}

const fn sent(kind: &'static str) -> Counter {
    (SENT, Port::Monitoring, kind)
}

const RDS: &str = "type=\"rds\"";
const SRDS: &str = "type=\"srds\"";
const EDS: &str = "type=\"eds\"";

fn main() -> ExitCode {
    let name = "one change among 20,000 hosts costs one unit, one message, one resource";
    trial::run(vec![trial::trial(name, Needs::Programs, counters)], 1)
}

async fn counters() -> Result<()> {
    let mut world = World::start().await?;
    let host = world
        .generated
        .edited
        .first()
        .copied()
        .context("an edited host")?;

    let before = world.read().await?;
    world
        .stack
        .write(&Plan::file(host), &PLAN.ingress(host, "/edit-1"))?;
    world
        .await_event("edited route", |event| event.marker == Some(1))
        .await?;
    let edited = [
        (UNITS, 1),
        (MCP_SENT, 1),
        (CHANGES, 1),
        (CONTEXTS, 1),
        (generated(RDS), 1),
        (sent(RDS), 1),
    ];
    world
        .expect(
            "one edited host",
            &before,
            &edited,
            &[(GENERATED, 1), (SENT, 1)],
        )
        .await?;

    let before = world.read().await?;
    world
        .stack
        .write("added.yaml", &PLAN.ingress(PLAN.routes, "/edit-2"))?;
    world
        .await_event("added route", |event| event.marker == Some(2))
        .await?;
    // Its Gateway and its VirtualService come in a message each, and the pilot may use the first before it has the second: the
    // number of contexts is a matter of time here.
    let added = [
        (UNITS, 1),
        (MCP_SENT, 2),
        (CHANGES, 2),
        (generated(SRDS), 1),
        (sent(SRDS), 1),
        (generated(RDS), 1),
        (sent(RDS), 1),
    ];
    world
        .expect(
            "one added host",
            &before,
            &added,
            &[(GENERATED, 2), (SENT, 2)],
        )
        .await?;

    let before = world.read().await?;
    world
        .stack
        .write("endpoints-0000.yaml", &endpoints_with_one_changed())?;
    world
        .await_event("changed endpoint", |event| {
            event.kind.ends_with("ClusterLoadAssignment")
        })
        .await?;
    let moved = [
        (UNITS, 0),
        (MCP_SENT, 0),
        (CHANGES, 0),
        (CONTEXTS, 0),
        (generated(EDS), 1),
        (sent(EDS), 1),
    ];
    world
        .expect(
            "one changed endpoint",
            &before,
            &moved,
            &[(GENERATED, 1), (SENT, 1)],
        )
        .await
}

/// The generated file of EndpointSlices (all fit into one), with one address of the first service changed.
fn endpoints_with_one_changed() -> String {
    let slices = (0..PLAN.services).map(|service| PLAN.endpoints(service, u8::from(service == 0)));
    slices.collect::<Vec<_>>().join("---\n")
}

struct World {
    stack: Stack,
    generated: Generated,
    events: mpsc::Receiver<Event>,
    _client: Client,
}

/// The pages of both tiers.
struct Pages {
    controller: String,
    pilot: String,
}

impl Pages {
    fn value(&self, (name, port, label): Counter) -> f64 {
        let page = if port == Port::ControllerHttp {
            &self.controller
        } else {
            &self.pilot
        };
        e2e::stack::sum_metric(page, name, label)
    }
}

impl World {
    async fn start() -> Result<Self> {
        let mut stack = Stack::new(Options::default())?;
        let generated = PLAN.write(&stack.config_dir())?;
        stack.start_controller()?;
        stack.start_pilot()?;
        let bootstrap = bootstrap().await?;
        let expected = Expected {
            routes: PLAN.routes,
            endpoints: PLAN.services,
            secrets: 0,
        };
        let (sender, events) = mpsc::channel(1024);
        let client = Client::start(
            0,
            stack.address(Port::Grpc),
            node(&bootstrap, 0)?,
            expected,
            sender,
        );
        let mut world = Self {
            stack,
            generated,
            events,
            _client: client,
        };
        world
            .await_event("complete configuration", |event| event.complete)
            .await?;
        world.settle().await?;
        Ok(world)
    }

    async fn await_event(
        &mut self,
        what: &str,
        mut fits: impl FnMut(&Event) -> bool,
    ) -> Result<()> {
        let start = std::time::Instant::now();
        while start.elapsed() < LIMIT {
            match tokio::time::timeout(LIMIT, self.events.recv()).await {
                Ok(Some(event)) if fits(&event) => return Ok(()),
                Ok(Some(_)) => {}
                _ => break,
            }
        }
        self.stack.check_alive()?;
        bail!("not within {LIMIT:?}: {what}\n{}", self.stack.logs())
    }

    async fn read(&self) -> Result<Pages> {
        let page = async |port| -> Result<String> {
            let get = e2e::http::Exchange::get("localhost", "/metrics");
            Ok(get.send(&self.stack.target(port)).await?.text())
        };
        Ok(Pages {
            controller: page(Port::ControllerHttp).await?,
            pilot: page(Port::Monitoring).await?,
        })
    }

    /// Waits until the counters have not moved for a while: late work would be counted too.
    async fn settle(&self) -> Result<Pages> {
        const WATCHED: [Counter; 5] = [
            UNITS,
            MCP_SENT,
            CONTEXTS,
            (GENERATED, Port::Monitoring, ""),
            (SENT, Port::Monitoring, ""),
        ];
        let mut last = self.read().await?;
        wait_until("counters at rest", LIMIT, async || {
            tokio::time::sleep(SETTLE).await;
            let next = self.read().await.ok()?;
            let same = WATCHED
                .iter()
                .all(|counter| next.value(*counter) == last.value(*counter));
            last = next;
            same.then_some(())
        })
        .await?;
        self.read().await
    }

    async fn expect(
        &self,
        what: &str,
        before: &Pages,
        exact: &[(Counter, i64)],
        totals: &[(&'static str, i64)],
    ) -> Result<()> {
        let after = self.settle().await?;
        let totals = totals
            .iter()
            .map(|(name, count)| ((*name, Port::Monitoring, ""), *count));
        let wrong: Vec<String> = exact
            .iter()
            .copied()
            .chain(totals)
            .filter_map(|(counter, expected)| {
                let got = after.value(counter) - before.value(counter);
                (got != expected as f64).then(|| {
                    format!(
                        "{}{{{}}}: expected +{expected}, got +{got}",
                        counter.0, counter.2
                    )
                })
            })
            .collect();
        if wrong.is_empty() {
            return Ok(());
        }
        bail!("{what}:\n  {}", wrong.join("\n  "))
    }
}
