//! All metrics of the controller. The number of series does not depend on what users configure.

use kube_watch::WatchMetrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use shared_proto::Kind;

use crate::model::Reason;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TypeLabel {
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

/// What became of a write to the Kubernetes API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// Done.
    Written,
    /// Somebody else wrote meanwhile, or the Event is there already.
    Conflict,
    /// The object is gone.
    Gone,
    /// The API server refused it, or did not answer.
    Refused,
}

impl WriteResult {
    /// All results.
    pub const ALL: [Self; 4] = [Self::Written, Self::Conflict, Self::Gone, Self::Refused];

    fn as_str(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::Refused => "refused",
        }
    }
}

/// Handles to the metrics; clones share their values.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Units that were translated.
    pub units_translated: Counter,
    /// Units with output.
    pub units: Gauge,
    /// Ingresses that are served.
    pub ingresses: Gauge,
    /// Builds that changed the output.
    pub builds: Counter,
    /// Time from a change to its publication.
    pub build_seconds: Histogram,
    /// MCP streams that are open.
    pub mcp_clients: Gauge,
    /// Responses that an MCP client refused.
    pub mcp_rejects: Counter,
    /// Watches of the Kubernetes API.
    pub watches: WatchMetrics,
    /// 1 while this replica writes status and Events.
    pub leader: Gauge,
    status_writes: Family<ResultLabel, Counter>,
    events: Family<ResultLabel, Counter>,
    sent: Family<TypeLabel, Counter>,
    diagnostics: Family<ReasonLabel, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            units_translated: Counter::default(),
            units: Gauge::default(),
            ingresses: Gauge::default(),
            builds: Counter::default(),
            build_seconds: Histogram::new(exponential_buckets(0.000_1, 4.0, 10)),
            mcp_clients: Gauge::default(),
            mcp_rejects: Counter::default(),
            watches: WatchMetrics::default(),
            leader: Gauge::default(),
            status_writes: Family::default(),
            events: Family::default(),
            sent: Family::default(),
            diagnostics: Family::default(),
        }
    }
}

impl Metrics {
    /// Registers everything. Counters get the suffix `_total`.
    pub fn register(&self, registry: &mut Registry) {
        self.watches.register(registry);
        for kind in Kind::ALL {
            self.resources_sent(*kind);
        }
        for reason in Reason::ALL {
            self.diagnostics(*reason);
        }
        for result in WriteResult::ALL {
            self.status_writes(result);
            self.events(result);
        }
        registry.register(
            "isthmus_leader",
            "1 while this replica writes status and Events",
            self.leader.clone(),
        );
        registry.register(
            "isthmus_status_writes",
            "Writes of the status of Ingresses",
            self.status_writes.clone(),
        );
        registry.register(
            "isthmus_events",
            "Events about mistakes in users' objects",
            self.events.clone(),
        );
        registry.register(
            "isthmus_units_translated",
            "Units of translation (hosts) that were translated",
            self.units_translated.clone(),
        );
        registry.register(
            "isthmus_mcp_resources_sent",
            "Resources sent to MCP clients",
            self.sent.clone(),
        );
        registry.register(
            "isthmus_diagnostics",
            "Mistakes found in users' objects, counted when they appear",
            self.diagnostics.clone(),
        );
        registry.register(
            "isthmus_controller_units",
            "Units with output",
            self.units.clone(),
        );
        registry.register(
            "pilot_total_ingresses",
            "Ingresses that are served",
            self.ingresses.clone(),
        );
        registry.register(
            "isthmus_controller_builds",
            "Builds that changed the output",
            self.builds.clone(),
        );
        registry.register(
            "isthmus_controller_build_seconds",
            "Time to build and publish a change",
            self.build_seconds.clone(),
        );
        registry.register(
            "isthmus_controller_mcp_clients",
            "Open MCP streams",
            self.mcp_clients.clone(),
        );
        registry.register(
            "isthmus_controller_mcp_rejects",
            "Responses that an MCP client refused",
            self.mcp_rejects.clone(),
        );
    }

    /// Counter of writes of the status of Ingresses.
    pub fn status_writes(&self, result: WriteResult) -> Counter {
        let result = result.as_str();
        self.status_writes
            .get_or_create_owned(&ResultLabel { result })
    }

    /// Counter of Events.
    pub fn events(&self, result: WriteResult) -> Counter {
        let result = result.as_str();
        self.events.get_or_create_owned(&ResultLabel { result })
    }

    /// Counter of resources of one kind sent to MCP clients.
    pub fn resources_sent(&self, kind: Kind) -> Counter {
        let label = TypeLabel {
            r#type: kind.name(),
        };
        self.sent.get_or_create_owned(&label)
    }

    /// Counter of mistakes of one sort.
    pub fn diagnostics(&self, reason: Reason) -> Counter {
        let label = ReasonLabel {
            reason: reason.as_str(),
        };
        self.diagnostics.get_or_create_owned(&label)
    }
}
