//! The bench on a real API server: loading, edits, API calls, and the status of all Ingresses.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use serde_json::json;

use super::generate::Plan;
use super::report::Table;
use crate::api_cases::{gateway, with_address};
use crate::api_server::ApiServer;
use crate::audit::{Calls, USERS};
use crate::objects::{Object, Objects};
use crate::process::wait_until;
use crate::stack::{Options, Port, Stack};

/// How long all writes of the status may take.
const LIMIT: Duration = Duration::from_secs(600);
/// Number of the host that is added after a restart.
const ADDED: &str = "added";

/// Where the objects are.
pub(super) struct Cluster {
    api: ApiServer,
    client: Objects,
    loaded: Duration,
    at_start: Calls,
}

/// What only a Kubernetes API has. Times are in milliseconds.
#[derive(Debug, Clone, Serialize)]
pub struct KubernetesReport {
    /// Objects created.
    pub objects: usize,
    /// Time to create them.
    pub loaded_ms: f64,
    /// API calls of the first start, until a client is complete.
    pub calls_at_start: Vec<Count>,
    /// API calls of all the edits, from the first start to the end of the last round.
    pub calls_later: Vec<Count>,
    /// Status of all Ingresses.
    pub status: StatusReport,
}

/// Number of calls of one kind.
#[derive(Debug, Clone, Serialize)]
pub struct Count {
    /// `controller` or `pilot`.
    pub who: String,
    /// Verb and resource.
    pub what: String,
    /// How often.
    pub count: u64,
}

/// What writing the status costs once the gateway has an address.
#[derive(Debug, Clone, Serialize)]
pub struct StatusReport {
    /// Ingresses.
    pub ingresses: usize,
    /// Time until the last one is written.
    pub written_ms: f64,
    /// API calls for it.
    pub calls: Vec<Count>,
    /// Hosts translated because of it.
    pub units: f64,
    /// Writes of a controller that was started again, besides that of the one Ingress that was added then.
    pub after_restart: u64,
}

impl Cluster {
    /// Starts an API server; nothing is in it yet.
    pub(super) async fn start() -> Result<Self> {
        let api = ApiServer::start().await?;
        Ok(Self {
            client: Objects::connect(&api.kubeconfig()).await?,
            api,
            loaded: Duration::ZERO,
            at_start: Calls::default(),
        })
    }

    /// Options of a run whose tiers are told apart in the audit log.
    pub(super) fn options(&self) -> Result<Options> {
        let [controller, pilot] = USERS;
        Ok(Options {
            kubeconfig: Some(self.api.kubeconfig_of(controller)?),
            pilot_kubeconfig: Some(self.api.kubeconfig_of(pilot)?),
            ..Options::default()
        })
    }

    /// Creates what was generated into the folder of a run.
    pub(super) async fn load(&mut self, stack: &Stack) -> Result<usize> {
        let mut objects = Vec::new();
        for entry in std::fs::read_dir(stack.config_dir())? {
            objects.extend(Object::read(&std::fs::read_to_string(entry?.path())?));
        }
        let namespaces = ["bench", "higress-system"].map(|name| {
            Object::new(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
            )
        });
        let start = Instant::now();
        for some in [&namespaces[..], &objects[..]] {
            let refused = self.client.create_at_once(some).await?;
            let first = refused.first_key_value();
            ensure!(first.is_none(), "the API server refuses {first:?}");
        }
        self.loaded = start.elapsed();
        Ok(objects.len())
    }

    /// Writes an Ingress anew; the moment of the API server's answer.
    pub(super) async fn edit(&self, ingress: &str) -> Result<Instant> {
        for object in Object::read(ingress) {
            self.client.replace(&object).await?;
        }
        Ok(Instant::now())
    }

    /// Notes what the first start has cost.
    pub(super) fn started(&mut self) -> Result<()> {
        if self.at_start == Calls::default() {
            self.at_start = self.api.calls()?;
        }
        Ok(())
    }

    /// Gives the gateway an address, and starts the controller again when all Ingresses have it.
    pub(super) async fn finish(
        &self,
        stack: &mut Stack,
        plan: &Plan,
        objects: usize,
    ) -> Result<KubernetesReport> {
        let before = self.api.calls()?;
        let units = translated(stack).await?;
        eprintln!("bench: the status of {} Ingresses", plan.routes);
        let start = Instant::now();
        self.give_address().await?;
        let written = written(stack, plan.routes).await?;
        let calls = self.api.calls()?;
        let status = StatusReport {
            ingresses: plan.routes,
            written_ms: super::report::ms(written - start),
            calls: counts(&calls.since(&before)),
            units: translated(stack).await? - units,
            after_restart: self.restart(stack, plan).await?,
        };
        Ok(KubernetesReport {
            objects,
            loaded_ms: super::report::ms(self.loaded),
            calls_at_start: counts(&self.at_start),
            calls_later: counts(&before.since(&self.at_start)),
            status,
        })
    }

    async fn give_address(&self) -> Result<()> {
        let gateway = gateway();
        self.client.create(&gateway).await?;
        self.client
            .patch(&gateway, "/status", &with_address())
            .await?;
        Ok(())
    }

    /// Writes of the status after a restart; an Ingress that is added then shows that all others have been looked at.
    async fn restart(&self, stack: &mut Stack, plan: &Plan) -> Result<u64> {
        let process = stack.controller.take().context("the controller runs")?;
        process.terminate().await?;
        let before = self.api.calls()?;
        stack.start_controller()?;
        wait_until("the controller leads again", LIMIT, async || {
            let leader = stack.metric(Port::ControllerHttp, "isthmus_leader", "");
            (leader.await.ok()? == 1.0).then_some(())
        })
        .await?;
        let added = plan.ingress(0, "/").replace("route-000000", ADDED);
        for object in Object::read(&added) {
            self.client.create(&object).await?;
        }
        written(stack, 1).await?;
        let patched = self.api.calls()?.since(&before).of("controller", "patch");
        Ok(patched - 1)
    }
}

/// When the status of `count` Ingresses has been written.
async fn written(stack: &Stack, count: usize) -> Result<Instant> {
    let name = "isthmus_status_writes_total";
    let done = wait_until("the status is written", LIMIT, async || {
        let written = stack
            .metric(Port::ControllerHttp, name, "\"written\"")
            .await;
        (written.ok()? >= count as f64).then(Instant::now)
    });
    done.await.with_context(|| stack.logs())
}

async fn translated(stack: &Stack) -> Result<f64> {
    let name = "isthmus_units_translated_total";
    stack.metric(Port::ControllerHttp, name, "").await
}

fn counts(calls: &Calls) -> Vec<Count> {
    let count = |((who, what), count): (&(String, String), &u64)| Count {
        who: who.clone(),
        what: what.clone(),
        count: *count,
    };
    calls.0.iter().map(count).collect()
}

impl KubernetesReport {
    pub(super) fn show(&self, table: &mut Table) {
        let seconds = |ms: f64| format!("{:.1} s", ms / 1e3);
        table.heading(&format!("Kubernetes API, {} objects", self.objects));
        table.row("created in", &seconds(self.loaded_ms), "");
        table.calls("API calls of a start", &self.calls_at_start);
        table.calls("further calls, all edits and starts", &self.calls_later);
        let status = &self.status;
        table.heading(&format!("status of {} Ingresses", status.ingresses));
        table.row("written in", &seconds(status.written_ms), "");
        table.calls("API calls for it", &status.calls);
        table.row("hosts translated for it", &status.units.to_string(), "");
        let writes = status.after_restart.to_string();
        table.row("writes after a restart", &writes, "");
    }
}
