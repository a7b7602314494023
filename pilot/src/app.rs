//! Wires the parts of `pilot serve` together and ends them together.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use daemon::admin::{self, Readiness};
use daemon::flags;
use daemon::listen::{self, ListenAddress};
use daemon::signal::Shutdown;
use kube_watch::Options;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{info, warn};
use xds_engine::{ServerOptions, ads_service};

use crate::args::ServeArgs;
use crate::debug::{self, DebugState};
use crate::ingest::mcp::{McpOptions, McpSource};
use crate::ingest::merge::Merge;
use crate::ingest::registry::RegistrySource;
use crate::metrics::Metrics;
use crate::push::debounce::Debounce;
use crate::xds::class::PushOptions;
use crate::xds::connections::Connections;
use crate::xds::source::PilotSource;
use crate::xds::updater::{Handle, Updater};

/// Time that open streams get to end at a shutdown.
const DRAIN: Duration = Duration::from_secs(2);

/// Tasks of the process; the first one that ends by itself ends all.
type Tasks = JoinSet<anyhow::Result<()>>;

/// Runs `pilot serve` until a signal.
///
/// # Errors
/// When a port cannot be opened or a part of the process fails.
pub async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let mut shutdown = Shutdown::install()?;
    let (metrics, mut metrics_registry) = Metrics::new();
    let registry = open_registry(&args, &metrics).await?;
    let readiness = Readiness::waiting_for("waiting for the first complete configuration");
    daemon::metrics::register(&mut metrics_registry, &readiness);
    let (stop, stopped) = watch::channel(());
    let mut tasks = Tasks::new();

    let (updater, handle) = Updater::new(push_options(&args), debounce(&args), metrics.clone());
    tasks.spawn(async move {
        updater.run().await;
        Ok(())
    });
    let connections = Arc::new(Connections::default());
    let http = listen::bind("--http-address", &args.http_address).await?;
    let monitoring = listen::bind("--monitoring-address", &args.monitoring_address).await?;
    let state = DebugState {
        updater: handle.clone(),
        connections: connections.clone(),
    };
    let pages = admin::ready(readiness.clone()).merge(debug::router(state));
    tasks.spawn(serve_http(http, pages, stopped.clone()));
    tasks.spawn(serve_http(
        monitoring,
        admin::metrics(Arc::new(metrics_registry)),
        stopped.clone(),
    ));

    let source = PilotSource::new(
        handle.clone(),
        connections,
        metrics.clone(),
        args.allow_plaintext_sds,
    );
    let sources = start_sources(&args, registry, &handle, &metrics, &mut tasks);
    let grpc = args.grpc_address.clone();
    tasks.spawn(async move {
        first_configuration(sources, &handle).await;
        serve_xds(source, grpc, readiness, stopped).await
    });

    let ended = tokio::select! {
        signal = shutdown.wait() => {
            info!(signal, "shutting down");
            Ok(())
        }
        Some(ended) = tasks.join_next() => ended.context("a part of the pilot failed")?,
    };
    drop(stop);
    drain(&mut tasks).await;
    ended
}

fn push_options(args: &ServeArgs) -> PushOptions {
    let mut options = PushOptions {
        scoped_rds: args.routing.enable_scoped_rds,
        on_demand_rds: args.routing.on_demand_rds,
        merge_subset: args.routing.host_rds_merge_subset,
        all_clusters: !args.routing.filter_gateway_clusters,
        domain: args.domain.as_str().into(),
        root_namespace: args.namespace.as_str().into(),
        ..PushOptions::default()
    };
    options.http.websocket = args.routing.websocket;
    options.cluster.concurrency_threshold = args.routing.upstream_concurrency;
    options
}

fn debounce(args: &ServeArgs) -> Debounce {
    Debounce {
        mode: args.debounce.debounce,
        after: args.debounce.debounce_after,
        max: args.debounce.debounce_max.max(args.debounce.debounce_after),
    }
}

/// Tells of every source when its first complete batch was handed over.
type FirstBatches = Vec<watch::Receiver<bool>>;

