//! Where objects come from, and who tells their users about them: a directory, or a Kubernetes cluster.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use imbl::OrdSet;
use kube::Client;
use kube_watch::Waiting;
use tokio::sync::watch;

use super::FlagError;
use crate::args::{ServeArgs, StatusArgs};
use crate::ingest::{self, Manifests};
use crate::metrics::Metrics;
use crate::model::{ObjectRef, Reports, Scope};
use crate::status::{self, Inputs, Settings};

/// Opens the directory, or else the cluster, to which the connection is returned too. `waiting` is told what was not read so
/// far of a cluster.
pub(super) async fn open(
    args: &ServeArgs,
    scope: &Scope,
    metrics: &Metrics,
    waiting: &Waiting,
) -> anyhow::Result<(Manifests, Option<Client>)> {
    if let Some(directory) = &args.config_dir {
        let source = Manifests::watch(directory).map_err(|error| FlagError {
            flag: "--config-dir",
            value: directory.display().to_string(),
            reason: format!("{error}; give a folder of manifests"),
        })?;
        return Ok((source, None));
    }
    let client = kube_watch::connect(args.kubeconfig.as_deref(), "--config-dir").await?;
    let source = ingest::cluster(&client, scope, &metrics.watches, waiting);
    Ok((source, Some(client)))
}

/// What the writer of status and Events reads.
pub(super) type Served = watch::Receiver<Option<OrdSet<ObjectRef>>>;

/// Writes status and Events into the cluster until `stop` is closed.
pub(super) async fn report_back(
    client: Client,
    settings: Settings,
    inputs: (Served, watch::Receiver<Arc<Reports>>),
    metrics: Metrics,
    stop: watch::Receiver<()>,
) -> anyhow::Result<&'static str> {
    let (served, reports) = inputs;
    let inputs = Inputs { served, reports };
    status::run(client, settings, inputs, metrics, stop).await;
    Ok("status")
}

/// `None` when nothing is to be written.
pub(super) fn settings(args: &StatusArgs, scope: &Arc<Scope>) -> Option<Settings> {
    let StatusArgs {
        enable_status,
        enable_events,
        status_service_selector,
        leader_election,
        lease_seconds,
        pod_name,
    } = args;
    (*enable_status || *enable_events).then(|| Settings {
        scope: scope.clone(),
        services: status_service_selector.clone(),
        status: *enable_status,
        events: *enable_events,
        identity: identity(pod_name),
        lease: leader_election.then(|| Duration::from_secs(*lease_seconds)),
    })
}

/// Unique for each start of a program: a Pod that was started again is not the holder that it was before.
fn identity(pod: &str) -> String {
    let random = RandomState::new().build_hasher().finish();
    format!("{pod}_{random:016x}")
}
