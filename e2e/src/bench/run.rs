//! The measurements: cold start, memory, and change to acknowledged.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::sync::mpsc;

use super::client::{Client, Event, Expected, bootstrap, node};
use super::generate::{Generated, Plan};
use super::kubernetes::Cluster;
use super::report::{Changes, ClientsReport, Report};
use super::usage;
use crate::http::{Exchange, Target};
use crate::process;
use crate::stack::{Port, Stack};

/// How long to wait for what must come.
const LIMIT: Duration = Duration::from_secs(300);
/// Time after the last client is complete before memory is read, so that buffers are given back.
const SETTLE: Duration = Duration::from_secs(2);
/// Events that wait for the driver, per client.
const EVENTS: usize = 256;

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// What to generate.
    pub plan: Plan,
    /// Number of clients of the second round.
    pub clients: usize,
    /// Edits per round.
    pub edits: usize,
    /// Pause between an acknowledged edit and the next one.
    pub pause: Duration,
    /// Cold starts, of which the median counts.
    pub starts: usize,
    /// The objects are in a Kubernetes API instead of a folder.
    pub kubernetes: bool,
}

/// Times from starting both tiers and one client at the same moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Start {
    /// Until the client holds everything.
    pub complete: Duration,
    /// Until the controller is ready.
    pub controller: Duration,
    /// Until the pilot is ready.
    pub pilot: Duration,
}

/// Both tiers with their clients.
struct Bench {
    stack: Stack,
    plan: Plan,
    generated: Generated,
    bootstrap: serde_json::Value,
    clients: Vec<Client>,
    events: mpsc::Receiver<Event>,
    sender: mpsc::Sender<Event>,
    edits: u64,
    cluster: Option<Cluster>,
    objects: usize,
}

/// Runs all measurements; progress goes to standard error.
///
/// # Errors
/// A program fails, or something does not come in time.
pub async fn run(settings: &Settings) -> Result<Report> {
    eprintln!("bench: generating {} routes", settings.plan.routes);
    let mut bench = Bench::new(settings).await?;
    let mut starts = Vec::new();
    for round in 1..=settings.starts.max(1) {
        eprintln!("bench: cold start {round} of {}", settings.starts.max(1));
        starts.push(bench.cold_start().await?);
    }
    starts.sort_unstable();
    let median = starts.get(starts.len() / 2).copied().unwrap_or_default();
    let one = bench.round(1, settings).await?;
    let many = if settings.clients > 1 {
        Some(bench.round(settings.clients, settings).await?)
    } else {
        None
    };
    let mut report = Report::new(settings, bench.generated.secrets, median, one, many);
    if let Some(cluster) = &bench.cluster {
        let (stack, plan) = (&mut bench.stack, &settings.plan);
        report.kubernetes = Some(cluster.finish(stack, plan, bench.objects).await?);
    }
    Ok(report)
}

impl Bench {
    async fn new(settings: &Settings) -> Result<Self> {
        let mut cluster = match settings.kubernetes {
            true => Some(Cluster::start().await?),
            false => None,
        };
        let options = cluster.as_ref().map(Cluster::options).transpose()?;
        let mut stack = Stack::new(options.unwrap_or_default())?;
        if std::env::var_os("ISTHMUS_KEEP").is_some() {
            eprintln!("bench: input and logs stay in {}", stack.keep().display());
        }
        let generated = settings.plan.write(&stack.config_dir())?;
        let mut objects = 0;
        if let Some(cluster) = &mut cluster {
            eprintln!("bench: creating the objects");
            objects = cluster.load(&stack).await?;
        }
        let bootstrap = bootstrap().await?;
        let (sender, events) = mpsc::channel(EVENTS * settings.clients.max(1));
        let clients = Vec::new();
        Ok(Self {
            stack,
            plan: settings.plan,
            generated,
            bootstrap,
            clients,
            events,
            sender,
            edits: 0,
            cluster,
            objects,
        })
    }

    async fn cold_start(&mut self) -> Result<Start> {
        self.clients.clear();
        for process in [self.stack.pilot.take(), self.stack.controller.take()]
            .into_iter()
            .flatten()
        {
            process.terminate().await?;
        }
        while self.events.try_recv().is_ok() {}
        let start = Instant::now();
        self.stack.start_controller()?;
        self.stack.start_pilot()?;
        self.add_client()?;
        let ready = |port| ready(self.stack.target(port), start);
        let ready = [ready(Port::ControllerHttp), ready(Port::PilotHttp)];
        let complete = self.all_complete(0, start);
        let (complete, ready) = tokio::join!(complete, futures::future::try_join_all(ready));
        let [controller, pilot] = ready?[..] else {
            bail!("two programs have two times");
        };
        if let Some(cluster) = &mut self.cluster {
            cluster.started()?;
        }
        Ok(Start {
            complete: complete?,
            controller,
            pilot,
        })
    }

