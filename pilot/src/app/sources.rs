//! Where the pilot's input comes from, and whether all of it is there.

use std::sync::Arc;

use anyhow::{Context, bail};
use daemon::flags;
use kube::Client;
use kube_watch::{Options, Waiting};
use tokio::sync::watch;
use tracing::warn;

use super::Tasks;
use crate::args::ServeArgs;
use crate::ingest::mcp::{McpOptions, McpSource};
use crate::ingest::merge::Merge;
use crate::ingest::registry::RegistrySource;
use crate::metrics::Metrics;
use crate::xds::updater::Handle;

/// The sources, started. Clones see the same.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    firsts: Vec<First>,
    /// Kinds of the cluster that were not read so far.
    kinds: Waiting,
}

/// One source.
#[derive(Clone, Debug)]
struct First {
    name: String,
    /// Whether its first complete batch was handed over.
    seen: watch::Receiver<bool>,
}

impl Sources {
    /// Starts them all; what they tell goes to `handle`.
    ///
    /// # Errors
    /// When there is no registry, or its directory cannot be followed.
    pub(super) fn start(
        args: &ServeArgs,
        client: Option<&Client>,
        handle: &Handle,
        metrics: &Metrics,
        tasks: &mut Tasks,
    ) -> anyhow::Result<Self> {
        let kinds = Waiting::default();
        let mut registry = open_registry(args, client, &kinds, metrics)?;
        let mut firsts = Vec::new();
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
            let first = announce(&mut firsts, format!("the configs of xds://{}", address.0));
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
        let first = announce(&mut firsts, "Services, endpoints and Secrets".to_owned());
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
        Ok(Self { firsts, kinds })
    }

    /// Completes when all of them told everything once and it is in use.
    pub(super) async fn complete(mut self, handle: &Handle) {
        for first in &mut self.firsts {
            // An error means that the source ended, which ends the process.
            let _ = first.seen.wait_for(|seen| *seen).await;
        }
        handle.barrier().await;
    }

    /// What did not arrive yet, as text; empty when everything did.
    pub(super) fn missing(&self) -> String {
        let late = self.firsts.iter().filter(|first| !*first.seen.borrow());
        let mut missing: Vec<String> = late.map(|first| first.name.clone()).collect();
        let kinds = self.kinds.to_string();
        if !kinds.is_empty() {
            missing.push(kinds);
        }
        missing.join("; ")
    }
}

fn announce(firsts: &mut Vec<First>, name: String) -> watch::Sender<bool> {
    let (first, seen) = watch::channel(false);
    firsts.push(First { name, seen });
    first
}

fn open_registry(
    args: &ServeArgs,
    client: Option<&Client>,
    kinds: &Waiting,
    metrics: &Metrics,
) -> anyhow::Result<RegistrySource> {
    let metrics = metrics.clone();
    let directory = match (client, &args.registry_dir) {
        (Some(client), _) => {
            let mut options = Options::of_namespaces(flags::names(&args.watch_namespace));
            options.waiting = kinds.clone();
            if !options.namespaces.is_empty() {
                options.namespaces.insert(args.namespace.clone());
            }
            let registry = RegistrySource::cluster(client, &options, &args.domain, metrics);
            return Ok(registry);
        }
        (None, Some(directory)) => directory,
        (None, None) => bail!("neither a cluster nor --registry-dir is given"),
    };
    if !directory.is_dir() {
        warn!(directory = %directory.display(), "--registry-dir is not there yet; waiting for it");
    }
    RegistrySource::new(directory, &args.domain, metrics)
        .with_context(|| format!("cannot follow --registry-dir {}", directory.display()))
}
