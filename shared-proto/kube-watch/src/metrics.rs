//! Metrics of the watches; both tiers register them under the same names. The number of series depends on the kinds that
//! are watched, not on objects or namespaces.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    kind: &'static str,
    purpose: &'static str,
}

/// Handles; clones share their values.
#[derive(Clone, Debug)]
pub struct WatchMetrics {
    purpose: &'static str,
    failing: Family<Labels, Gauge>,
    errors: Family<Labels, Counter>,
    lists: Family<Labels, Counter>,
    events: Family<Labels, Counter>,
    objects: Family<Labels, Gauge>,
}

impl Default for WatchMetrics {
    fn default() -> Self {
        Self {
            purpose: "input",
            failing: Family::default(),
            errors: Family::default(),
            lists: Family::default(),
            events: Family::default(),
            objects: Family::default(),
        }
    }
}

impl WatchMetrics {
    /// The same metrics for watches with another purpose than to read the input: the label `purpose` tells them apart.
    pub fn with_purpose(&self, purpose: &'static str) -> Self {
        Self {
            purpose,
            ..self.clone()
        }
    }

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
        registry.register(
            "isthmus_kubernetes_watch_events",
            "Changes of objects that watches told, marks without an object not included",
            self.events.clone(),
        );
        registry.register(
            "isthmus_kubernetes_objects",
            "Objects that are followed",
            self.objects.clone(),
        );
    }

    /// The part of one feed.
    pub(crate) fn of_feed(&self, kind: &'static str) -> FeedMetrics {
        let labels = Labels {
            kind,
            purpose: self.purpose,
        };
        FeedMetrics {
            errors: self.errors.get_or_create_owned(&labels),
            lists: self.lists.get_or_create_owned(&labels),
            events: self.events.get_or_create_owned(&labels),
            failing: self.failing.get_or_create_owned(&labels),
            objects: self.objects.get_or_create_owned(&labels),
            is_failing: false,
            known: 0,
        }
    }
}

/// What one feed adds to the metrics. Several feeds may share series: each takes its part of the gauges back when it ends.
#[derive(Debug)]
pub(crate) struct FeedMetrics {
    pub(crate) errors: Counter,
    pub(crate) lists: Counter,
    pub(crate) events: Counter,
    pub(crate) failing: Gauge,
    pub(crate) objects: Gauge,
    is_failing: bool,
    known: i64,
}

impl FeedMetrics {
    pub(crate) fn set_failing(&mut self, failing: bool) {
        let before = std::mem::replace(&mut self.is_failing, failing);
        self.failing.inc_by(i64::from(failing) - i64::from(before));
    }

    pub(crate) fn set_objects(&mut self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let before = std::mem::replace(&mut self.known, count);
        self.objects.inc_by(count - before);
    }
}

impl Drop for FeedMetrics {
    fn drop(&mut self) {
        self.set_failing(false);
        self.set_objects(0);
    }
}
