//! TLS to backends, and what a missing or wrong Secret does.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Instant;

use pilot::bootstrap::XdsProtocol;
use pilot::model::secret::TlsSecret;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;

use crate::fixture::to;
use crate::http;
use crate::pilot_server::{
    Pilot, backend, endpoints, gateway, host, no_secret, rule, secret, service,
};
use crate::proxy::{Envoy, free_port};
use crate::tls::provider;

pub const TESTS: &[(&str, fn())] = &[
    ("backends_are_verified", backends_are_verified),
    ("a_missing_secret_closes_only_its_cluster", missing_secret),
];

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
    der: rustls::pki_types::CertificateDer<'static>,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Self {
            pem: certificate.pem(),
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Certificate and key for a name.
    pub fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// A Secret with a certificate for a name, and other trust anchors.
    pub fn secret(&self, name: &str, anchors: Option<&Self>) -> TlsSecret {
        let (certificate, key) = self.issue(name);
        TlsSecret {
            cert_chain: certificate.pem().into(),
            private_key: key.serialize_pem().into(),
            ca: anchors.map(|anchors| anchors.pem.clone().into()),
        }
    }

    pub fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        Arc::new(roots)
    }
}

/// Starts a TLS backend with a certificate for `backend.test`; with `clients` it asks for one of theirs.
fn tls_backend(
    name: &'static str,
    authority: &Authority,
    clients: Option<&Authority>,
) -> SocketAddr {
    let (certificate, key) = authority.issue("backend.test");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let builder = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(clients.roots(), provider())
                .build()
                .unwrap(),
        ),
        None => builder.with_no_client_auth(),
    };
    let config = builder
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = rustls::ServerConnection::new(config.clone()).unwrap();
            std::thread::spawn(move || {
                http::serve(name, rustls::StreamOwned::new(connection, stream));
            });
        }
    });
    address
}

const SECRET: &str = "credentialName: 'kubernetes-ingress://Kubernetes/test/upstream'";

fn tls(mode: &str, rest: &str) -> String {
    // A connection that is open stays in use whatever happens to the Secret.
    let once = "connectionPool: {http: {maxRequestsPerConnection: 1}}";
    format!("trafficPolicy: {{{once}, tls: {{mode: {mode}{rest}}}}}")
}

fn backends_are_verified() {
    let port = free_port();
    let [ours, theirs, others] = ["ours", "theirs", "others"].map(Authority::new);
    let open = tls_backend("open", &theirs, None);
    let closed = tls_backend("closed", &theirs, Some(&ours));
    let facts = vec![
        gateway(port),
        service("open"),
        endpoints("open", &[open]),
        service("closed"),
        endpoints("closed", &[closed]),
        host("open.test", "plain", &to("open")),
        host("closed.test", "plain", &to("closed")),
        rule("open", &tls("SIMPLE", "")),
        rule("closed", &tls("SIMPLE", "")),
    ];
    let pilot = Pilot::start(facts);
    let envoy = Envoy::start(pilot.address, XdsProtocol::Delta);
    envoy.wait_for_port(port);
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    let status = |host: &str| http::get(at, host, "/", &[]).status;
    let becomes = |what: &str, host: &str, expected: u16| {
        envoy.wait(what, || status(host) == expected);
    };
    becomes("not verified", "open.test", 200);
    becomes("no certificate to show", "closed.test", 503);

    let both = format!(", {SECRET}");
    let usable = ours.secret("gateway", Some(&theirs));
    pilot.change(vec![
        rule("open", &tls("SIMPLE", &both)),
        rule("closed", &tls("MUTUAL", &both)),
    ]);
    becomes("no Secret", "open.test", 503);
    becomes("no Secret", "closed.test", 503);
    pilot.change(vec![secret("upstream", usable.clone())]);
    becomes("verified", "open.test", 200);
    becomes("mutual", "closed.test", 200);

    pilot.change(vec![secret(
        "upstream",
        ours.secret("gateway", Some(&others)),
    )]);
    becomes("another authority", "open.test", 503);
    becomes("another authority", "closed.test", 503);
    pilot.change(vec![secret("upstream", ours.secret("gateway", None))]);
    becomes("no anchors", "closed.test", 503);
    let off = format!("{both}, insecureSkipVerify: false");
    pilot.change(vec![rule("closed", &tls("MUTUAL", &off))]);
    becomes("verification switched off", "closed.test", 200);
    assert_eq!(status("open.test"), 503);

    pilot.change(vec![
        secret("upstream", usable),
        rule(
            "open",
            &tls(
                "SIMPLE",
                &format!("{both}, subjectAltNames: [backend.test]"),
            ),
        ),
        rule(
            "closed",
            &tls("MUTUAL", &format!("{both}, subjectAltNames: [other.test]")),
        ),
    ]);
    becomes("the right name", "open.test", 200);
    becomes("another name", "closed.test", 503);
    pilot.change(vec![no_secret("upstream")]);
    becomes("the Secret is gone", "open.test", 503);
    pilot.assert_accepted(&envoy);
}

/// Envoy starts without delay, and everything else serves.
fn missing_secret() {
    let port = free_port();
    let authority = Authority::new("theirs");
    let mut facts = backend("web");
    facts.extend([
        gateway(port),
        service("far"),
        endpoints("far", &[tls_backend("far", &authority, None)]),
        host("far.test", "plain", &to("far")),
        host("web.test", "plain", &to("web")),
        rule("far", &tls("SIMPLE", &format!(", {SECRET}"))),
    ]);
    let pilot = Pilot::start(facts);
    let start = Instant::now();
    let envoy = Envoy::start(pilot.address, XdsProtocol::Sotw);
    envoy.wait_for_port(port);
    let took = start.elapsed();
    assert!(took.as_secs() < 8, "waited {took:?}");
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!(http::get(at, "web.test", "/", &[]).status, 200);
    assert_eq!(http::get(at, "far.test", "/", &[]).status, 503);
    pilot.change(vec![secret(
        "upstream",
        TlsSecret {
            ca: Some(authority.pem.clone().into()),
            ..TlsSecret::default()
        },
    )]);
    envoy.wait("the Secret", || {
        http::get(at, "far.test", "/", &[]).status == 200
    });
    pilot.assert_accepted(&envoy);
}
