//! A Kubernetes cluster as a source: the same kinds as those of a directory, watched at the API server.

use kube::Client;
use kube_watch::{Options, Waiting, WatchMetrics};

use super::manifests::{Manifests, table};
use crate::model::Scope;

/// Starts to follow the cluster, as far as `scope` needs it. `waiting` is told what was not read so far.
pub fn cluster(
    client: &Client,
    scope: &Scope,
    metrics: &WatchMetrics,
    waiting: &Waiting,
) -> Manifests {
    let mut options = Options::of_namespaces(scope.source_namespaces());
    options.waiting = waiting.clone();
    Manifests::of(kube_watch::watch(client, table(), &options, metrics))
}
