//! Accepts connections on the secure port and does the handshakes, each in its own time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use daemon::seldom::Seldom;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::{Connected, TcpConnectInfo};
use tracing::{debug, warn};

use super::certificates::CurrentTls;
use crate::metrics::Metrics;

/// How long a handshake may take.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Handshakes at the same time; further connections wait in the system's queue.
const MAX_HANDSHAKES: usize = 1000;
/// Rest after the system could not accept a connection.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// What is known of a peer from its connection.
#[derive(Clone, Debug)]
pub struct SecurePeer {
    /// Its address.
    pub tcp: TcpConnectInfo,
    /// The client certificate that it showed; verified.
    pub certificate: Option<CertificateDer<'static>>,
}

/// A connection after its handshake.
#[derive(Debug)]
pub struct TlsConnection {
    stream: TlsStream<TcpStream>,
    peer: SecurePeer,
}

impl Connected for TlsConnection {
    type ConnectInfo = SecurePeer;

    fn connect_info(&self) -> SecurePeer {
        self.peer.clone()
    }
}

impl AsyncRead for TlsConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TlsConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Hands connections to `out` until nobody takes them any more. Each handshake uses the certificate of its moment; `current`
/// has one already.
pub async fn accept(
    listener: TcpListener,
    current: CurrentTls,
    out: mpsc::Sender<io::Result<TlsConnection>>,
    metrics: Metrics,
) {
    let mut handshakes = JoinSet::new();
    let seldom = Arc::new(Seldom::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(), if handshakes.len() < MAX_HANDSHAKES => accepted,
            Some(_) = handshakes.join_next(), if !handshakes.is_empty() => continue,
            () = out.closed() => return,
        };
        let config = current.borrow().clone();
        let (Ok((stream, _)), Some(config)) = (accepted, config) else {
            tokio::time::sleep(ACCEPT_REST).await;
            continue;
        };
        let (out, metrics, seldom) = (out.clone(), metrics.clone(), seldom.clone());
        handshakes.spawn(async move {
            let address = stream.peer_addr();
            match handshake(stream, config).await {
                // Nobody takes it any more when the pilot ends.
                Ok(connection) => drop(out.send(Ok(connection)).await),
                Err(error) => {
                    let peer = address
                        .map(|address| address.to_string())
                        .unwrap_or_default();
                    report(&error, &peer, &seldom, &metrics);
                }
            }
        });
    }
}

async fn handshake(stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<TlsConnection> {
    stream.set_nodelay(true)?;
    let tcp = stream.connect_info();
    // Whoever connects and says nothing looks whether the port is open.
    if tokio::time::timeout(HANDSHAKE_LIMIT, stream.peek(&mut [0])).await?? == 0 {
        return Err(io::ErrorKind::NotConnected.into());
    }
    let accepting = TlsAcceptor::from(config).accept(stream);
    let stream = tokio::time::timeout(HANDSHAKE_LIMIT, accepting).await??;
    let certificates = stream.get_ref().1.peer_certificates();
    let certificate = certificates.and_then(|chain| chain.first());
    let certificate = certificate.map(|certificate| certificate.clone().into_owned());
    let peer = SecurePeer { tcp, certificate };
    Ok(TlsConnection { stream, peer })
}

fn report(error: &io::Error, peer: &str, seldom: &Seldom, metrics: &Metrics) {
    if error.kind() == io::ErrorKind::NotConnected {
        debug!(peer, "a connection ended before its handshake");
        return;
    }
    metrics.handshake_failures.inc();
    if let Some(left_out) = seldom.permit(Instant::now()) {
        let reason = reason(error);
        warn!(
            peer,
            reason, left_out, "TLS handshake on the xDS port failed"
        );
    }
}

/// What the error means for who has to mend it.
fn reason(error: &io::Error) -> String {
    let alert = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let distrust = matches!(
        alert,
        Some(rustls::Error::AlertReceived(
            rustls::AlertDescription::UnknownCA
                | rustls::AlertDescription::BadCertificate
                | rustls::AlertDescription::CertificateUnknown
                | rustls::AlertDescription::CertificateExpired
        ))
    );
    // Envoy's gRPC library says nothing before it goes.
    if distrust || error.kind() == io::ErrorKind::UnexpectedEof {
        format!(
            "{error}: it seems that the peer does not trust this pilot's certificate, or not for the name that it uses; its \
             --xds-ca-file is another authority's, or its --xds-server-name is not in the certificate"
        )
    } else if error.kind() == io::ErrorKind::TimedOut {
        format!("not done within {} s", HANDSHAKE_LIMIT.as_secs())
    } else {
        error.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distrust_is_explained() {
        let alert = |description| {
            let error = rustls::Error::AlertReceived(description);
            reason(&io::Error::new(io::ErrorKind::InvalidData, error))
        };
        let unknown = alert(rustls::AlertDescription::UnknownCA);
        assert!(unknown.contains("--xds-ca-file"), "{unknown}");
        let gone = reason(&io::ErrorKind::UnexpectedEof.into());
        assert!(gone.contains("--xds-ca-file"), "{gone}");
        let other = alert(rustls::AlertDescription::ProtocolVersion);
        assert!(!other.contains("--xds-ca-file"), "{other}");
    }
}
