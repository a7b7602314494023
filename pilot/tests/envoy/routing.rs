//! Scoped routes: which host serves a request.

use std::net::SocketAddr;

use pilot::bootstrap::XdsProtocol;
use pilot::translate::lds::Routing;

use crate::fixture::{prefix_to, put_backend, put_host, put_http_listener, put_scope_filter, to};
use crate::http::{self, Answer};
use crate::proxy::{Envoy, free_port};
use crate::world::{ControlPlane, World};

pub const TESTS: &[(&str, fn())] = &[
    ("scoped_routes_by_host", || {
        scoped_routes_by_host(false, XdsProtocol::Delta);
    }),
    ("scoped_routes_by_host_on_demand", || {
        scoped_routes_by_host(true, XdsProtocol::Delta);
    }),
    ("scoped_routes_by_host_sotw", || {
        scoped_routes_by_host(false, XdsProtocol::Sotw);
    }),
    ("a_new_wildcard_host_leaves_the_listener_alone", || {
        a_new_wildcard_host_leaves_the_listener_alone(false);
    }),
    ("a_new_wildcard_host_on_demand", || {
        a_new_wildcard_host_leaves_the_listener_alone(true);
    }),
];

const BACKENDS: [&str; 6] = ["exact", "second", "narrow", "wide", "any", "other"];

fn backends(world: &mut World) {
    for name in BACKENDS {
        put_backend(world, name, http::backend(name));
    }
}

fn served_by(answer: &Answer) -> Option<&str> {
    let line = answer.body.lines().next()?;
    line.strip_prefix("backend: ")
}

/// Two ports with the same hosts and other routes: scopes of one must not serve the other.
fn scoped_world(ports: (u16, u16), on_demand: bool) -> World {
    let mut world = World::default();
    backends(&mut world);
    let (first, second) = ports;
    let at = (first, on_demand);
    put_host(&mut world, at, "exact.b.c", &prefix_to("/e", "exact"));
    put_host(&mut world, at, "*.b.c", &prefix_to("/n", "narrow"));
    put_host(&mut world, at, "*.c", &prefix_to("/w", "wide"));
    put_host(&mut world, at, "*", &prefix_to("/a", "any"));
    put_host(&mut world, (second, on_demand), "exact.b.c", &to("second"));
    put_scope_filter(&mut world, first, &["*", "*.c", "*.b.c"]);
    put_scope_filter(&mut world, second, &[]);
    for port in [first, second] {
        put_http_listener(&mut world, port, Routing::Scoped { on_demand });
    }
    world
}

fn scoped_routes_by_host(on_demand: bool, protocol: XdsProtocol) {
    let ports = (free_port(), free_port());
    let control_plane = ControlPlane::start(scoped_world(ports, on_demand));
    let envoy = Envoy::start(control_plane.address, protocol);
    envoy.wait_for_port(ports.0);
    envoy.wait_for_port(ports.1);

    let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let table = [
        ("exact.b.c", "/e", Some("exact")),
        ("exact.b.c:8080", "/e", Some("exact")),
        ("EXACT.B.c", "/e", Some("exact")),
        ("EXACT.B.c:1", "/e", Some("exact")),
        ("exact.b.c", "/n", Some("narrow")),
        ("exact.b.c", "/w", Some("wide")),
        ("exact.b.c", "/a", Some("any")),
        ("exact.b.c", "/zzz", None),
        ("x.b.c", "/n", Some("narrow")),
        ("X.b.C:99", "/n", Some("narrow")),
        ("x.y.b.c", "/n", Some("narrow")),
        ("x.b.c", "/e", None),
        ("x.c", "/w", Some("wide")),
        ("x.c", "/n", None),
        ("x.y.b.c", "/w", Some("wide")),
        ("X.y.b.c", "/a", Some("any")),
        ("c", "/w", None),
        ("c", "/a", Some("any")),
        ("10.1.2.3:80", "/a", Some("any")),
        ("[::1]:80", "/a", Some("any")),
        ("[::1]", "/a", Some("any")),
    ];
    for (host, path, expected) in table {
        let answer = http::get(at(ports.0), host, path, &[]);
        assert_eq!(
            served_by(&answer),
            expected,
            "{host}{path}: {answer:?} {}",
            envoy.log()
        );
        assert_eq!(answer.status, if expected.is_some() { 200 } else { 404 });
    }

    let own = http::get(at(ports.1), "exact.b.c", "/e", &[]);
    assert_eq!(served_by(&own), Some("second"));
    let none = http::get(at(ports.1), "x.b.c", "/n", &[]);
    assert_eq!(none.status, 404, "hosts of the other port do not serve");

    let forged = format!("{}.exact.b.c", ports.0);
    let spoofed = http::get(at(ports.0), "x.b.c", "/e", &[("x-isthmus-scope", &forged)]);
    assert_eq!(spoofed.status, 404, "clients cannot choose the scope");

    let seen = http::get(at(ports.0), "Exact.b.c:8080", "/e", &[]).body;
    assert!(!seen.contains("x-isthmus-scope"), "{seen}");
    assert!(seen.contains("host: Exact.b.c:8080"), "{seen}");

    assert_eq!(control_plane.refused(), Vec::<String>::new());
    println!("{}", envoy.log());
}

fn a_new_wildcard_host_leaves_the_listener_alone(on_demand: bool) {
    let ports = (free_port(), free_port());
    let control_plane = ControlPlane::start(scoped_world(ports, on_demand));
    let envoy = Envoy::start(control_plane.address, XdsProtocol::Delta);
    envoy.wait_for_port(ports.0);
    let at = SocketAddr::from(([127, 0, 0, 1], ports.0));
    assert_eq!(http::get(at, "x.new.d", "/o", &[]).status, 404);

    control_plane.take_sent();
    control_plane.update(|world| {
        put_host(
            world,
            (ports.0, on_demand),
            "*.new.d",
            &prefix_to("/o", "other"),
        );
        put_scope_filter(world, ports.0, &["*", "*.c", "*.b.c", "*.new.d"]);
    });
    envoy.wait("new host", || {
        served_by(&http::get(at, "x.new.d", "/o", &[])) == Some("other")
    });
    let mut sent = control_plane.take_sent();
    sent.sort();
    assert_eq!(sent, ["ecds+1-0", "rds+1-0", "srds+1-0"]);
    assert_eq!(envoy.stat("listener_manager.listener_modified"), 0);
    assert_eq!(control_plane.refused(), Vec::<String>::new());
}
