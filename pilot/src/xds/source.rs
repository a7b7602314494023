//! Admits proxies and gives them the snapshots of their class.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;
use tonic::Status;
use tracing::warn;
use xds_engine::types::ENVOY;
use xds_engine::{ClientInfo, ServerEvent, Source, TypeTable};

use super::class::ClassSnapshot;
use super::connections::Connections;
use super::updater::Handle;
use crate::metrics::Metrics;
use crate::model::proxy::Proxy;

/// The xDS source of a plaintext port.
#[derive(Debug)]
pub struct PilotSource {
    updater: Handle,
    connections: Arc<Connections>,
    metrics: Metrics,
    /// Send key material to any peer.
    allow_plaintext_sds: bool,
    told: AtomicBool,
}

impl PilotSource {
    /// A source of what the updater generates.
    pub fn new(
        updater: Handle,
        connections: Arc<Connections>,
        metrics: Metrics,
        allow_plaintext_sds: bool,
    ) -> Self {
        let told = AtomicBool::new(false);
        Self {
            updater,
            connections,
            metrics,
            allow_plaintext_sds,
            told,
        }
    }

    /// Whether key material may go to this client over a connection that is not encrypted.
    fn secrets(&self, client: &ClientInfo) -> bool {
        let local = client
            .peer
            .is_some_and(|peer| peer.ip().to_canonical().is_loopback());
        if self.allow_plaintext_sds || local {
            return true;
        }
        if !self.told.swap(true, Ordering::Relaxed) {
            let peer = client.peer.map(|peer| peer.to_string()).unwrap_or_default();
            warn!(
                node = client.node.id,
                peer,
                "certificates are not sent over plaintext to a peer that is not on loopback, so its HTTPS \
                 servers are left out; --allow-plaintext-sds sends them"
            );
        }
        false
    }
}

impl Source for PilotSource {
    type Snapshot = ClassSnapshot;

    async fn open(
        &self,
        client: &ClientInfo,
    ) -> Result<watch::Receiver<Arc<ClassSnapshot>>, Status> {
        let proxy = Proxy::from_node(&client.node).map_err(|error| {
            warn!(%error, "refused a proxy");
            Status::invalid_argument(error.to_string())
        })?;
        let secrets = self.secrets(client);
        let snapshots = self.updater.open(proxy.clone(), secrets).await;
        let snapshots =
            snapshots.ok_or_else(|| Status::unavailable("the pilot is shutting down"))?;
        self.connections
            .open(client, &proxy, snapshots.clone(), &self.metrics);
        Ok(snapshots)
    }

    fn types(&self) -> TypeTable {
        ENVOY
    }

    fn observe(&self, client: &ClientInfo, event: &ServerEvent) {
        self.connections.observe(client, event, &self.metrics);
    }
}
