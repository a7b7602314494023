//! TLS of clients, which take any certificate and remember it, and of backends.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Name in the handshake when no server name is to be sent; it does not go over the wire.
const NO_NAME: &str = "no-server-name.invalid";

/// First byte of a TLS connection.
pub const HANDSHAKE: u8 = 0x16;

/// How to do the handshake.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// Server name; `None` = none is sent.
    pub server_name: Option<String>,
    /// Client certificate and key, PEM.
    pub client_cert: Option<String>,
    /// Application protocols offered.
    pub alpn: Vec<&'static str>,
    /// Authority that must vouch for the server, PEM; `None` = any certificate is taken.
    pub trusted: Option<String>,
}

/// Does the handshake over a connection.
///
/// # Errors
/// The client certificate or the server name is no such thing, or the server refuses.
pub async fn handshake(stream: TcpStream, options: &TlsOptions) -> Result<TlsStream<TcpStream>> {
    let name = options.server_name.as_deref().unwrap_or(NO_NAME);
    let name =
        ServerName::try_from(name.to_owned()).with_context(|| format!("server name {name:?}"))?;
    let connector = TlsConnector::from(Arc::new(config(options)?));
    Ok(connector.connect(name, stream).await?)
}

/// The certificate (DER) that the server showed.
pub fn server_certificate(stream: &TlsStream<TcpStream>) -> Option<Vec<u8>> {
    stream
        .get_ref()
        .1
        .peer_certificates()?
        .first()
        .map(|certificate| certificate.to_vec())
}

/// A server with a certificate of its own making for `name`.
///
/// # Errors
/// The name can be that of no host.
pub fn acceptor(name: &str) -> Result<TlsAcceptor> {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed([name.to_owned()])?;
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn config(options: &TlsOptions) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    let builder = match &options.trusted {
        None => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for root in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                roots.add(root?)?;
            }
            builder.with_root_certificates(roots)
        }
    };
    let mut config = match &options.client_cert {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let chain: Vec<_> =
                CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>()?;
            let key =
                PrivateKeyDer::from_pem_slice(pem.as_bytes()).context("client_cert has no key")?;
            builder.with_client_auth_cert(chain, key)?
        }
    };
    config.enable_sni = options.server_name.is_some();
    config.alpn_protocols = options
        .alpn
        .iter()
        .map(|protocol| protocol.as_bytes().to_vec())
        .collect();
    Ok(config)
}

/// Accepts every certificate: the cases judge its content themselves.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
