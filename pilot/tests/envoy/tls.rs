//! HTTPS: certificates by SNI, and what a missing one does to the others.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use pilot::bootstrap::XdsProtocol;
use pilot::model::secret::TlsSecret;
use pilot::translate::lds::{ClientCertificate, Routing, Servers, TlsChain, TlsVersion};
use pilot::translate::{Origin, sds};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use xds_engine::types;

use crate::fixture::{
    put_backend, put_host, put_http_listener, put_listener, put_scope_filter, to,
};
use crate::http;
use crate::proxy::{Envoy, free_port};
use crate::world::{ControlPlane, World};

pub const TESTS: &[(&str, fn())] = &[
    ("certificates_by_sni", certificates_by_sni),
    ("a_missing_secret_harms_only_its_host", missing_secret),
];

fn chain(hosts: &[&str], secret: &str) -> TlsChain {
    TlsChain {
        origin: Origin {
            namespace: "test".to_owned(),
            name: "gateway".to_owned(),
        },
        server_name: String::new(),
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        secret: secret.to_owned(),
        min_version: TlsVersion::V1_2,
        max_version: TlsVersion::Auto,
        cipher_suites: vec!["ECDHE-ECDSA-AES128-GCM-SHA256".to_owned()],
        client_certificate: ClientCertificate::None,
        http2: true,
        route_name: String::new(),
    }
}

fn put_secret(world: &mut World, name: &str, host: &str) -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
    let secret = TlsSecret {
        cert_chain: made.cert.pem().into(),
        private_key: made.signing_key.serialize_pem().into(),
        ca: None,
    };
    let resource = sds::secret(name, &secret).unwrap();
    world.put(types::SECRET, name, &resource);
    made.cert.der().to_vec()
}

fn put_route(world: &mut World, port: u16, host: &str) {
    put_host(world, (port, false), host, &to("web"));
}

fn certificates_by_sni() {
    let port = free_port();
    let mut world = World::default();
    put_backend(&mut world, "web", http::backend("web"));
    let exact = put_secret(&mut world, "kubernetes-ingress://c/test/exact", "a.b.c");
    let wild = put_secret(&mut world, "kubernetes-ingress://c/test/wild", "*.b.c");
    let rest = put_secret(&mut world, "kubernetes-ingress://c/test/rest", "rest");
    let chains = vec![
        chain(&["a.b.c"], "kubernetes-ingress://c/test/exact"),
        chain(&["*.b.c", "A.b.c"], "kubernetes-ingress://c/test/wild"),
        chain(&["a.b.c"], "kubernetes-ingress://c/test/rest"),
        chain(&["*"], "kubernetes-ingress://c/test/rest"),
    ];
    for host in ["a.b.c", "*"] {
        put_route(&mut world, port, host);
    }
    put_scope_filter(&mut world, port, &["*"]);
    let routing = Routing::Scoped { on_demand: false };
    put_listener(
        &mut world,
        port,
        routing,
        Servers::Tls(chains.into_iter().map(Into::into).collect()),
    );

    let control_plane = ControlPlane::start(world);
    let envoy = Envoy::start(control_plane.address, XdsProtocol::Delta);
    envoy.wait_for_port(port);
    let table = [
        ("a.b.c", &exact),
        ("x.b.c", &wild),
        ("other.org", &rest),
        ("127.0.0.1", &rest),
    ];
    for (name, expected) in table {
        let (answer, certificate) = get(port, name).unwrap();
        assert_eq!(answer.status, 200, "{name}");
        assert!(certificate == *expected, "{name}: another certificate");
    }
    assert_eq!(control_plane.refused(), Vec::<String>::new());
}

/// Neither the other hosts of the port nor other ports wait for a Secret that is not there.
fn missing_secret() {
    let (plain, secure) = (free_port(), free_port());
    let mut world = World::default();
    put_backend(&mut world, "web", http::backend("web"));
    put_secret(&mut world, "kubernetes-ingress://c/test/there", "a.b.c");
    for port in [plain, secure] {
        put_route(&mut world, port, "a.b.c");
        put_scope_filter(&mut world, port, &[]);
    }
    let routing = Routing::Scoped { on_demand: false };
    put_http_listener(&mut world, plain, routing);
    let chains = vec![
        chain(&["a.b.c"], "kubernetes-ingress://c/test/there"),
        chain(&["gone.b.c"], "kubernetes-ingress://c/test/gone"),
    ];
    put_listener(
        &mut world,
        secure,
        routing,
        Servers::Tls(chains.into_iter().map(Into::into).collect()),
    );
    let control_plane = ControlPlane::start(world);
    let start = Instant::now();
    let envoy = Envoy::start(control_plane.address, XdsProtocol::Delta);
    envoy.wait_for_port(plain);
    envoy.wait_for_port(secure);
    let took = start.elapsed();
    assert!(took.as_secs() < 8, "waited {took:?}");
    assert_eq!(get(secure, "a.b.c").unwrap().0.status, 200);
    assert!(get(secure, "gone.b.c").is_none());

    control_plane.update(|world| {
        put_secret(world, "kubernetes-ingress://c/test/gone", "gone.b.c");
    });
    envoy.wait("the secret", || get(secure, "gone.b.c").is_some());
    assert_eq!(control_plane.refused(), Vec::<String>::new());
}

/// One request, and the certificate that the server showed; `None` when the handshake fails.
fn get(port: u16, name: &str) -> Option<(http::Answer, Vec<u8>)> {
    let server_name = ServerName::try_from(name.to_owned()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting))
        .with_no_client_auth();
    let connection = rustls::ClientConnection::new(Arc::new(config), server_name).unwrap();
    let socket = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).ok()?;
    let mut stream = rustls::StreamOwned::new(connection, socket);
    let answer = http::exchange(&mut stream, &http::head("GET", name, "/", &[]))?;
    let certificate = stream.conn.peer_certificates()?.first()?.to_vec();
    Some((answer, certificate))
}

pub fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Takes any certificate: the test looks at it afterwards.
#[derive(Debug)]
pub struct Trusting;

impl rustls::client::danger::ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
