//! Echo backends: HTTP servers that answer with what they saw.
//!
//! Every address and port of the EndpointSlices of a case gets one server, for HTTP/1.1 and HTTP/2, with TLS when the client
//! begins with that; its certificate is for `<service>.backend`. A service named `...-fail-N` answers with status N, one named `...-slow-S` after S seconds. An upgrade to websocket is
//! accepted and every message sent back.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::{tls, websocket};

/// How long a case waits for addresses that another one still uses.
pub const BIND_LIMIT: Duration = Duration::from_secs(180);

/// What a backend saw; the JSON body of its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Service of the backend.
    pub service: String,
    /// `ip:port` of the backend.
    pub endpoint: String,
    /// Request method.
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Header name in lower case to value; several lines are joined with `,`.
    pub headers: BTreeMap<String, String>,
    /// Request body; bytes that are no UTF-8 are replaced.
    pub body: String,
}

/// Number of requests per service.
pub type Hits = BTreeMap<String, u64>;

/// Running echo servers. They end when dropped.
#[derive(Debug)]
pub struct Backends {
    hits: Arc<Mutex<Hits>>,
    tasks: JoinSet<()>,
}

impl Backends {
    /// No server yet.
    pub fn new() -> Self {
        Self {
            hits: Arc::default(),
            tasks: JoinSet::new(),
        }
    }

    /// Starts further servers, all of them or none; an address in use is waited for no longer than `limit`.
    ///
    /// # Errors
    /// An address cannot be bound.
    pub async fn add(
        &mut self,
        endpoints: &BTreeMap<SocketAddr, String>,
        limit: Duration,
    ) -> Result<()> {
        let addresses: BTreeSet<SocketAddr> = endpoints.keys().copied().collect();
        for listener in bind_all(&addresses, limit).await? {
            let address = listener.local_addr()?;
            let service = endpoints.get(&address).cloned().unwrap_or_default();
            self.spawn(listener, service);
        }
        Ok(())
    }

    /// Serves `service` on a listener.
    pub fn spawn(&mut self, listener: TcpListener, service: String) {
        let endpoint = listener
            .local_addr()
            .map(|address| address.to_string())
            .unwrap_or_default();
        let backend = Arc::new(Backend::new(service, endpoint, self.hits.clone()));
        self.tasks.spawn(serve(listener, backend));
    }

    /// Requests counted so far.
    pub fn hits(&self) -> Hits {
        self.hits
            .lock()
            .map(|hits| hits.clone())
            .unwrap_or_default()
    }

    /// Waits until a server ends, which only an error makes it do.
    pub async fn finished(&mut self) {
        self.tasks.join_next().await;
    }
}

impl Default for Backends {
    fn default() -> Self {
        Self::new()
    }
}

