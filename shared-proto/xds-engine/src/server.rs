//! Joins [`Session`]s to tonic: the service `AggregatedDiscoveryService` over any [`Source`].

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::watch;
use tonic::body::Body;
use tonic::codec::Codec;
use tonic::codegen::{Body as HttpBody, Service, StdError, http};
use tonic::transport::server::TcpConnectInfo;
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;

use crate::codec::{ResponseBody, encoded_size};
use crate::discovery::{DeltaDiscoveryRequest, DiscoveryRequest, Node};
use crate::resource::Name;
use crate::session::{Protocol, Reaction, Response, Session, Snapshot};
use crate::types::TypeTable;

const SERVICE: &str = "envoy.service.discovery.v3.AggregatedDiscoveryService";
const SOTW_PATH: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
const DELTA_PATH: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

/// Who is at the other end of a stream.
#[derive(Clone, Debug)]
pub struct ClientInfo {
    /// Number of the stream, counted from 1 over the life of the service.
    pub id: u64,
    /// The node of its first request.
    pub node: Node,
    /// Address of the peer, where the transport has one.
    pub peer: Option<SocketAddr>,
    /// Variant of the protocol.
    pub protocol: Protocol,
    /// What layers in front of the service added to the request that opened the stream.
    pub extensions: http::Extensions,
}

/// What happened on a stream; for metrics, logs and debug pages.
#[derive(Clone, Debug)]
pub enum ServerEvent {
    /// A response was handed to the transport.
    Sent {
        /// Its type.
        type_url: Arc<str>,
        /// Its nonce.
        nonce: String,
        /// Number of resources in it.
        upserts: usize,
        /// Number of removals in it.
        removed: usize,
        /// Size of its resources, in bytes.
        bytes: usize,
    },
    /// The client took a response.
    Acked {
        /// Type of the response.
        type_url: String,
        /// Nonce of the response.
        nonce: String,
        /// Nothing of any type is in flight or waits to be sent any more.
        settled: bool,
        /// Number of resources of the type that the client refused before and that did not change since.
        refused: usize,
    },
    /// The client refused a response.
    Nacked {
        /// Type of the response.
        type_url: String,
        /// Nonce of the response.
        nonce: String,
        /// The client's reason.
        message: String,
        /// The resources that the response had.
        names: Vec<Name>,
    },
    /// The client answered a response that is not the last one.
    Stale {
        /// Type of the response.
        type_url: String,
    },
    /// The stream ended.
    Closed,
}

/// What a server offers to its clients.
pub trait Source: Send + Sync + 'static {
    /// What one client sees.
    type Snapshot: Snapshot;

    /// Admits a client, or refuses it with a status. The receiver brings every newer snapshot.
    fn open(
        &self,
        client: &ClientInfo,
    ) -> impl Future<Output = Result<watch::Receiver<Arc<Self::Snapshot>>, Status>> + Send;

    /// Push order and wildcard types.
    fn types(&self) -> TypeTable;

    /// Told of everything that happens on a stream that was opened.
    fn observe(&self, client: &ClientInfo, event: &ServerEvent);
}

/// Bounds of the service.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// Largest request accepted, in bytes.
    pub max_request_bytes: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        // A client with 100,000 names of 100 bytes each reconnects with 20 MB of versions.
        Self {
            max_request_bytes: 100 << 20,
        }
    }
}

/// The tonic service for `source`.
pub fn ads_service<S: Source>(source: Arc<S>, options: ServerOptions) -> AdsService<S> {
    AdsService {
        source,
        options,
        streams: Arc::new(AtomicU64::new(0)),
    }
}

/// Serves `AggregatedDiscoveryService`; see [`ads_service`].
pub struct AdsService<S> {
    source: Arc<S>,
    options: ServerOptions,
    streams: Arc<AtomicU64>,
}

impl<S> fmt::Debug for AdsService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdsService")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<S> Clone for AdsService<S> {
    fn clone(&self) -> Self {
        Self {
            source: self.source.clone(),
            options: self.options,
            streams: self.streams.clone(),
        }
    }
}

impl<S> tonic::server::NamedService for AdsService<S> {
    const NAME: &'static str = SERVICE;
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<S, B> Service<http::Request<B>> for AdsService<S>
where
    S: Source,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let service = self.clone();
        match request.uri().path() {
            SOTW_PATH => Box::pin(service.serve::<DiscoveryRequest, B>(request)),
            DELTA_PATH => Box::pin(service.serve::<DeltaDiscoveryRequest, B>(request)),
            _ => Box::pin(async { Ok(Status::unimplemented("no such method").into_http()) }),
        }
    }
}

impl<S: Source> AdsService<S> {
    async fn serve<R, B>(
        self,
        request: http::Request<B>,
    ) -> Result<http::Response<Body>, Infallible>
    where
        R: AdsRequest,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<StdError> + Send + 'static,
    {
        let connection = request.extensions().get::<TcpConnectInfo>();
        let opening = Opening {
            source: self.source,
            streams: self.streams,
            peer: connection.and_then(TcpConnectInfo::remote_addr),
            extensions: request.extensions().clone(),
            requests: Streaming::new_request(
                ProstCodec::<R, R>::default().decoder(),
                request.into_body(),
                None,
                Some(self.options.max_request_bytes),
            ),
        };
        let responses = futures::stream::unfold(Phase::Opening(Box::new(opening)), Phase::step);
        let body = ResponseBody::new(Box::pin(responses), R::PROTOCOL);
        let mut response = http::Response::new(Body::new(body));
        let grpc = http::HeaderValue::from_static("application/grpc");
        response
            .headers_mut()
            .insert(http::header::CONTENT_TYPE, grpc);
        Ok(response)
    }
}

