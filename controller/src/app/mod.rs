//! Wiring: the one place that sees all stages.

mod audit;
mod hold_off;
mod http;
mod offline;
mod pipeline;
mod reference;
mod sharing;
mod source;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use daemon::admin::{self, Readiness};
use daemon::{flags, listen, logging, signal};
use imbl::OrdSet;
use kube_watch::Waiting;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::server::TcpIncoming;
use tracing::{error, info, warn};
use xds_engine::{ServerOptions, ads_service};

pub use pipeline::{Outcome, Pipeline};

use crate::args::{Args, Command, ReferenceFormat, ServeArgs};
use crate::ingest::ObjectSource;
use crate::metrics::Metrics;
use crate::model::{Diagnostic, ObjectRef, Reports, Scope, Severity};
use crate::xds::{ConfigMaps, McpSource};

/// How long streams get to end after a signal.
const DRAIN: Duration = Duration::from_secs(2);
/// Server pings on idle MCP connections, and how long an answer may take.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));

/// Runs what the command line asks for. Exit codes: 0 done, 1 failure or errors in the input, 2 mistakes in flags.
pub fn run(args: Args) -> ExitCode {
    match args.command {
        Command::Serve(serve_args) => {
            if let Err(error) = logging::init(&args.log) {
                eprintln!("error: {error}");
                return flags::USAGE.into();
            }
            match serve(*serve_args, &args.ignored) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) if is_usage(&error) => {
                    eprintln!("error: {error:#}");
                    flags::USAGE.into()
                }
                Err(error) => {
                    error!(reason = format!("{error:#}"), "controller failed");
                    ExitCode::FAILURE
                }
            }
        }
        Command::Translate(translate_args) => {
            let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr().lock());
            verdict(offline::run(*translate_args, &mut out, &mut err))
        }
        Command::Audit(audit_args) => {
            let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr().lock());
            verdict(audit::run(*audit_args, &mut out, &mut err))
        }
        Command::Annotations(args) => print(&match args.output {
            ReferenceFormat::Markdown => reference::markdown(),
            ReferenceFormat::Json => format!("{:#}\n", reference::json()),
        }),
        Command::Flags => print(&crate::args::reference()),
    }
}

/// Exit code of a command on manifests: whether it found nothing wrong, or why its flags or files cannot be used.
fn verdict(clean: anyhow::Result<bool>) -> ExitCode {
    match clean {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            flags::USAGE.into()
        }
    }
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A flag whose value turned out to be unusable.
#[derive(Debug, thiserror::Error)]
#[error("{flag} {value}: {reason}")]
struct FlagError {
    flag: &'static str,
    value: String,
    reason: String,
}

fn is_usage(error: &anyhow::Error) -> bool {
    error.is::<FlagError>()
        || error.is::<listen::BindError>()
        || error.is::<kube_watch::ConnectError>()
}

#[tokio::main]
async fn serve(args: ServeArgs, ignored: &[String]) -> anyhow::Result<()> {
    let mut shutdown = signal::Shutdown::install()?;
    if !ignored.is_empty() {
        info!(flags = ignored.join(" "), "flags without effect were given");
    }
    let metrics = Metrics::default();
    let scope = Arc::new(Scope::from(args.scope.clone()));
    let waiting = Waiting::default();
    let (source, client) = source::open(&args, &scope, &metrics, &waiting).await?;
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let readiness = Readiness::waiting_for("the first complete load is not built yet")
        .with_details(move || waiting.to_string());
    daemon::metrics::register(&mut registry, &readiness);
    let (configs, configs_seen) = watch::channel(Arc::new(ConfigMaps::default()));
    let (reports, reports_seen) = watch::channel(Arc::new(Reports::default()));
    let (served, served_seen) = watch::channel(None);

    let mut tasks: JoinSet<anyhow::Result<&'static str>> = JoinSet::new();
    let (stop, stopping) = watch::channel(());
    let http = listen::bind("--http-address", &args.http_address).await?;
    info!(address = %http.local_addr()?, "serving http");
    let router = http::router(
        readiness.clone(),
        registry,
        configs_seen.clone(),
        reports_seen.clone(),
    );
    let stopped = wait_for_stop(stopping.clone());
    let access = args.debug_access;
    tasks.spawn(async move {
        Ok(admin::serve(http, router, access, stopped)
            .await
            .map(|()| "http")?)
    });

    if let (Some(client), Some(settings)) = (client, source::settings(&args.status, &scope)) {
        let inputs = (served_seen, reports_seen);
        let (metrics, stop) = (metrics.clone(), stopping.clone());
        tasks.spawn(source::report_back(client, settings, inputs, metrics, stop));
    }
    let publisher = Publisher {
        configs,
        reports,
        served,
        metrics: metrics.clone(),
        readiness: readiness.clone(),
    };
    tasks.spawn(build(
        source,
        Pipeline::new(scope),
        publisher,
        stopping.clone(),
    ));

    let server = async {
        tokio::select! {
            () = readiness.ready() => {}
            Some(result) = tasks.join_next() => return Err(unexpected(result)),
        }
        let mcp = listen::bind("--mcp-address", &args.mcp_address).await?;
        info!(address = %mcp.local_addr()?, "serving mcp");
        tasks.spawn(serve_mcp(
            mcp,
            McpSource::new(configs_seen, metrics),
            stopping,
        ));
        match tasks.join_next().await {
            Some(result) => Err(unexpected(result)),
            None => Ok(()),
        }
    };
    tokio::select! {
        signal = shutdown.wait() => info!(signal, "stopping"),
        result = server => result?,
    }
    readiness.set_waiting("the controller is stopping");
    drop(stop);
    if tokio::time::timeout(DRAIN, drain(&mut tasks))
        .await
        .is_err()
    {
        warn!("streams did not end in time");
    }
    Ok(())
}