async fn open_registry(args: &ServeArgs, metrics: &Metrics) -> anyhow::Result<RegistrySource> {
    let Some(directory) = &args.registry_dir else {
        let client = kube_watch::connect(args.kubeconfig.as_deref(), "--registry-dir").await?;
        let mut options = Options::of_namespaces(flags::names(&args.watch_namespace));
        if !options.namespaces.is_empty() {
            options.namespaces.insert(args.namespace.clone());
        }
        let metrics = metrics.clone();
        return Ok(RegistrySource::cluster(
            &client,
            &options,
            &args.domain,
            metrics,
        ));
    };
    if !directory.is_dir() {
        warn!(directory = %directory.display(), "--registry-dir is not there yet; waiting for it");
    }
    RegistrySource::new(directory, &args.domain, metrics.clone())
        .with_context(|| format!("cannot follow --registry-dir {}", directory.display()))
}

fn start_sources(
    args: &ServeArgs,
    mut registry: RegistrySource,
    handle: &Handle,
    metrics: &Metrics,
    tasks: &mut Tasks,
) -> FirstBatches {
    let mut firsts = FirstBatches::new();
    let merge = Arc::new(Merge::new(args.config_source.len()));
    for (at, address) in args.config_source.iter().enumerate() {
        let options = McpOptions {
            address: address.0.to_string(),
            pod: args.pod_name.clone(),
            namespace: args.namespace.clone(),
            domain: args.domain.clone(),
        };
        let (mut source, task) = McpSource::new(options, metrics.clone());
        tasks.spawn(async move {
            task.await;
            Ok(())
        });
        let (first, seen) = watch::channel(false);
        firsts.push(seen);
        let (handle, merge) = (handle.clone(), merge.clone());
        tasks.spawn(async move {
            while let Some(changes) = source.next().await {
                if !handle.changes(merge.apply(at, changes)).await {
                    break;
                }
                first.send_replace(true);
            }
            Ok(())
        });
    }
    let (first, seen) = watch::channel(false);
    firsts.push(seen);
    let handle = handle.clone();
    tasks.spawn(async move {
        while let Some(changes) = registry.next().await {
            if !handle.changes(changes).await {
                break;
            }
            first.send_replace(true);
        }
        Ok(())
    });
    firsts
}

async fn first_configuration(sources: FirstBatches, handle: &Handle) {
    for mut source in sources {
        // An error means that the source ended, which ends the process.
        let _ = source.wait_for(|first| *first).await;
    }
    handle.barrier().await;
}

async fn serve_http(
    listener: TcpListener,
    router: axum::Router,
    mut stopped: watch::Receiver<()>,
) -> anyhow::Result<()> {
    let stop = async move {
        let _ = stopped.changed().await;
    };
    admin::serve(listener, router, stop)
        .await
        .context("the HTTP server failed")
}

/// Opens the xDS port, now that there is something complete to serve.
async fn serve_xds(
    source: PilotSource,
    address: ListenAddress,
    readiness: Readiness,
    mut stopped: watch::Receiver<()>,
) -> anyhow::Result<()> {
    let listener = listen::bind("--grpc-address", &address).await?;
    let local = listener
        .local_addr()
        .context("the xDS port has no address")?;
    info!(address = %local, "serving xDS");
    readiness.set_ready();
    let incoming = tonic::transport::server::TcpIncoming::from(listener).with_nodelay(Some(true));
    let stop = async move {
        let _ = stopped.changed().await;
    };
    tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(30)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(1 << 20)
        .add_service(ads_service(Arc::new(source), ServerOptions::default()))
        .serve_with_incoming_shutdown(incoming, stop)
        .await
        .context("the xDS server failed")
}

/// Waits a little for what can end by itself; xDS streams don't, so the rest is cut off.
async fn drain(tasks: &mut Tasks) {
    let all: std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> =
        Box::pin(async { while tasks.join_next().await.is_some() {} });
    if tokio::time::timeout(DRAIN, all).await.is_err() {
        warn!("cut off what was still open");
    }
    tasks.shutdown().await;
}
