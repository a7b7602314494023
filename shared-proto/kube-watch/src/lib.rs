//! An API server as a source of typed objects: the Kubernetes twin of `manifest-dir`.
//!
//! In: the caller's [`KindTable`], the namespaces to watch and a connection. Out: the same
//! [`Change`](manifest_dir::Change)s as those of a directory. The first one is the complete state over all kinds, later
//! ones are differences.
//!
//! * Each kind in each namespace is a *feed*: listed in pages, then watched. A feed remembers the version of every object,
//!   so that a new list after a lost connection tells differences only.
//! * Objects are decoded one by one. One that has not the shape of its kind is reported, its last good version stays, and
//!   nothing else is affected.
//! * An API server that is away has deleted nothing: only an object that is missing from a complete list, or whose deletion
//!   was told, is gone.
//! * A kind that is not installed (a CRD) counts as empty and is looked for again, quietly.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod backoff;
mod collector;
mod connect;
mod discover;
mod feed;
mod health;
mod known;
mod metrics;
mod options;
mod pending;
mod waiting;
mod wire;

pub use backoff::Backoff;
pub use connect::{ConnectError, connect};
pub use metrics::WatchMetrics;
pub use options::{Options, Selection};
pub use waiting::Waiting;

use std::sync::Arc;

use kube::Client;
use manifest_dir::{KindTable, Scope, Watch};
use tokio::sync::mpsc;

use crate::collector::Collector;
use crate::feed::{Feed, FeedId};

/// Messages of feeds that wait to be merged; when full, feeds stop to read.
const FEED_QUEUE: usize = 256;
/// Changes that wait for the consumer; when full, further ones are merged.
const CHANGE_QUEUE: usize = 1;

/// Starts to watch all kinds of `table`, each in a task of its own. Everything ends when the [`Watch`] is dropped.
pub fn watch<T: Send + Sync + 'static>(
    client: &Client,
    table: KindTable<T>,
    options: &Options,
    metrics: &WatchMetrics,
) -> Watch<T> {
    let table = Arc::new(table);
    let (messages, inbox) = mpsc::channel(FEED_QUEUE);
    let mut count = 0;
    for (api_version, kind, scope) in table.kinds() {
        let namespaces: Vec<Option<&String>> = match scope {
            Scope::Namespaced if !options.namespaces.is_empty() => {
                options.namespaces.iter().map(Some).collect()
            }
            Scope::Namespaced | Scope::Cluster => vec![None],
        };
        for namespace in namespaces {
            let id = FeedId {
                index: count,
                api_version,
                kind,
                namespace: namespace.map(|name| Arc::from(name.as_str())),
            };
            let selection = options.selections.get(kind).cloned().unwrap_or_default();
            options.waiting.begin(&id);
            let feed = Feed::new(
                (id, selection),
                client.clone(),
                table.clone(),
                metrics.of_feed(kind),
                messages.clone(),
            );
            tokio::spawn(feed.run());
            count += 1;
        }
    }
    let (out, changes) = mpsc::channel(CHANGE_QUEUE);
    let collector = Collector::new(count, out, options.waiting.clone());
    tokio::spawn(collector.run(inbox));
    Watch::of(changes)
}

#[cfg(test)]
mod tests;
