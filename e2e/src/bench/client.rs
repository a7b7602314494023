//! A fake Envoy: one delta ADS stream that subscribes and acknowledges as Envoy does and tells what it got.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse,
};
use envoy_types::pb::google::protobuf::{ListValue, Struct, Value, value::Kind};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};

use super::subscriptions::Subscriptions;
pub use super::subscriptions::Type;
use crate::process;
use crate::stack::programs;

/// Flow control windows, as large as Envoy's.
const WINDOW: u32 = 16 << 20;
/// Requests that wait for the stream; a client has few in flight.
const REQUESTS: usize = 64;
/// Responses no larger than this are searched for markers.
const SEARCHED: usize = 1 << 20;
/// Pause between two tries to connect.
const RETRY: Duration = Duration::from_millis(2);

/// What a client has to hold before it counts as complete.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expected {
    /// Least number of route configurations.
    pub routes: usize,
    /// Least number of endpoint assignments.
    pub endpoints: usize,
    /// Least number of secrets.
    pub secrets: usize,
}

/// What a client tells.
#[derive(Debug)]
pub struct Event {
    /// Number of the client.
    pub client: usize,
    /// When the acknowledgement was on its way.
    pub at: Instant,
    /// Type of the response.
    pub kind: String,
    /// Resources in the response.
    pub resources: usize,
    /// Names removed by the response.
    pub removed: usize,
    /// Encoded size of the response in bytes.
    pub bytes: usize,
    /// Whether the client now holds everything it has to.
    pub complete: bool,
    /// The number `n` of a path `/edit-n` in the response.
    pub marker: Option<u64>,
}

/// A running client; it ends when dropped.
#[derive(Debug)]
pub struct Client {
    task: JoinHandle<()>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Client {
    /// Starts client `number`; it connects as soon as the server listens and tells every response to `events`.
    pub fn start(
        number: usize,
        address: SocketAddr,
        node: Node,
        expected: Expected,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let task = tokio::spawn(async move {
            if let Err(error) = session(number, address, node, expected, &events).await {
                eprintln!("client {number}: {error:#}");
            }
        });
        Self { task }
    }
}

async fn session(
    number: usize,
    address: SocketAddr,
    node: Node,
    expected: Expected,
    events: &mpsc::Sender<Event>,
) -> Result<()> {
    let channel = connect(address).await?;
    let mut ads =
        AggregatedDiscoveryServiceClient::new(channel).max_decoding_message_size(usize::MAX);
    let (requests, stream) = mpsc::channel::<DeltaDiscoveryRequest>(REQUESTS);
    let mut subscriptions = Subscriptions::default();
    let mut node = Some(node);
    for request in subscriptions.open() {
        // Only the first request of a stream names the node.
        requests
            .send(DeltaDiscoveryRequest {
                node: node.take(),
                ..request
            })
            .await?;
    }
    let mut responses = ads
        .delta_aggregated_resources(ReceiverStream::new(stream))
        .await?
        .into_inner();
    while let Some(response) = responses.message().await? {
        for request in subscriptions.accept(&response)? {
            requests.send(request).await?;
        }
        let complete = subscriptions.is_settled()
            && subscriptions.held(Type::Rds) >= expected.routes
            && subscriptions.held(Type::Eds) >= expected.endpoints
            && subscriptions.held(Type::Sds) >= expected.secrets;
        if events
            .send(event(number, &response, complete))
            .await
            .is_err()
        {
            return Ok(());
        }
    }
    bail!("the server ended the stream")
}

fn event(client: usize, response: &DeltaDiscoveryResponse, complete: bool) -> Event {
    let at = Instant::now();
    let bytes = response.encoded_len();
    let small = bytes <= SEARCHED && response.type_url == Type::Rds.url();
    let mut bodies = response
        .resources
        .iter()
        .filter_map(|resource| resource.resource.as_ref());
    Event {
        client,
        at,
        kind: response.type_url.clone(),
        resources: response.resources.len(),
        removed: response.removed_resources.len(),
        bytes,
        complete,
        marker: small
            .then(|| bodies.find_map(|body| marker(&body.value)))
            .flatten(),
    }
}

/// The number `n` of the first `/edit-n` in some bytes.
fn marker(bytes: &[u8]) -> Option<u64> {
    const MARK: &[u8] = b"/edit-";
    let start = bytes
        .windows(MARK.len())
        .position(|window| window == MARK)?
        + MARK.len();
    let digits: String = bytes
        .get(start..)?
        .iter()
        .map_while(|byte| {
            char::from(*byte)
                .is_ascii_digit()
                .then(|| char::from(*byte))
        })
        .collect();
    digits.parse().ok()
}

async fn connect(address: SocketAddr) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .tcp_nodelay(true);
    loop {
        match endpoint.connect().await {
            Ok(channel) => return Ok(channel),
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

/// The bootstrap that pilot prints for a gateway with default values.
///
/// # Errors
/// Pilot has not been built, or fails.
pub async fn bootstrap() -> Result<serde_json::Value> {
    let args = [
        "bootstrap",
        "--xds-address",
        "127.0.0.1:1",
        "--admin-port",
        "1",
    ];
    let text = process::run(&programs()?.pilot, &args.map(str::to_owned)).await?;
    Ok(serde_json::from_slice(&text)?)
}

/// The node of client `number`, made from a bootstrap that pilot printed.
///
/// # Errors
/// The bootstrap has no node.
pub fn node(bootstrap: &serde_json::Value, number: usize) -> Result<Node> {
    let node = bootstrap.get("node").context("the bootstrap has no node")?;
    let text = |field: &str| {
        node.get(field)
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let id = text("id");
    let mut parts: Vec<&str> = id.split('~').collect();
    let pod = parts
        .get(2)
        .map(|pod| format!("bench-{number}-{pod}"))
        .context("the node id has four parts")?;
    if let Some(part) = parts.get_mut(2) {
        *part = &pod;
    }
    let metadata = node
        .get("metadata")
        .and_then(serde_json::Value::as_object)
        .map(to_struct);
    Ok(Node {
        id: parts.join("~"),
        cluster: text("cluster"),
        metadata,
        ..Node::default()
    })
}

fn to_struct(object: &serde_json::Map<String, serde_json::Value>) -> Struct {
    Struct {
        fields: object
            .iter()
            .map(|(name, value)| (name.clone(), to_value(value)))
            .collect(),
    }
}

fn to_value(value: &serde_json::Value) -> Value {
    let kind = match value {
        serde_json::Value::Null => Kind::NullValue(0),
        serde_json::Value::Bool(flag) => Kind::BoolValue(*flag),
        serde_json::Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        serde_json::Value::String(text) => Kind::StringValue(text.clone()),
        serde_json::Value::Array(values) => Kind::ListValue(ListValue {
            values: values.iter().map(to_value).collect(),
        }),
        serde_json::Value::Object(object) => Kind::StructValue(to_struct(object)),
    };
    Value { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_found() {
        assert_eq!(marker(b"\x0a\x09/edit-42\x12"), Some(42));
        assert_eq!(marker(b"nothing"), None);
    }

    #[test]
    fn nodes_differ_in_their_pod() {
        let bootstrap = serde_json::json!({"node": {"id": "router~127.0.0.1~gw.ns~ns.svc.local", "metadata": {"LABELS": {"a": "b"}}}});
        let node = node(&bootstrap, 3).unwrap();
        assert_eq!(node.id, "router~127.0.0.1~bench-3-gw.ns~ns.svc.local");
        assert!(node.metadata.unwrap().fields.contains_key("LABELS"));
    }
}
