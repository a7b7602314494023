//! All metrics of the controller. The number of series does not depend on what users configure.

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
            sent: Family::default(),
            diagnostics: Family::default(),
        }
    }
}

impl Metrics {
    /// Registers everything. Counters get the suffix `_total`.
    pub fn register(&self, registry: &mut Registry) {
        for kind in Kind::ALL {
            self.resources_sent(*kind);
        }
        for reason in Reason::ALL {
            self.diagnostics(*reason);
        }
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
