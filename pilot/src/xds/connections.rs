//! The proxies that are connected, and how far each is; for metrics, logs and debug pages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Serialize;
use tracing::{debug, info, warn};
use xds_engine::types::ENVOY;
use xds_engine::{ClientInfo, Protocol, ServerEvent};

use super::class::ClassSnapshot;
use crate::metrics::{Metrics, TypeLabel, XdsType};
use crate::model::identity::Identity;
use crate::model::proxy::Proxy;

/// How far a proxy is with one type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TypeStatus {
    /// Nonce of the last response sent.
    pub sent: String,
    /// Nonce of the last response taken.
    pub acked: String,
    /// `SYNCED`, `STALE` (sent and not taken yet) or `ERROR` (refused).
    pub status: &'static str,
    /// The proxy's reason for refusing the last response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A connected proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProxyStatus {
    /// Third part of its node id.
    pub proxy: String,
    /// Number of its stream.
    pub connection: u64,
    /// Address it connects from.
    pub peer: String,
    /// `delta` or `sotw`.
    pub protocol: &'static str,
    /// How it proved who it is; `none` on the plaintext port.
    pub authentication: String,
    /// Version it told (`ISTIO_VERSION`).
    pub version: String,
    /// By short type name.
    pub types: BTreeMap<&'static str, TypeStatus>,
}

struct Connection {
    status: ProxyStatus,
    snapshots: tokio::sync::watch::Receiver<Arc<ClassSnapshot>>,
    /// When the first response that the proxy has not taken yet was sent.
    busy_since: Option<Instant>,
}

/// All connected proxies.
#[derive(Default)]
pub struct Connections(Mutex<BTreeMap<u64, Connection>>);

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Connections")
            .field(&self.lock().len())
            .finish()
    }
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Connection>> {
        // Every change below is complete in itself, so a panic elsewhere leaves the map usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a proxy.
    pub(super) fn open(
        &self,
        client: &ClientInfo,
        proxy: &Proxy,
        snapshots: tokio::sync::watch::Receiver<Arc<ClassSnapshot>>,
        metrics: &Metrics,
    ) {
        let peer = client.peer.map(|peer| peer.to_string()).unwrap_or_default();
        let protocol = match client.protocol {
            Protocol::Delta => "delta",
            Protocol::Sotw => "sotw",
        };
        let identity = client.extensions.get::<Identity>();
        let authentication = identity.map_or_else(|| "none".to_owned(), Identity::to_string);
        info!(
            proxy = proxy.name,
            connection = client.id,
            peer,
            protocol,
            authentication,
            "proxy connected"
        );
        let status = ProxyStatus {
            proxy: proxy.name.clone(),
            connection: client.id,
            peer,
            protocol,
            authentication,
            version: proxy.version.clone(),
            types: BTreeMap::new(),
        };
        let mut all = self.lock();
        all.insert(
            client.id,
            Connection {
                status,
                snapshots,
                busy_since: None,
            },
        );
        metrics
            .connected
            .set(i64::try_from(all.len()).unwrap_or(i64::MAX));
    }

    /// Takes note of what happened on a stream.
    pub(super) fn observe(&self, client: &ClientInfo, event: &ServerEvent, metrics: &Metrics) {
        let mut all = self.lock();
        if let ServerEvent::Closed = event {
            if let Some(gone) = all.remove(&client.id) {
                info!(
                    proxy = gone.status.proxy,
                    connection = client.id,
                    "proxy disconnected"
                );
            }
            metrics
                .connected
                .set(i64::try_from(all.len()).unwrap_or(i64::MAX));
            return;
        }
        let Some(connection) = all.get_mut(&client.id) else {
            return;
        };
        connection.observe(event, metrics);
    }

    /// Status of all proxies, by name.
    pub fn status(&self) -> Vec<ProxyStatus> {
        let mut status: Vec<_> = self.lock().values().map(|c| c.status.clone()).collect();
        status.sort_by(|a, b| (&a.proxy, a.connection).cmp(&(&b.proxy, b.connection)));
        status
    }

    /// What a proxy is sent. Of several connections of one proxy the newest counts.
    pub fn snapshot(&self, proxy: &str) -> Option<Arc<ClassSnapshot>> {
        let all = self.lock();
        let connection = all.values().rev().find(|c| c.status.proxy == proxy)?;
        let snapshot = connection.snapshots.borrow().clone();
        Some(snapshot)
    }
}

impl Connection {
    fn observe(&mut self, event: &ServerEvent, metrics: &Metrics) {
        let type_url: &str = match event {
            ServerEvent::Sent { type_url, .. } => type_url,
            ServerEvent::Acked { type_url, .. }
            | ServerEvent::Nacked { type_url, .. }
            | ServerEvent::Stale { type_url } => type_url,
            ServerEvent::Closed => return,
        };
        // A type that is not served is never answered, so there is nothing to keep of it.
        let Some((_, spec)) = ENVOY.get(type_url) else {
            return;
        };
        let label = TypeLabel {
            r#type: XdsType::of(spec.short),
        };
        let proxy = &self.status.proxy;
        let state = self.status.types.entry(spec.short).or_default();
        match event {
            ServerEvent::Sent {
                nonce,
                upserts,
                removed,
                bytes,
                ..
            } => {
                debug!(proxy, kind = spec.short, upserts, removed, bytes, "sent");
                metrics.pushes.get_or_create(&label).inc();
                let count = (upserts + removed) as u64;
                metrics.sent.get_or_create(&label).inc_by(count);
                metrics
                    .sent_bytes
                    .get_or_create(&label)
                    .inc_by(*bytes as u64);
                state.sent.clone_from(nonce);
                state.status = "STALE";
                self.busy_since.get_or_insert_with(Instant::now);
            }
            ServerEvent::Acked {
                nonce,
                settled,
                refused,
                ..
            } => {
                state.acked.clone_from(nonce);
                // What was refused stays an error, however much else is taken.
                state.status = if *refused > 0 { "ERROR" } else { "SYNCED" };
                if *refused == 0 {
                    state.error = None;
                }
                if *settled && let Some(since) = self.busy_since.take() {
                    metrics
                        .convergence_seconds
                        .observe(since.elapsed().as_secs_f64());
                }
            }
            ServerEvent::Nacked {
                nonce,
                message,
                names,
                ..
            } => {
                let resources: Vec<&str> = names.iter().take(10).map(|name| &**name).collect();
                warn!(
                    proxy,
                    kind = spec.short,
                    nonce,
                    message,
                    ?resources,
                    "proxy refused a response"
                );
                metrics.rejects.get_or_create(&label).inc();
                state.status = "ERROR";
                state.error = Some(match names.as_slice() {
                    [culprit] => format!("{culprit}: {message}"),
                    many => format!("one of {} resources: {message}", many.len()),
                });
                self.busy_since = None;
            }
            ServerEvent::Stale { .. } => {
                metrics.expired_nonce.get_or_create(&label).inc();
            }
            ServerEvent::Closed => {}
        }
    }
}
