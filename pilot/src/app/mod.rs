//! Wires the parts of `pilot serve` together and ends them together.

mod sources;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use daemon::admin::{self, DebugAccess, Readiness};
use daemon::listen::{self, ListenAddress};
use daemon::signal::Shutdown;
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tracing::{info, warn};
use xds_engine::{AdsService, ServerOptions, ads_service};

use self::sources::Sources;
use crate::args::ServeArgs;
use crate::debug::{self, DebugState};
use crate::metrics::Metrics;
use crate::push::debounce::Debounce;
use crate::security::authenticate::Authenticated;
use crate::security::listener;
use crate::security::setup::Secure;
use crate::xds::class::PushOptions;
use crate::xds::connections::Connections;
use crate::xds::source::PilotSource;
use crate::xds::updater::Updater;

/// Time that open streams get to end at a shutdown.
const DRAIN: Duration = Duration::from_secs(2);

/// Connections after their handshake that wait to be served.
const ACCEPTED: usize = 16;

/// What a connection that is too old gets after it was asked to end: streams of gateways don't end by themselves.
const AGE_GRACE: Duration = Duration::from_secs(1);

/// Tasks of the process; the first one that ends by itself ends all.
type Tasks = JoinSet<anyhow::Result<()>>;

/// Runs `pilot serve` until a signal.
///
/// # Errors
/// When a port cannot be opened or a part of the process fails.
pub async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let mut shutdown = Shutdown::install()?;
    let (metrics, mut metrics_registry) = Metrics::new();
    let client = connect(&args).await?;
    let own = (args.namespace.as_str(), args.domain.as_str());
    let secure = Secure::new(&args.security, client.as_ref(), own, &metrics)?;
    let (stop, stopped) = watch::channel(());
    let mut tasks = Tasks::new();

    let (updater, handle) = Updater::new(push_options(&args), debounce(&args), metrics.clone());
    tasks.spawn(async move {
        updater.run().await;
        Ok(())
    });
    let sources = Sources::start(&args, client.as_ref(), &handle, &metrics, &mut tasks)?;
    let missing = sources.clone();
    let readiness = Readiness::waiting_for("waiting for the first complete configuration")
        .with_details(move || missing.missing());
    daemon::metrics::register(&mut metrics_registry, &readiness);
    let connections = Arc::new(Connections::default());
    let http = listen::bind("--http-address", &args.http_address).await?;
    let monitoring = listen::bind("--monitoring-address", &args.monitoring_address).await?;
    let state = DebugState {
        updater: handle.clone(),
        connections: connections.clone(),
    };
    let pages = admin::ready(readiness.clone()).merge(debug::router(state));
    let metrics_page = admin::metrics(Arc::new(metrics_registry));
    for (listener, router) in [(http, pages), (monitoring, metrics_page)] {
        let served = serve_http(listener, router, args.debug_access, stopped.clone());
        tasks.spawn(served);
    }

    let source = PilotSource::new(
        handle.clone(),
        connections,
        metrics.clone(),
        args.allow_plaintext_sds,
    );
    let service = ads_service(Arc::new(source), ServerOptions::default());
    let grpc = args.grpc_address.clone();
    tasks.spawn(async move {
        sources.complete(&handle).await;
        let stop = stopped.clone();
        // The plaintext port needs no certificate, so it does not wait for one.
        let plain = serve_plaintext(service.clone(), &grpc, stop);
        match secure {
            None => {
                readiness.set_ready();
                plain.await
            }
            Some(secure) => {
                let served = serve_secure(service, secure, metrics, readiness, stopped);
                tokio::try_join!(plain, served).map(drop)
            }
        }
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

/// The way to the cluster; `None` when manifests stand in for it.
async fn connect(args: &ServeArgs) -> anyhow::Result<Option<Client>> {
    if args.registry_dir.is_some() {
        return Ok(None);
    }
    let client = kube_watch::connect(args.kubeconfig.as_deref(), "--registry-dir").await?;
    Ok(Some(client))
}

async fn serve_http(
    listener: TcpListener,
    router: axum::Router,
    access: DebugAccess,
    stopped: watch::Receiver<()>,
) -> anyhow::Result<()> {
    admin::serve(listener, router, access, ended(stopped))
        .await
        .context("the HTTP server failed")
}

/// Opens the xDS port in plain text, now that there is something complete to serve.
async fn serve_plaintext(
    service: AdsService<PilotSource>,
    address: &ListenAddress,
    stopped: watch::Receiver<()>,
) -> anyhow::Result<()> {
    let listener = listen::bind("--grpc-address", address).await?;
    told(&listener, "serving xDS in plain text")?;
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    xds_server()
        .add_service(service)
        .serve_with_incoming_shutdown(incoming, ended(stopped))
        .await
        .context("the xDS server failed")
}

/// Opens the xDS port with TLS as soon as there is a certificate. Gateways need it, so the pilot is not ready before.
async fn serve_secure(
    service: AdsService<PilotSource>,
    secure: Secure,
    metrics: Metrics,
    readiness: Readiness,
    stopped: watch::Receiver<()>,
) -> anyhow::Result<()> {
    let (certificate, mut current) = watch::channel(None);
    let certificates = secure.certificates.run(certificate);
    let served = async move {
        readiness.set_waiting("waiting for a certificate to serve xDS over TLS; the log says why");
        // Certificates are kept up to date as long as this runs.
        current
            .wait_for(Option::is_some)
            .await
            .context("nobody keeps the certificate")?;
        let listener = listen::bind("--secure-grpc-address", &secure.address).await?;
        told(&listener, "serving xDS over TLS")?;
        readiness.set_ready();
        let (connections, incoming) = mpsc::channel(ACCEPTED);
        let accepting = listener::accept(listener, current, connections, metrics);
        let mut server = xds_server();
        if let Some(age) = secure.max_age {
            server = server
                .max_connection_age(age)
                .max_connection_age_grace(AGE_GRACE);
        }
        let serving = server
            .add_service(Authenticated::new(service, secure.authenticator))
            .serve_with_incoming_shutdown(ReceiverStream::new(incoming), ended(stopped));
        let (served, ()) = tokio::join!(serving, accepting);
        served.context("the xDS server failed")
    };
    tokio::select! {
        served = served => served,
        () = certificates => Ok(()),
    }
}

/// What both xDS ports have in common.
fn xds_server() -> Server {
    Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(30)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(1 << 20)
}

fn told(listener: &TcpListener, what: &'static str) -> anyhow::Result<()> {
    let address = listener
        .local_addr()
        .context("the xDS port has no address")?;
    info!(%address, "{what}");
    Ok(())
}

/// Ends with the process.
async fn ended(mut stopped: watch::Receiver<()>) {
    // An error says that the sender is gone, which is what is waited for.
    let _ = stopped.changed().await;
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
