//! Metrics of the watches; both tiers register them under the same names.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Handles; clones share their values.
#[derive(Clone, Debug, Default)]
pub struct WatchMetrics {
    /// Feeds that the API server does not answer at the moment.
    pub failing: Gauge,
    /// Requests to the API server that failed, broken streams included.
    pub errors: Counter,
    /// Complete lists.
    pub lists: Counter,
}

impl WatchMetrics {
    /// Registers everything. Counters get the suffix `_total`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "isthmus_kubernetes_failing_watches",
            "Watches that the API server does not answer now; their last state stays in use",
            self.failing.clone(),
        );
        registry.register(
            "isthmus_kubernetes_watch_errors",
            "Failed lists and watches, broken streams included",
            self.errors.clone(),
        );
        registry.register(
            "isthmus_kubernetes_lists",
            "Complete lists of a kind",
            self.lists.clone(),
        );
    }
}
