//! One HTTP request over a connection of its own.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a request may take, the connection included.
const LIMIT: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is none.
    #[error("the address is not valid: {0}")]
    Url(#[source] http::uri::InvalidUri),
    /// Only plain HTTP is known.
    #[error("write the address as http://host:port/path")]
    NotHttp,
    /// The connection fails.
    #[error("cannot connect to {authority}: {source}")]
    Connect {
        /// Host and port.
        authority: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The exchange breaks off.
    #[error(transparent)]
    Exchange(#[from] hyper::Error),
    /// The request cannot be written.
    #[error(transparent)]
    Request(#[from] http::Error),
    /// There is no answer in time.
    #[error("no answer after {} s", LIMIT.as_secs())]
    Timeout,
}

/// Sends a request without body; returns status and body, in which bytes that are no UTF-8 are replaced.
pub(super) async fn send(method: Method, url: &Uri) -> Result<(StatusCode, String), ClientError> {
    timeout(LIMIT, exchange(method, url))
        .await
        .unwrap_or(Err(ClientError::Timeout))
}

async fn exchange(method: Method, url: &Uri) -> Result<(StatusCode, String), ClientError> {
    let host = url.host().filter(|_| url.scheme_str() == Some("http"));
    let (host, port) = (
        host.ok_or(ClientError::NotHttp)?,
        url.port_u16().unwrap_or(80),
    );
    let authority = format!("{host}:{port}");
    let stream = TcpStream::connect(&authority)
        .await
        .map_err(|source| ClientError::Connect {
            authority: authority.clone(),
            source,
        })?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, &authority)
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let answer = async {
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    };
    // The connection only moves bytes for the answer: what goes wrong with it, the answer tells.
    let (answer, _) = tokio::join!(answer, connection);
    answer
}
