//! A Kubernetes cluster as a source: the same kinds as those of a directory, watched at the API server.

use kube::Client;
use kube_watch::{Options, WatchMetrics};

use super::manifests::{Manifests, table};
use crate::model::Scope;

/// Starts to follow the cluster, as far as `scope` needs it.
pub fn cluster(client: &Client, scope: &Scope, metrics: &WatchMetrics) -> Manifests {
    let options = Options::of_namespaces(scope.source_namespaces());
    Manifests::of(kube_watch::watch(client, table(), &options, metrics))
}
