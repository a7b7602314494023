//! Admits proxies and gives them the snapshots of their class.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use daemon::seldom::Seldom;
use tokio::sync::watch;
use tonic::Status;
use tracing::warn;
use xds_engine::types::ENVOY;
use xds_engine::{ClientInfo, ServerEvent, Source, TypeTable};

use super::class::ClassSnapshot;
use super::connections::Connections;
use super::updater::Handle;
use crate::metrics::{Metrics, ResultLabel};
use crate::model::identity::{Account, Identity};
use crate::model::proxy::Proxy;

/// The xDS source of both ports. Whoever comes through the secure one has an [`Identity`].
#[derive(Debug)]
pub struct PilotSource {
    updater: Handle,
    connections: Arc<Connections>,
    metrics: Metrics,
    /// Send key material to any peer of the plaintext port.
    allow_plaintext_sds: bool,
    told: AtomicBool,
    seldom: Seldom,
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
            seldom: Seldom::default(),
        }
    }

    /// Whether key material may go to this client: to gateways that are known, and on loopback.
    fn secrets(&self, client: &ClientInfo) -> bool {
        if client.extensions.get::<Identity>().is_some() {
            return true;
        }
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
                 servers are left out; let it use the secure port (pilot bootstrap --xds-ca-file, --xds-token-file)"
            );
        }
        false
    }

    /// A gateway is served what belongs to its namespace, so it cannot be a guest in another one.
    fn check_namespace(&self, client: &ClientInfo, proxy: &Proxy) -> Result<(), Status> {
        let Some(identity) = client.extensions.get::<Identity>() else {
            return Ok(());
        };
        let foreign = identity
            .account()
            .filter(|account| *account.namespace != *proxy.namespace);
        let result = match foreign {
            None => "allowed",
            Some(_) => "wrong_namespace",
        };
        let label = ResultLabel { result };
        self.metrics.authentications.get_or_create(&label).inc();
        foreign.map_or(Ok(()), |account| Err(self.refuse(client, account, proxy)))
    }

    fn refuse(&self, client: &ClientInfo, account: &Account, proxy: &Proxy) -> Status {
        let reason = format!(
            "ServiceAccount {account} is not of the namespace {:?} that the node names; give `pilot bootstrap --namespace {}`",
            &*proxy.namespace, account.namespace
        );
        if let Some(left_out) = self.seldom.permit(Instant::now()) {
            let peer = client.peer.map(|peer| peer.to_string()).unwrap_or_default();
            warn!(peer, reason, left_out, "refused a proxy");
        }
        Status::permission_denied(reason)
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
        self.check_namespace(client, &proxy)?;
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
