//! Configs from a controller: an ADS client of xDS-over-MCP.
//!
//! In: the controller's responses. Out: batches of changes; the first one is complete, so that nobody sees half of the
//! configuration. A lost controller changes nothing.

use std::time::{Duration, Instant};

use bytes::Bytes;
use shared_proto::config::ConfigKey;
use shared_proto::kinds::Kind;
use shared_proto::mcp;
use tokio::sync::mpsc;
use tracing::{info, warn};
use xds_engine::client::{ClientSession, Update};
use xds_engine::discovery::{Any, Node};
use xds_engine::transport::{self, ClientEvent, Timing};

use crate::metrics::{Metrics, ReasonLabel, UNDECODABLE_CONFIG};
use crate::model::change::Change;
use crate::model::config::StoredConfig;

/// Responses that may wait to be used.
const RESPONSES: usize = 64;

/// The same trouble is told again after this time.
const TELL_AGAIN: Duration = Duration::from_secs(30);

/// Where and how to ask for configs.
#[derive(Clone, Debug)]
pub struct McpOptions {
    /// `host:port` of the controller.
    pub address: String,
    /// Name of this pilot: the third part of its node id, without the namespace.
    pub pod: String,
    /// Its namespace.
    pub namespace: String,
    /// Domain that completes short host names.
    pub domain: String,
}

/// A source of configs; the changes end when the receiver is dropped.
#[derive(Debug)]
pub struct McpSource {
    options: McpOptions,
    events: mpsc::Receiver<ClientEvent>,
    metrics: Metrics,
    synced: bool,
    connected: bool,
    /// What was last said of a lost controller, and when.
    told: Option<(String, Instant)>,
    waiting: Vec<Change>,
}

impl McpSource {
    /// A source, and the task that keeps it connected.
    pub fn new(
        options: McpOptions,
        metrics: Metrics,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, events) = mpsc::channel(RESPONSES);
        let types = Kind::ALL.iter().map(|kind| kind.type_url());
        let session = ClientSession::wildcard(node(&options), types);
        let address = options.address.clone();
        let task = transport::run(address, session, Timing::default(), resource_name, sender);
        let source = Self {
            options,
            events,
            metrics,
            synced: false,
            connected: false,
            told: None,
            waiting: Vec::new(),
        };
        (source, task)
    }

    /// The next batch of changes. The first one is the whole configuration and may be empty.
    pub async fn next(&mut self) -> Option<Vec<Change>> {
        loop {
            match self.events.recv().await? {
                ClientEvent::Connected => {
                    self.connected = true;
                    self.told = None;
                    self.metrics.controller_connected.inc();
                    info!(
                        address = self.options.address,
                        "connected to the controller"
                    );
                }
                ClientEvent::Disconnected(reason) => {
                    if std::mem::take(&mut self.connected) {
                        self.metrics.controller_connected.dec();
                    }
                    self.tell(reason);
                }
                ClientEvent::Update { update, synced } => {
                    self.changes(update);
                    let first = synced && !self.synced;
                    self.synced = synced;
                    if first || (synced && !self.waiting.is_empty()) {
                        return Some(std::mem::take(&mut self.waiting));
                    }
                }
            }
        }
    }

    /// Says that there is no controller, once in a while: it is tried many times a second at first.
    fn tell(&mut self, reason: String) {
        let recent = |(told, at): &(String, Instant)| *told == reason && at.elapsed() < TELL_AGAIN;
        if !self.told.as_ref().is_some_and(recent) {
            let address = &self.options.address;
            let kept = self.synced;
            warn!(address, reason, kept, "no controller; trying again");
            self.told = Some((reason, Instant::now()));
        }
    }

    fn changes(&mut self, update: Update) {
        let Some(kind) = Kind::from_type_url(&update.type_url) else {
            return;
        };
        for (name, any) in update.upserts {
            match self.config(any) {
                Ok(config) => {
                    let key = config.key.clone();
                    self.waiting.push(Change::Config(key, Some(config.into())));
                }
                Err(error) => {
                    let reason = ReasonLabel {
                        reason: UNDECODABLE_CONFIG,
                    };
                    self.metrics.rejected.get_or_create(&reason).inc();
                    warn!(%kind, name, error, "skipped a config of the controller");
                }
            }
        }
        for name in update.removed {
            if let Some((namespace, name)) = name.split_once('/') {
                self.waiting
                    .push(Change::Config(ConfigKey::new(kind, namespace, name), None));
            }
        }
    }

    fn config(&self, any: Any) -> Result<StoredConfig, String> {
        let resource = mcp::decode(Bytes::from(any.value)).map_err(|error| error.to_string())?;
        StoredConfig::from_mcp(resource, &self.options.domain).map_err(|error| error.to_string())
    }
}

/// Name of a resource in state of the world, where only the envelope has it.
fn resource_name(any: &Any) -> Option<String> {
    let resource = mcp::decode(Bytes::copy_from_slice(&any.value)).ok()?;
    Some(format!("{}/{}", resource.namespace, resource.name))
}

/// As Higress's and Istio's discovery introduce themselves: `sidecar~ip~pod.ns~ns.svc.domain`, generator `api`.
fn node(options: &McpOptions) -> Node {
    use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
    let McpOptions {
        pod,
        namespace,
        domain,
        ..
    } = options;
    let text = |text: &str| Value {
        kind: Some(Kind::StringValue(text.to_owned())),
    };
    let fields = [
        ("GENERATOR".to_owned(), text("api")),
        ("ISTIO_VERSION".to_owned(), text("65536.65536.65536")),
    ];
    Node {
        id: format!("sidecar~0.0.0.0~{pod}.{namespace}~{namespace}.svc.{domain}"),
        metadata: Some(Struct {
            fields: fields.into(),
        }),
        ..Node::default()
    }
}
