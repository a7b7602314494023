//! Protocols through the real gateway: HTTP/1.1, HTTP/2 with and without TLS, SNI, websocket.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use e2e::echo::{BIND_LIMIT, Backends, Seen};
use e2e::http::{Exchange, Target};
use e2e::process::wait_until;
use e2e::scenario::{ingress, service, tls_secret};
use e2e::stack::{Options, Port, Stack};
use e2e::tls;
use e2e::trial::{self, Needs};
use futures::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use libtest_mimic::Trial;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

/// How long configuration may take to arrive.
const LIMIT: Duration = Duration::from_secs(10);
const ALPHA: &str = "alpha.example.com";
const BRAVO: &str = "bravo.example.com";

fn main() -> ExitCode {
    let trials: Vec<Trial> = vec![trial::trial(
        "protocols: HTTP/2, TLS with SNI, websocket",
        Needs::Envoy,
        protocols,
    )];
    trial::run(trials, 2)
}

/// One gateway serves all checks: they do not disturb each other.
async fn protocols() -> Result<()> {
    let mut stack = Stack::new(Options::default())?;
    let mut backends = Backends::new();
    let (alpha, bravo) = (stack.backend(0), stack.backend(1));
    let names = BTreeMap::from([(alpha, "alpha".to_owned()), (bravo, "bravo".to_owned())]);
    backends.add(&names, BIND_LIMIT).await?;
    let text = ingress(ALPHA, "alpha", Some("alpha-tls"))
        + &ingress(BRAVO, "bravo", Some("bravo-tls"))
        + &service("alpha", &[alpha])
        + &service("bravo", &[bravo])
        + &tls_secret("alpha-tls", ALPHA, "certificate of alpha")?
        + &tls_secret("bravo-tls", BRAVO, "certificate of bravo")?;
    stack.write("all.yaml", &text)?;
    let result = async {
        stack.start().await?;
        ready(&stack, BRAVO).await?;
        ready(&stack, ALPHA).await?;
        http2_without_tls(&stack)
            .await
            .context("HTTP/2 without TLS")?;
        http2_with_tls(&stack).await.context("HTTP/2 with TLS")?;
        server_names(&stack).await.context("server names")?;
        websocket(&stack).await.context("websocket")?;
        websocket_with_tls(&stack)
            .await
            .context("websocket with TLS")
    }
    .await;
    result.with_context(|| stack.logs())
}

/// Waits until a host answers over TLS.
async fn ready(stack: &Stack, host: &str) -> Result<()> {
    let (request, target) = (Exchange::get(host, "/"), stack.tls_target(host));
    let answers = async || {
        request
            .send(&target)
            .await
            .ok()
            .filter(|answer| answer.status == 200)
            .map(drop)
    };
    wait_until(host, LIMIT, answers).await
}

/// Sends one request over HTTP/2 and gives what the backend saw.
async fn http2<S>(stream: S, scheme: &str, host: &str) -> Result<Seen>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let request =
        hyper::Request::get(format!("{scheme}://{host}/two?x=1")).body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    ensure!(response.status() == 200, "status {}", response.status());
    let body = response.into_body().collect().await?.to_bytes();
    driver.abort();
    Ok(serde_json::from_slice(&body)?)
}

async fn http2_without_tls(stack: &Stack) -> Result<()> {
    let stream = stack.target(Port::Http).connect().await?;
    let seen = http2(stream, "http", ALPHA).await?;
    ensure!(
        (seen.service.as_str(), seen.path.as_str()) == ("alpha", "/two?x=1"),
        "{seen:?}"
    );
    Ok(())
}

async fn http2_with_tls(stack: &Stack) -> Result<()> {
    let target = stack.tls_target(BRAVO);
    let mut options = target.tls.clone().unwrap_or_default();
    options.alpn = vec!["h2", "http/1.1"];
    let stream = tls::handshake(target.connect().await?, &options).await?;
    ensure!(
        stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        "h2 was not negotiated"
    );
    let seen = http2(stream, "https", BRAVO).await?;
    ensure!(
        seen.service == "bravo" && seen.headers.get("host").is_some_and(|host| host == BRAVO),
        "{seen:?}"
    );
    Ok(())
}

async fn server_names(stack: &Stack) -> Result<()> {
    for (host, text) in [
        (ALPHA, "certificate of alpha"),
        (BRAVO, "certificate of bravo"),
    ] {
        let answer = Exchange::get(host, "/")
            .send(&stack.tls_target(host))
            .await?;
        let certificate = answer.certificate.unwrap_or_default();
        let certificate = String::from_utf8_lossy(&certificate);
        ensure!(
            answer.status == 200 && certificate.contains(text),
            "{host}: {} {certificate}",
            answer.status
        );
    }
    // A name that nobody claims, or none, must not be given another host's certificate.
    for name in [Some("unknown.example.com"), None] {
        let mut target = stack.tls_target(ALPHA);
        target.tls = Some(tls::TlsOptions {
            server_name: name.map(str::to_owned),
            ..tls::TlsOptions::default()
        });
        let answer = Exchange::get(ALPHA, "/").send(&target).await;
        ensure!(answer.is_err(), "server name {name:?} was served");
    }
    Ok(())
}

async fn websocket(stack: &Stack) -> Result<()> {
    let stream = stack.target(Port::Http).connect().await?;
    talk(stream, &format!("ws://{ALPHA}/chat")).await
}

async fn websocket_with_tls(stack: &Stack) -> Result<()> {
    let target: Target = stack.tls_target(ALPHA);
    let options = target.tls.clone().unwrap_or_default();
    let stream = tls::handshake(target.connect().await?, &options).await?;
    talk(stream, &format!("wss://{ALPHA}/chat")).await
}

async fn talk<S: AsyncRead + AsyncWrite + Unpin>(stream: S, url: &str) -> Result<()> {
    let (mut socket, response) =
        tokio_tungstenite::client_async(url.into_client_request()?, stream).await?;
    let service = response
        .headers()
        .get("x-echo-service")
        .and_then(|value| value.to_str().ok());
    ensure!(service == Some("alpha"), "upgraded by {service:?}");
    for text in ["one", "two"] {
        socket.send(Message::text(text)).await?;
        let back = tokio::time::timeout(LIMIT, socket.next())
            .await?
            .context("closed")??;
        ensure!(back == Message::text(text), "{back:?}");
    }
    socket.close(None).await?;
    Ok(())
}
