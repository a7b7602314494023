//! Websocket upgrade of the echo backends.

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http_body_util::Full;
use hyper::header::{CONNECTION, HeaderMap, UPGRADE};
use hyper::http::response::Builder;
use hyper::upgrade::OnUpgrade;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// Whether a request asks for an upgrade to websocket.
pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    headers
        .get(UPGRADE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// The answer that accepts the upgrade.
pub(crate) fn accept(builder: Builder, request: &HeaderMap) -> Response<Full<Bytes>> {
    let key = request
        .get("sec-websocket-key")
        .map(|value| derive_accept_key(value.as_bytes()))
        .unwrap_or_default();
    builder
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, "websocket")
        .header("sec-websocket-accept", key)
        .body(Full::default())
        .unwrap_or_default()
}

/// Sends every text and binary message back until the client closes.
pub(crate) async fn echo(upgrade: OnUpgrade) {
    // A client that gives up half-way is no error of the backend.
    let Ok(upgraded) = upgrade.await else { return };
    let mut socket =
        WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
    while let Some(Ok(message)) = socket.next().await {
        if (message.is_text() || message.is_binary()) && socket.send(message).await.is_err() {
            return;
        }
    }
}
