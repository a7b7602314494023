//! Readiness, metrics and the drain of a gateway that is about to end.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use pilot::bootstrap::BootstrapOptions;
use pilot::gateway::{DrainOptions, drain, probe};

use crate::fixture::hostname;
use crate::http;
use crate::pilot_server::{Pilot, backend, gateway, host};
use crate::proxy::{Envoy, PATIENCE, free_port};

pub const TESTS: &[(&str, fn())] = &[
    (
        "probes_see_status_and_nothing_else",
        probes_see_status_and_nothing_else,
    ),
    (
        "a_drain_ends_with_its_clients",
        a_drain_ends_with_its_clients,
    ),
];

struct Gateway {
    envoy: Envoy,
    admin_port: u16,
    status: SocketAddr,
    metrics: SocketAddr,
    clients: SocketAddr,
    _pilot: Pilot,
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn start() -> Gateway {
    let port = free_port();
    let mut facts = backend("web");
    let route = format!(
        "- {{name: web, route: [{{destination: {{host: {}, port: {{number: 80}}}}}}]}}\n",
        hostname("web")
    );
    facts.extend([gateway(port), host("exact.test", "plain", &route)]);
    let pilot = Pilot::start(facts);
    let options = BootstrapOptions {
        admin_port: free_port(),
        status_port: Some(free_port()),
        metrics_port: Some(free_port()),
        xds_host: pilot.address.ip().to_string(),
        xds_port: pilot.address.port(),
        ..BootstrapOptions::default()
    };
    let envoy = Envoy::start_with(&options);
    envoy.wait_for_port(port);
    Gateway {
        envoy,
        admin_port: options.admin_port,
        status: local(options.status_port.unwrap()),
        metrics: local(options.metrics_port.unwrap()),
        clients: local(port),
        _pilot: pilot,
    }
}

fn page(address: SocketAddr, path: &str) -> (u16, String) {
    let url = format!("http://{address}{path}").parse().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (status, body) = runtime.block_on(probe(&url, Duration::ZERO)).unwrap();
    (status.as_u16(), body)
}

fn probes_see_status_and_nothing_else() {
    let gateway = start();
    gateway.envoy.wait("readiness", || {
        page(gateway.status, "/healthz/ready").0 == 200
    });
    let (status, body) = page(gateway.metrics, "/stats/prometheus");
    assert!(
        status == 200 && body.contains("\nenvoy_server_live"),
        "{status}"
    );
    // A query is passed on: Prometheus may ask for what is used only.
    let (status, used) = page(gateway.metrics, "/stats/prometheus?usedonly");
    assert!(status == 200 && used.len() < body.len(), "{status}");
    for address in [gateway.status, gateway.metrics] {
        for path in ["/", "/config_dump", "/quitquitquit", "/ready"] {
            assert_eq!(page(address, path).0, 404, "{address}{path}");
        }
    }
    let post = http::request(gateway.status, "POST", "x", "/healthz/ready", &[]);
    assert_eq!(post.status, 404);
}

fn a_drain_ends_with_its_clients() {
    let gateway = start();
    let mut client = TcpStream::connect(gateway.clients).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = "GET / HTTP/1.1\r\nhost: exact.test\r\n\r\n";
    let before = http::exchange(&mut client, request).unwrap();
    assert_eq!((before.status, before.header("connection")), (200, None));

    let options = DrainOptions {
        admin_port: gateway.admin_port,
        delay: Duration::from_millis(200),
        limit: PATIENCE,
    };
    let draining = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(drain(options)).unwrap()
    });
    gateway.envoy.wait("failing readiness", || {
        page(gateway.status, "/healthz/ready").0 == 503
    });
    // Who has not noticed is still served, and told to connect elsewhere.
    let new = http::get(gateway.clients, "exact.test", "/", &[]);
    assert_eq!(new.status, 200);
    std::thread::sleep(options.delay * 2);
    assert!(!draining.is_finished(), "a client is still there");
    let last = http::exchange(&mut client, request).unwrap();
    assert_eq!(
        (last.status, last.header("connection")),
        (200, Some("close"))
    );
    drop(client);
    assert_eq!(draining.join().unwrap(), 0);
}
