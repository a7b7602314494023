//! Admin HTTP endpoints that look alike on both tiers: `/ready`, `/metrics` and the index under `/debug`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::{fmt, io};

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use clap::ValueEnum;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Whether the program can do its work, and if not, why. Clones share one state.
#[derive(Clone)]
pub struct Readiness {
    reason: watch::Sender<Option<String>>,
    details: Arc<dyn Fn() -> String + Send + Sync>,
}

impl Readiness {
    /// Not ready yet, for this reason.
    pub fn waiting_for(reason: &str) -> Self {
        Self {
            reason: watch::Sender::new(Some(reason.to_owned())),
            details: Arc::new(String::new),
        }
    }

    /// With a text that says more of what it waits for, asked for whenever somebody wants to know the reason; empty when
    /// there is no more to say.
    #[must_use]
    pub fn with_details(self, details: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self {
            details: Arc::new(details),
            ..self
        }
    }

    /// From now on ready.
    pub fn set_ready(&self) {
        self.reason.send_replace(None);
    }

    /// From now on not ready.
    pub fn set_waiting(&self, reason: &str) {
        self.reason.send_replace(Some(reason.to_owned()));
    }

    /// Waits until ready.
    pub async fn ready(&self) {
        // An error would mean that the sender is gone, and `self` holds it.
        let _ = self.reason.subscribe().wait_for(Option::is_none).await;
    }

    /// The reason why not, if any.
    pub fn reason(&self) -> Option<String> {
        let reason = self.reason.borrow().clone()?;
        let details = (self.details)();
        let separator = if details.is_empty() { "" } else { ": " };
        Some(format!("{reason}{separator}{details}"))
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Readiness").field(&self.reason()).finish()
    }
}

/// `GET /ready`: 200 when ready, else 503 with the reason as text.
pub fn ready(readiness: Readiness) -> Router {
    let answer = async move || match readiness.reason() {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    };
    Router::new().route("/ready", get(answer))
}

/// `GET /metrics`: the registry in Prometheus text format.
pub fn metrics(registry: Arc<Registry>) -> Router {
    let answer = async move || {
        let mut text = String::new();
        match prometheus_text::encode(&mut text, &registry) {
            Ok(()) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    };
    Router::new().route("/metrics", get(answer))
}

/// `GET /debug`: a list of pages, given as (path, what it shows).
pub fn debug_index(pages: &[(&str, &str)]) -> Router {
    let width = pages.iter().map(|(path, _)| path.len()).max().unwrap_or(0);
    let text: String = pages
        .iter()
        .map(|(path, what)| format!("{path:width$}  {what}\n"))
        .collect();
    let answer = async move || text;
    Router::new()
        .route("/debug", get(answer.clone()))
        .route("/debug/", get(answer))
}

/// A value as indented JSON.
pub fn json(value: &impl Serialize) -> Response {
    match serde_json::to_string_pretty(value) {
        Ok(text) => {
            let kind = [(header::CONTENT_TYPE, "application/json")];
            (kind, text + "\n").into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Who may see the pages below `/debug`. They show all that is served, values of headers included, so in a cluster not every Pod
/// that can connect should.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DebugAccess {
    /// Peers on loopback: whoever may `kubectl port-forward` to the Pod.
    #[default]
    Loopback,
    /// Everybody who can connect.
    All,
}

impl DebugAccess {
    fn allows(self, path: &str, peer: SocketAddr) -> bool {
        let debug = path == "/debug" || path.starts_with("/debug/");
        !debug || self == Self::All || peer.ip().to_canonical().is_loopback()
    }
}

async fn guard(
    State(access): State<DebugAccess>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    if access.allows(request.uri().path(), peer) {
        return next.run(request).await;
    }
    let hint = "pages below /debug are for loopback only: use `kubectl port-forward`, or --debug-access all\n";
    (StatusCode::FORBIDDEN, hint).into_response()
}

/// Serves the endpoints until `stop` completes.
///
/// # Errors
/// The socket fails.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    access: DebugAccess,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = router.layer(middleware::from_fn_with_state(access, guard));
    axum::serve(
        listener,
        router.into_make_service_with_connect_info::<SocketAddr>(),
    )
    .with_graceful_shutdown(stop)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::metrics::counter::Counter;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn fetch(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[test]
    fn debug_pages_are_for_loopback_unless_opened() {
        let near: [SocketAddr; 3] =
            ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"].map(|a| a.parse().unwrap());
        let far: SocketAddr = "10.0.0.7:1".parse().unwrap();
        for path in ["/debug", "/debug/", "/debug/configz"] {
            assert!(
                near.iter()
                    .all(|peer| DebugAccess::Loopback.allows(path, *peer))
            );
            assert!(!DebugAccess::Loopback.allows(path, far));
            assert!(DebugAccess::All.allows(path, far));
        }
        for path in ["/ready", "/metrics"] {
            assert!(DebugAccess::Loopback.allows(path, far));
        }
    }

    #[tokio::test]
    async fn endpoints_answer() {
        let details = Arc::new(std::sync::Mutex::new(String::new()));
        let shown = details.clone();
        let readiness = Readiness::waiting_for("first load")
            .with_details(move || shown.lock().unwrap().clone());
        let mut registry = Registry::default();
        let counter = Counter::<u64>::default();
        registry.register("changes", "Changes", counter.clone());
        counter.inc();
        let router = ready(readiness.clone())
            .merge(metrics(Arc::new(registry)))
            .merge(debug_index(&[("/debug/x", "what x shows")]));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let access = DebugAccess::Loopback;
        tokio::spawn(serve(listener, router, access, std::future::pending()));
        let answer = fetch(address, "/ready").await;
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.ends_with("first load\n"),
            "{answer}"
        );
        *details.lock().unwrap() = "half of it".to_owned();
        let answer = fetch(address, "/ready").await;
        assert!(answer.ends_with("first load: half of it\n"), "{answer}");
        readiness.set_ready();
        assert!(fetch(address, "/ready").await.starts_with("HTTP/1.1 200"));
        assert!(
            fetch(address, "/metrics")
                .await
                .contains("\nchanges_total 1\n")
        );
        assert!(
            fetch(address, "/debug")
                .await
                .contains("/debug/x  what x shows")
        );
    }
}