/// A request of either protocol.
trait AdsRequest: prost::Message + Default + Send + 'static {
    const PROTOCOL: Protocol;
    fn node(&self) -> Option<&Node>;
    fn type_url(&self) -> &str;
    fn apply(&self, session: &mut Session, snapshot: &impl Snapshot) -> Reaction;
}

impl AdsRequest for DiscoveryRequest {
    const PROTOCOL: Protocol = Protocol::Sotw;
    fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }
    fn type_url(&self) -> &str {
        &self.type_url
    }
    fn apply(&self, session: &mut Session, snapshot: &impl Snapshot) -> Reaction {
        session.on_sotw(self, snapshot)
    }
}

impl AdsRequest for DeltaDiscoveryRequest {
    const PROTOCOL: Protocol = Protocol::Delta;
    fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }
    fn type_url(&self) -> &str {
        &self.type_url
    }
    fn apply(&self, session: &mut Session, snapshot: &impl Snapshot) -> Reaction {
        session.on_delta(self, snapshot)
    }
}

/// A stream whose first request did not come yet.
struct Opening<S, R> {
    source: Arc<S>,
    streams: Arc<AtomicU64>,
    peer: Option<SocketAddr>,
    extensions: http::Extensions,
    requests: Streaming<R>,
}

/// A stream that was admitted.
struct Connection<S: Source, R> {
    source: Arc<S>,
    client: ClientInfo,
    requests: Streaming<R>,
    snapshots: watch::Receiver<Arc<S::Snapshot>>,
    snapshot: Arc<S::Snapshot>,
    session: Session,
}

impl<S: Source, R> Drop for Connection<S, R> {
    fn drop(&mut self) {
        self.source.observe(&self.client, &ServerEvent::Closed);
    }
}

enum Phase<S: Source, R> {
    Opening(Box<Opening<S, R>>),
    Open(Box<Connection<S, R>>),
    Closed,
}

type Step<S, R> = Option<(Result<Response, Status>, Phase<S, R>)>;

impl<S: Source, R: AdsRequest> Phase<S, R> {
    /// The next response of the stream; `None` ends it.
    async fn step(self) -> Step<S, R> {
        let mut connection = match self {
            Self::Opening(opening) => match opening.open().await {
                Ok(Some(connection)) => Box::new(connection),
                Ok(None) => return None,
                Err(status) => return Some((Err(status), Self::Closed)),
            },
            Self::Open(connection) => connection,
            Self::Closed => return None,
        };
        match connection.next_response().await {
            Ok(Some(response)) => Some((Ok(response), Self::Open(connection))),
            Ok(None) => None,
            Err(status) => Some((Err(status), Self::Closed)),
        }
    }
}

impl<S: Source, R: AdsRequest> Opening<S, R> {
    async fn open(mut self) -> Result<Option<Connection<S, R>>, Status> {
        let Some(first) = self.requests.message().await? else {
            return Ok(None);
        };
        let node = first.node().filter(|node| !node.id.is_empty()).cloned();
        let node = node.ok_or_else(|| {
            Status::invalid_argument("the first request on a stream must carry node.id")
        })?;
        let id = self.streams.fetch_add(1, Ordering::Relaxed) + 1;
        let client = ClientInfo {
            id,
            node,
            peer: self.peer,
            protocol: R::PROTOCOL,
            extensions: self.extensions,
        };
        let mut snapshots = self.source.open(&client).await?;
        let snapshot = snapshots.borrow_and_update().clone();
        let session = Session::new(R::PROTOCOL, self.source.types());
        let source = self.source;
        let mut connection = Connection {
            source,
            client,
            requests: self.requests,
            snapshots,
            snapshot,
            session,
        };
        connection.on_request(&first);
        Ok(Some(connection))
    }
}

impl<S: Source, R: AdsRequest> Connection<S, R> {
    /// Waits until there is something to send. Requests come before snapshots, so that a subscription is known
    /// before what it asks for is looked up; everything that changed while waiting is one response.
    async fn next_response(&mut self) -> Result<Option<Response>, Status> {
        loop {
            if let Some(response) = self.session.poll() {
                let event = ServerEvent::Sent {
                    type_url: response.type_url.clone(),
                    nonce: response.nonce.clone(),
                    upserts: response.upserts.len(),
                    removed: response.removed.len(),
                    bytes: encoded_size(&response),
                };
                self.source.observe(&self.client, &event);
                return Ok(Some(response));
            }
            tokio::select! {
                biased;
                request = self.requests.message() => match request? {
                    Some(request) => self.on_request(&request),
                    None => return Ok(None),
                },
                changed = self.snapshots.changed() => {
                    if changed.is_err() {
                        return Err(Status::unavailable("this stream gets no more updates; connect again"));
                    }
                    self.snapshot = self.snapshots.borrow_and_update().clone();
                    self.session.advance(&*self.snapshot);
                }
            }
        }
    }

    fn on_request(&mut self, request: &R) {
        let reaction = request.apply(&mut self.session, &*self.snapshot);
        let type_url = request.type_url().to_owned();
        let event = match reaction {
            Reaction::Initial | Reaction::Subscription => return,
            Reaction::Stale => ServerEvent::Stale { type_url },
            Reaction::Nack {
                nonce,
                message,
                names,
            } => ServerEvent::Nacked {
                type_url,
                nonce,
                message,
                names,
            },
            Reaction::Ack { nonce } => {
                let settled = self.session.unsettled().next().is_none();
                {
                    let refused = self.session.refused(&type_url);
                    ServerEvent::Acked {
                        type_url,
                        nonce,
                        settled,
                        refused,
                    }
                }
            }
        };
        self.source.observe(&self.client, &event);
    }
}