/// Completes when the sender is dropped.
async fn wait_for_stop(mut stopping: watch::Receiver<()>) {
    while stopping.changed().await.is_ok() {}
}

fn unexpected(
    result: Result<anyhow::Result<&'static str>, tokio::task::JoinError>,
) -> anyhow::Error {
    match result {
        Ok(Ok(task)) => anyhow::anyhow!("task {task} ended"),
        Ok(Err(error)) => error,
        Err(panic) => panic.into(),
    }
}

async fn drain(tasks: &mut JoinSet<anyhow::Result<&'static str>>) {
    while tasks.join_next().await.is_some() {}
}

async fn serve_mcp(
    listener: TcpListener,
    source: McpSource,
    stopping: watch::Receiver<()>,
) -> anyhow::Result<&'static str> {
    let (interval, timeout) = KEEPALIVE;
    tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(interval))
        .http2_keepalive_timeout(Some(timeout))
        .add_service(ads_service(Arc::new(source), ServerOptions::default()))
        .serve_with_incoming_shutdown(
            TcpIncoming::from(listener).with_nodelay(Some(true)),
            wait_for_stop(stopping),
        )
        .await?;
    Ok("mcp server")
}

/// Where results go.
struct Publisher {
    configs: watch::Sender<Arc<ConfigMaps>>,
    reports: watch::Sender<Arc<Reports>>,
    served: watch::Sender<Option<OrdSet<ObjectRef>>>,
    metrics: Metrics,
    readiness: Readiness,
}

/// Takes in changes and publishes what they come to, until told to stop. With it the publisher goes, which ends the
/// streams of the clients.
async fn build(
    mut source: impl ObjectSource,
    mut pipeline: Pipeline,
    publisher: Publisher,
    stopping: watch::Receiver<()>,
) -> anyhow::Result<&'static str> {
    let stop = wait_for_stop(stopping);
    tokio::pin!(stop);
    let mut built = Instant::now();
    loop {
        let next = hold_off::next(&mut source, built);
        let change = tokio::select! {
            change = next => change.context("the source of objects ended")?,
            () = &mut stop => return Ok("build"),
        };
        let started = Instant::now();
        let outcome = tokio::task::block_in_place(|| pipeline.apply(change));
        publisher.publish(&pipeline, &outcome, started);
        built = Instant::now();
    }
}

impl Publisher {
    /// Publishes the configs first, then says that they are there, then reports.
    fn publish(&self, pipeline: &Pipeline, outcome: &Outcome, started: Instant) {
        if outcome.resources > 0 {
            self.configs.send_replace(Arc::new(pipeline.snapshot()));
            self.metrics.builds.inc();
        }
        self.metrics
            .build_seconds
            .observe(started.elapsed().as_secs_f64());
        self.metrics.units_translated.inc_by(outcome.units as u64);
        self.metrics.units.set(count(pipeline.unit_count()));
        self.metrics.ingresses.set(count(pipeline.ingress_count()));
        info!(
            units = outcome.units,
            resources = outcome.resources,
            milliseconds = started.elapsed().as_millis() as u64,
            "built"
        );
        self.readiness.set_ready();
        if outcome.reports_changed {
            self.reports
                .send_replace(Arc::new(pipeline.reports().clone()));
        }
        self.served.send_if_modified(|known| {
            let differs = known.as_ref() != Some(pipeline.served());
            if differs {
                *known = Some(pipeline.served().clone());
            }
            differs
        });
        for diagnostic in &outcome.new_diagnostics {
            self.metrics.diagnostics(diagnostic.reason).inc();
            log(diagnostic);
        }
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn log(diagnostic: &Diagnostic) {
    let object = diagnostic.object.as_ref().map(ToString::to_string);
    let place = diagnostic.place.as_ref().map(ToString::to_string);
    let Diagnostic {
        field,
        reason,
        message,
        ..
    } = diagnostic;
    let reason = reason.as_str();
    match diagnostic.severity() {
        Severity::Error => warn!(
            object,
            place,
            field,
            reason,
            detail = message,
            "object is wrong"
        ),
        Severity::Warning => {
            info!(
                object,
                place,
                field,
                reason,
                detail = message,
                "object is partly ignored"
            );
        }
    }
}