/// Binds all addresses at once. When one is taken, all are given back, so that two cases never wait for each other.
async fn bind_all(addresses: &BTreeSet<SocketAddr>, limit: Duration) -> Result<Vec<TcpListener>> {
    let start = Instant::now();
    loop {
        let bound: Result<Vec<TcpListener>> =
            addresses.iter().map(|address| bind(*address)).collect();
        match bound {
            Ok(listeners) => return Ok(listeners),
            Err(error) if start.elapsed() > limit => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener> {
    let socket = match address.ip() {
        IpAddr::V4(_) => TcpSocket::new_v4()?,
        IpAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket
        .bind(address)
        .with_context(|| format!("echo backend: cannot bind {address}"))?;
    Ok(socket.listen(1024)?)
}

#[derive(Debug)]
struct Backend {
    service: String,
    endpoint: String,
    status: StatusCode,
    delay: Duration,
    hits: Arc<Mutex<Hits>>,
}

impl Backend {
    fn new(service: String, endpoint: String, hits: Arc<Mutex<Hits>>) -> Self {
        let number = |marker: &str| {
            service
                .rsplit_once(marker)
                .and_then(|(_, text)| text.parse::<u16>().ok())
        };
        let status = number("-fail-")
            .and_then(|code| StatusCode::from_u16(code).ok())
            .unwrap_or(StatusCode::OK);
        let delay = Duration::from_secs(number("-slow-").unwrap_or(0).into());
        Self {
            service,
            endpoint,
            status,
            delay,
            hits,
        }
    }

    fn count(&self) {
        if let Ok(mut hits) = self.hits.lock() {
            *hits.entry(self.service.clone()).or_default() += 1;
        }
    }

    async fn answer(
        self: Arc<Self>,
        mut request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        self.count();
        tokio::time::sleep(self.delay).await;
        let builder = Response::builder().header("x-echo-service", &self.service);
        if websocket::is_upgrade(request.headers()) {
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(websocket::echo(upgrade));
            return Ok(websocket::accept(builder, request.headers()));
        }
        let (head, body) = request.into_parts();
        let body = body
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes)
            .unwrap_or_default();
        let mut headers = join_lines(&head.headers);
        if let Some(authority) = head.uri.authority() {
            headers
                .entry("host".to_owned())
                .or_insert_with(|| authority.to_string());
        }
        let seen = Seen {
            service: self.service.clone(),
            endpoint: self.endpoint.clone(),
            method: head.method.to_string(),
            path: head
                .uri
                .path_and_query()
                .map(ToString::to_string)
                .unwrap_or_default(),
            headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        };
        let text = serde_json::to_vec(&seen).unwrap_or_default();
        let response = builder
            .status(self.status)
            .header("content-type", "application/json");
        Ok(response.body(Full::new(text.into())).unwrap_or_default())
    }
}

fn join_lines(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        joined
            .entry(name.to_string())
            .and_modify(|line| {
                line.push(',');
                line.push_str(&value);
            })
            .or_insert_with(|| value.into_owned());
    }
    joined
}

async fn serve(listener: TcpListener, backend: Arc<Backend>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A failed accept concerns one client; the next one may succeed.
                let Ok((stream, _)) = accepted else { continue };
                connections.spawn(connection(stream, backend.clone()));
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

/// Serves one client. One that goes away, or does not agree on TLS, is no error of the backend.
async fn connection(stream: TcpStream, backend: Arc<Backend>) {
    let mut first = [0];
    let tls = matches!(stream.peek(&mut first).await, Ok(1)) && first[0] == tls::HANDSHAKE;
    if !tls {
        return requests(stream, backend).await;
    }
    let acceptor = tls::acceptor(&format!("{}.backend", backend.service));
    if let Ok(acceptor) = acceptor
        && let Ok(stream) = acceptor.accept(stream).await
    {
        requests(stream, backend).await;
    }
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    backend: Arc<Backend>,
) {
    let service = hyper::service::service_fn(move |request| backend.clone().answer(request));
    let server = auto::Builder::new(TokioExecutor::new());
    let stream = TokioIo::new(stream);
    let _ = server.serve_connection_with_upgrades(stream, service).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Exchange, Target};

    async fn ask(service: &str) -> (u16, Seen) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target::plain(listener.local_addr().unwrap());
        let mut backends = Backends::new();
        backends.spawn(listener, service.to_owned());
        let head = "POST /a%2Fb?q=1 HTTP/1.1\r\nHost: h\r\nx-a: 1\r\nX-A: 2\r\ncontent-length: 2\r\n\r\nhi";
        let answer = Exchange::new(head.as_bytes().to_vec())
            .send(&target)
            .await
            .unwrap();
        assert_eq!(backends.hits()[service], 1);
        (answer.status, serde_json::from_slice(&answer.body).unwrap())
    }

    #[tokio::test]
    async fn tells_what_it_saw() {
        let (status, seen) = ask("shop").await;
        assert_eq!(
            (status, seen.path.as_str(), seen.method.as_str()),
            (200, "/a%2Fb?q=1", "POST")
        );
        assert_eq!(
            (seen.headers["x-a"].as_str(), seen.headers["host"].as_str()),
            ("1,2", "h")
        );
        assert_eq!(seen.body, "hi");
    }

    #[tokio::test]
    async fn speaks_tls_with_those_who_do() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target::tls(listener.local_addr().unwrap(), "any.test");
        let mut backends = Backends::new();
        backends.spawn(listener, "shop".to_owned());
        let head = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_vec();
        let answer = Exchange::new(head).send(&target).await.unwrap();
        assert_eq!(answer.status, 200);
    }

    #[tokio::test]
    async fn fails_when_its_name_says_so() {
        assert_eq!(ask("shop-fail-503").await.0, 503);
    }
}
