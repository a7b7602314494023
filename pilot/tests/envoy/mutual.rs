//! Clients that have to show a certificate.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use pilot::bootstrap::XdsProtocol;
use pilot::model::change::Change;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use shared_proto::networking::v1alpha3::Gateway;

use crate::fixture::to;
use crate::http;
use crate::pilot_server::{Pilot, backend, host, object, secret};
use crate::proxy::{Envoy, free_port};
use crate::tls::{Trusting, provider};
use crate::upstream_tls::Authority;

pub const TESTS: &[(&str, fn())] = &[("clients_are_verified", clients_are_verified)];

fn server(name: &str, port: u16, host: &str, mode: &str) -> Change {
    object::<Gateway>(
        name,
        &format!(
            "servers: [{{port: {{number: {port}, name: https, protocol: HTTPS}}, hosts: ['{host}'], tls: \
             {{mode: {mode}, credentialName: 'kubernetes-ingress://Kubernetes/test/{name}'}}}}]"
        ),
    )
}

fn clients_are_verified() {
    let port = free_port();
    let [site, clients, others] = ["site", "clients", "others"].map(Authority::new);
    let mut facts = backend("web");
    for (name, host_name, mode) in [
        ("mutual", "mutual.test", "MUTUAL"),
        ("second", "second.test", "MUTUAL"),
        ("open", "open.test", "SIMPLE"),
        ("rest", "*", "SIMPLE"),
    ] {
        facts.push(server(name, port, host_name, mode));
        facts.push(host(host_name, name, &to("web")));
        let anchors = (name == "mutual").then_some(&clients);
        facts.push(secret(name, site.secret(host_name, anchors)));
    }
    let pilot = Pilot::start(facts);
    let envoy = Envoy::start(pilot.address, XdsProtocol::Delta);
    envoy.wait_for_port(port);
    let known = clients.issue("client");
    let stranger = others.issue("client");
    let get = |name: &str, host: &str, client| get(port, name, host, client);

    assert_eq!(get("mutual.test", "mutual.test", Some(&known)), Some(200));
    assert_eq!(get("mutual.test", "mutual.test", None), None);
    assert_eq!(get("mutual.test", "mutual.test", Some(&stranger)), None);
    assert_eq!(get("open.test", "open.test", None), Some(200));
    // A connection for another name does not get round it.
    assert_eq!(get("open.test", "mutual.test", None), Some(403));
    assert_eq!(get("rest.test", "mutual.test", Some(&known)), Some(403));
    assert_eq!(get("mutual.test", "open.test", Some(&known)), Some(200));
    // Without trust anchors nobody comes in, also not by the server for every host.
    assert_eq!(get("second.test", "second.test", Some(&known)), None);
    assert_eq!(get("second.test", "second.test", None), None);
    assert_eq!(get("mutual.test", "second.test", Some(&known)), Some(403));

    let anchors = site.secret("second.test", Some(&others));
    pilot.change(vec![secret("second", anchors)]);
    envoy.wait("trust anchors", || {
        get("second.test", "second.test", Some(&stranger)) == Some(200)
    });
    assert_eq!(get("mutual.test", "second.test", Some(&known)), Some(403));
    pilot.assert_accepted(&envoy);
}

/// Status of one request; `None` when the connection fails.
fn get(
    port: u16,
    name: &str,
    host: &str,
    client: Option<&(rcgen::Certificate, rcgen::KeyPair)>,
) -> Option<u16> {
    let builder = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting));
    let config = match client {
        Some((certificate, key)) => {
            let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
            builder
                .with_client_auth_cert(vec![certificate.der().clone()], key)
                .unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    let server_name = ServerName::try_from(name.to_owned()).unwrap();
    let connection = rustls::ClientConnection::new(Arc::new(config), server_name).unwrap();
    let socket = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).ok()?;
    let mut stream = rustls::StreamOwned::new(connection, socket);
    let answer = http::exchange(&mut stream, &http::head("GET", host, "/", &[]))?;
    Some(answer.status)
}
