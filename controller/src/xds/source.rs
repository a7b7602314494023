//! What MCP clients are served, and what is counted of it.

use std::sync::Arc;

use shared_proto::Kind;
use tokio::sync::watch;
use tonic::Status;
use tracing::{debug, info, warn};
use xds_engine::{ClientInfo, ServerEvent, Source, TypeSpec, TypeTable};

use super::ConfigMaps;
use crate::metrics::Metrics;

/// Types with content in push order: what others refer to comes first. Both spellings are served.
pub const TYPES: TypeTable = TypeTable::new(&[
    row(
        "networking.istio.io/v1alpha3/ServiceEntry",
        Kind::ServiceEntry,
    ),
    row("networking.istio.io/v1/ServiceEntry", Kind::ServiceEntry),
    row(
        "networking.istio.io/v1alpha3/DestinationRule",
        Kind::DestinationRule,
    ),
    row(
        "networking.istio.io/v1/DestinationRule",
        Kind::DestinationRule,
    ),
    row(
        "networking.istio.io/v1alpha3/EnvoyFilter",
        Kind::EnvoyFilter,
    ),
    row("extensions.istio.io/v1alpha1/WasmPlugin", Kind::WasmPlugin),
    row("networking.istio.io/v1alpha3/Gateway", Kind::Gateway),
    row("networking.istio.io/v1/Gateway", Kind::Gateway),
    row(
        "networking.istio.io/v1alpha3/VirtualService",
        Kind::VirtualService,
    ),
    row(
        "networking.istio.io/v1/VirtualService",
        Kind::VirtualService,
    ),
]);

const fn row(url: &'static str, kind: Kind) -> TypeSpec {
    TypeSpec {
        url,
        short: kind.name(),
        wildcard: true,
    }
}

/// Offers the last output to every client.
#[derive(Debug)]
pub struct McpSource {
    snapshots: watch::Receiver<Arc<ConfigMaps>>,
    metrics: Metrics,
}

impl McpSource {
    /// Serves what `snapshots` brings.
    pub fn new(snapshots: watch::Receiver<Arc<ConfigMaps>>, metrics: Metrics) -> Self {
        Self { snapshots, metrics }
    }
}

impl Source for McpSource {
    type Snapshot = ConfigMaps;

    async fn open(&self, client: &ClientInfo) -> Result<watch::Receiver<Arc<ConfigMaps>>, Status> {
        info!(stream = client.id, node = client.node.id, protocol = ?client.protocol, "mcp client connected");
        self.metrics.mcp_clients.inc();
        Ok(self.snapshots.clone())
    }

    fn types(&self) -> TypeTable {
        TYPES
    }

    fn observe(&self, client: &ClientInfo, event: &ServerEvent) {
        let stream = client.id;
        match event {
            ServerEvent::Sent {
                type_url,
                upserts,
                removed,
                bytes,
                ..
            } => {
                debug!(
                    stream,
                    type_url = &**type_url,
                    upserts,
                    removed,
                    bytes,
                    "sent"
                );
                if let Some(kind) = Kind::from_type_url(type_url) {
                    self.metrics.resources_sent(kind).inc_by(*upserts as u64);
                }
            }
            ServerEvent::Nacked {
                type_url,
                message,
                names,
                ..
            } => {
                self.metrics.mcp_rejects.inc();
                warn!(
                    stream,
                    type_url,
                    message,
                    resources = names.len(),
                    "mcp client refused a response"
                );
            }
            ServerEvent::Acked { .. } | ServerEvent::Stale { .. } => {}
            ServerEvent::Closed => {
                self.metrics.mcp_clients.dec();
                info!(stream, node = client.node.id, "mcp client disconnected");
            }
        }
    }
}
