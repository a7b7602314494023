//! The registry as a directory of manifests or a Kubernetes cluster.

use std::io;
use std::path::Path;

use kube::Client;
use kube_watch::Options;
use manifest_dir::{FileProblems, Watch};
use tracing::warn;

use super::{Fact, Registry, kind_table};
use crate::metrics::{KindLabel, Metrics, ReasonLabel};
use crate::model::change::Change;

/// Follows the Services, EndpointSlices and Secrets of a directory or a cluster.
#[derive(Debug)]
pub struct RegistrySource {
    watch: Watch<Fact>,
    registry: Registry,
    metrics: Metrics,
    /// The complete state was given.
    started: bool,
}

impl RegistrySource {
    /// Starts to follow `dir`. `domain` is that of the cluster, for example `cluster.local`.
    ///
    /// # Errors
    /// When the watching thread cannot be started.
    pub fn new(dir: &Path, domain: &str, metrics: Metrics) -> io::Result<Self> {
        let watch = manifest_dir::watch(dir, kind_table(domain))?;
        Ok(Self::of(watch, domain, metrics))
    }

    /// Starts to follow a cluster.
    pub fn cluster(client: &Client, options: &Options, domain: &str, metrics: Metrics) -> Self {
        let watch = kube_watch::watch(client, kind_table(domain), options, &metrics.watches);
        Self::of(watch, domain, metrics)
    }

    fn of(watch: Watch<Fact>, domain: &str, metrics: Metrics) -> Self {
        Self {
            watch,
            registry: Registry::new(domain),
            metrics,
            started: false,
        }
    }

    /// The next changes. The first batch is the complete state and comes even when it is empty; later ones are never
    /// empty. `None` when nothing is followed any more.
    pub async fn next(&mut self) -> Option<Vec<Change>> {
        loop {
            let change = self.watch.next().await?;
            self.report(&change.problems);
            let kinds = change
                .upserts
                .iter()
                .map(|object| &object.key)
                .chain(&change.removed);
            for kind in kinds.map(|key| key.kind) {
                self.metrics
                    .registry_changes
                    .get_or_create(&KindLabel { kind })
                    .inc();
            }
            let changes = self.registry.apply(change);
            let first = !std::mem::replace(&mut self.started, true);
            if first || !changes.is_empty() {
                return Some(changes);
            }
        }
    }

    fn report(&self, files: &[FileProblems]) {
        for problem in files.iter().flat_map(|file| &file.problems) {
            let reason = problem.reason.as_str();
            self.metrics
                .rejected
                .get_or_create(&ReasonLabel { reason })
                .inc();
            warn!(%problem, reason, "object is not usable");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::model::change::SecretState;

    #[tokio::test]
    async fn first_the_complete_state_then_differences() {
        let dir = tempfile::tempdir().unwrap();
        let (metrics, _) = Metrics::new();
        let mut source = RegistrySource::new(dir.path(), "cluster.local", metrics).unwrap();
        assert_eq!(source.next().await, Some(vec![]));
        let manifest =
            "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 1}]}}\n";
        fs::write(dir.path().join("a.yaml"), manifest).unwrap();
        let changes = source.next().await.unwrap();
        assert!(
            matches!(&changes[..], [Change::Service(_, Some(_))]),
            "{changes:?}"
        );
        // A broken document and one that changes nothing are skipped; the next difference comes.
        let rest = "---\n{kind: Service, apiVersion: v1, metadata: [}\n---\n\
            {apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {tls.crt: x, tls.key: y}}\n";
        fs::write(
            dir.path().join("a.yaml"),
            format!("# touched\n{manifest}{rest}"),
        )
        .unwrap();
        let changes = source.next().await.unwrap();
        assert!(
            matches!(&changes[..], [Change::Secret(_, SecretState::Invalid(_))]),
            "{changes:?}"
        );
        fs::remove_file(dir.path().join("a.yaml")).unwrap();
        let changes = source.next().await.unwrap();
        assert_eq!(changes.len(), 2, "{changes:?}");
    }
}