    fn add_client(&mut self) -> Result<()> {
        let number = self.clients.len();
        let expected = Expected {
            routes: self.plan.routes,
            endpoints: self.plan.services,
            secrets: self.generated.secrets,
        };
        let (address, node) = (
            self.stack.address(Port::Grpc),
            node(&self.bootstrap, number)?,
        );
        self.clients.push(Client::start(
            number,
            address,
            node,
            expected,
            self.sender.clone(),
        ));
        Ok(())
    }

    /// Waits until all clients from `first` on are complete; the time from `start` to the last one.
    async fn all_complete(&mut self, first: usize, start: Instant) -> Result<Duration> {
        let mut waiting: Vec<usize> = (first..self.clients.len()).collect();
        let mut last = start;
        while !waiting.is_empty() {
            let event = self.next_event("complete configuration").await?;
            if event.complete {
                waiting.retain(|client| *client != event.client);
                last = event.at;
            }
        }
        Ok(last - start)
    }

    async fn next_event(&mut self, what: &str) -> Result<Event> {
        match tokio::time::timeout(LIMIT, self.events.recv()).await {
            Ok(Some(event)) => Ok(event),
            _ => {
                self.stack.check_alive()?;
                bail!("not within {LIMIT:?}: {what}\n{}", self.stack.logs())
            }
        }
    }

    /// Brings the number of clients to `count`, reads memory and makes edits.
    async fn round(&mut self, count: usize, settings: &Settings) -> Result<ClientsReport> {
        let (before, start) = (self.clients.len(), Instant::now());
        while self.clients.len() < count {
            self.add_client()?;
        }
        let joined = self.all_complete(before, start).await?;
        tokio::time::sleep(SETTLE).await;
        let [controller, pilot] = self.pids()?;
        let (controller_memory, pilot_memory) =
            (usage::resident(controller)?, usage::resident(pilot)?);
        eprintln!("bench: {} edits with {count} clients", settings.edits);
        let changes = self.changes(settings).await?;
        Ok(ClientsReport {
            clients: count,
            joined,
            controller_memory,
            pilot_memory,
            changes,
        })
    }

    fn pids(&self) -> Result<[u32; 2]> {
        let pid = |process: &Option<process::Process>| {
            process
                .as_ref()
                .map(process::Process::pid)
                .context("not running")
        };
        Ok([pid(&self.stack.controller)?, pid(&self.stack.pilot)?])
    }

    fn cpu(&self) -> Result<Duration> {
        let [controller, pilot] = self.pids()?;
        Ok(usage::cpu(controller)? + usage::cpu(pilot)?)
    }

    async fn changes(&mut self, settings: &Settings) -> Result<Changes> {
        let mut latencies = Vec::with_capacity(settings.edits);
        let mut bytes = 0;
        let cpu = self.cpu()?;
        for _ in 0..settings.edits {
            let (latency, received) = self.edit().await?;
            latencies.push(latency);
            bytes += received;
            tokio::time::sleep(settings.pause).await;
        }
        let cpu = self.cpu()? - cpu;
        Ok(Changes::new(
            latencies,
            cpu,
            bytes / self.clients.len().max(1),
        ))
    }

    /// Edits one route; the time until the last client's acknowledgement, and the bytes that all clients got.
    async fn edit(&mut self) -> Result<(Duration, usize)> {
        self.edits += 1;
        let turn = usize::try_from(self.edits)? % self.generated.edited.len();
        let host = self
            .generated
            .edited
            .get(turn)
            .copied()
            .context("a host to edit")?;
        let text = self.plan.ingress(host, &format!("/edit-{}", self.edits));
        let mut waiting: Vec<bool> = vec![true; self.clients.len()];
        let (mut left, mut bytes) = (waiting.len(), 0);
        let start = match &self.cluster {
            Some(cluster) => cluster.edit(&text).await?,
            None => {
                let start = Instant::now();
                self.stack.write(&Plan::file(host), &text)?;
                start
            }
        };
        let mut last = start;
        while left > 0 {
            let event = self.next_event("acknowledged edit").await?;
            bytes += event.bytes;
            if event.marker == Some(self.edits)
                && let Some(waits) = waiting.get_mut(event.client)
                && std::mem::take(waits)
            {
                left -= 1;
                last = last.max(event.at);
            }
        }
        Ok((last - start, bytes))
    }
}

/// The time from `start` until a program says that it is ready.
async fn ready(target: Target, start: Instant) -> Result<Duration> {
    let request = Exchange::get("localhost", "/ready");
    process::wait_until("both programs are ready", LIMIT, async || {
        let answer = request.send(&target).await.ok()?;
        (answer.status == 200).then(|| start.elapsed())
    })
    .await
}
