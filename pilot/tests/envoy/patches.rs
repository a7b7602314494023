//! What EnvoyFilters do to requests, and what bad ones do not.

use std::net::SocketAddr;

use pilot::bootstrap::XdsProtocol;
use pilot::model::change::Change;
use shared_proto::Kind;
use shared_proto::networking::v1alpha3::EnvoyFilter;

use crate::fixture::{hostname, prefix_to, to};
use crate::http;
use crate::pilot_server::{Pilot, backend, endpoints, gateway, gone, host, object, service};
use crate::proxy::{Envoy, free_port};

pub const TESTS: &[(&str, fn())] = &[
    (
        "filters_are_enabled_per_route",
        filters_are_enabled_per_route,
    ),
    ("an_auth_service_is_asked", an_auth_service_is_asked),
    ("every_sort_of_patch_is_accepted", || {
        every_sort_of_patch_is_accepted(XdsProtocol::Delta);
    }),
    ("every_sort_of_patch_is_accepted_sotw", || {
        every_sort_of_patch_is_accepted(XdsProtocol::Sotw);
    }),
    ("gateways_are_told_apart", gateways_are_told_apart),
    (
        "a_bad_patch_harms_only_itself",
        a_bad_patch_harms_only_itself,
    ),
];

fn run(mut facts: Vec<Change>, protocol: XdsProtocol) -> (Pilot, Envoy, SocketAddr) {
    let port = free_port();
    facts.push(gateway(port));
    let pilot = Pilot::start(facts);
    let envoy = Envoy::start(pilot.address, protocol);
    envoy.wait_for_port(port);
    (pilot, envoy, SocketAddr::from(([127, 0, 0, 1], port)))
}

fn filter(name: &str, patches: &str) -> Change {
    object::<EnvoyFilter>(name, &format!("configPatches:\n{patches}"))
}

/// An HTTP filter before the router.
fn http_filter(value: &str) -> String {
    format!(
        "- {{applyTo: HTTP_FILTER, match: {{context: GATEWAY, listener: {{filterChain: {{filter: {{name: \
         envoy.filters.network.http_connection_manager, subFilter: {{name: envoy.filters.http.router}}}}}}}}}}, \
         patch: {{operation: INSERT_BEFORE, value: {value}}}}}\n"
    )
}

/// Something merged into the routes of a virtual host.
fn route(host: &str, port: u16, value: &str) -> String {
    format!(
        "- {{applyTo: HTTP_ROUTE, match: {{context: GATEWAY, routeConfiguration: {{vhost: {{name: '{host}:{port}'}}}}}}, \
         patch: {{operation: MERGE, value: {value}}}}}\n"
    )
}

const BUFFER: &str = "{name: envoy.filters.http.buffer, disabled: true, typed_config: {'@type': \
     type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer, max_request_bytes: 1000}}";
/// Switched on, with the settings of the filter itself.
const ON: &str = "{typed_per_filter_config: {envoy.filters.http.buffer: {'@type': \
     type.googleapis.com/envoy.config.route.v3.FilterConfig, config: {}}}}";
const SMALL: &str = "{typed_per_filter_config: {envoy.filters.http.buffer: {'@type': \
     type.googleapis.com/envoy.extensions.filters.http.buffer.v3.BufferPerRoute, buffer: {max_request_bytes: 8}}}}";

/// Status of a request with a body of this length.
fn post(at: SocketAddr, host: &str, length: usize) -> u16 {
    use std::io::Write as _;
    let mut stream = std::net::TcpStream::connect(at).unwrap();
    let length_header = length.to_string();
    let head = http::head("POST", host, "/", &[("content-length", &length_header)]);
    stream.write_all(head.as_bytes()).unwrap();
    let body = "x".repeat(length);
    http::exchange(&mut stream, &body).map_or(0, |answer| answer.status)
}

fn filters_are_enabled_per_route() {
    let mut facts = backend("web");
    facts.extend([
        host("a.test", "plain", &to("web")),
        host("b.test", "plain", &to("web")),
        host("c.test", "plain", &to("web")),
        host("*.wild.test", "plain", &to("web")),
        filter("buffer", &http_filter(BUFFER)),
    ]);
    let (pilot, envoy, at) = run(facts, XdsProtocol::Delta);
    assert_eq!(post(at, "a.test", 100), 200, "{}", envoy.log());
    let patches = route("a.test", at.port(), SMALL)
        + &route("*.wild.test", at.port(), SMALL)
        + &route("c.test", at.port(), ON);
    pilot.change(vec![filter("a", &patches)]);
    envoy.wait("a bound on bodies", || post(at, "a.test", 100) == 413);
    envoy.wait("one of a wildcard host", || {
        post(at, "x.wild.test", 100) == 413
    });
    assert_eq!(post(at, "A.TEST", 100), 413, "no way around");
    assert_eq!(post(at, "a.test", 5), 200);
    assert_eq!(post(at, "b.test", 2000), 200);
    envoy.wait("the bound of the filter itself", || {
        post(at, "c.test", 2000) == 413
    });
    assert_eq!(post(at, "C.test", 2000), 413);
    assert_eq!(post(at, "c.test", 100), 200);
    pilot.change(vec![gone(Kind::EnvoyFilter, "a")]);
    envoy.wait("no bound", || post(at, "a.test", 100) == 200);
    pilot.assert_accepted(&envoy);
}

fn an_auth_service_is_asked() {
    let mut facts = backend("web");
    facts.extend([
        service("auth"),
        endpoints("auth", &[http::failing_backend(403)]),
        host(
            "a.test",
            "plain",
            &(prefix_to("/open", "web") + "\n" + &to("web")),
        ),
    ]);
    let (pilot, envoy, at) = run(facts, XdsProtocol::Delta);
    assert_eq!(
        http::get(at, "a.test", "/", &[]).status,
        200,
        "{}",
        envoy.log()
    );
    // No route leads to the service.
    let auth = format!(
        "{{name: envoy.filters.http.ext_authz, typed_config: {{'@type': \
         type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz, transport_api_version: V3, http_service: \
         {{server_uri: {{uri: 'http://auth', timeout: 5s, cluster: 'outbound|80||{}'}}}}}}}}",
        hostname("auth")
    );
    pilot.change(vec![filter("auth", &http_filter(&auth))]);
    envoy.wait("refused by the service", || {
        http::get(at, "a.test", "/", &[]).status == 403
    });
    pilot.assert_accepted(&envoy);
}

fn every_sort_of_patch_is_accepted(protocol: XdsProtocol) {
    let mut facts = backend("web");
    facts.push(host("a.test", "plain", &to("web")));
    let (pilot, envoy, at) = run(facts, protocol);
    let own = free_port();
    let router = "{'@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}";
    let manager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let patches = [
        format!("{{applyTo: NETWORK_FILTER, patch: {{operation: MERGE, value: {{typed_config: {{'@type': {manager}, server_name: patched}}}}}}}}"),
        "{applyTo: LISTENER, patch: {operation: MERGE, value: {per_connection_buffer_limit_bytes: 32768}}}".to_owned(),
        "{applyTo: LISTENER_FILTER, patch: {operation: INSERT_FIRST, value: {name: envoy.filters.listener.http_inspector, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.listener.http_inspector.v3.HttpInspector}}}}".to_owned(),
        "{applyTo: FILTER_CHAIN, patch: {operation: MERGE, value: {name: chain}}}".to_owned(),
        format!(
            "{{applyTo: LISTENER, patch: {{operation: ADD, value: {{name: own, address: {{socket_address: {{address: 127.0.0.1, port_value: {own}}}}}, \
             filter_chains: [{{filters: [{{name: envoy.filters.network.http_connection_manager, typed_config: {{'@type': {manager}, stat_prefix: own, \
             http_filters: [{{name: envoy.filters.http.router, typed_config: {router}}}], route_config: {{virtual_hosts: [{{name: all, domains: ['*'], \
             routes: [{{match: {{prefix: /}}, route: {{cluster: own}}}}]}}]}}}}}}]}}]}}}}}}"
        ),
        format!(
            "{{applyTo: CLUSTER, patch: {{operation: ADD, value: {{name: own, type: STATIC, connect_timeout: 1s, load_assignment: {{cluster_name: own, \
             endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {}}}}}}}}}]}}]}}}}}}}}",
            http::backend("own").port()
        ),
        "{applyTo: CLUSTER, match: {cluster: {portNumber: 80}}, patch: {operation: MERGE, value: {connect_timeout: 0.5s}}}".to_owned(),
        "{applyTo: ROUTE_CONFIGURATION, match: {routeConfiguration: {gateway: higress-system/plain}}, patch: {operation: MERGE, value: {response_headers_to_add: [{header: {key: x-rc, value: '1'}}]}}}".to_owned(),
        "{applyTo: VIRTUAL_HOST, match: {routeConfiguration: {portName: http}}, patch: {operation: MERGE, value: {response_headers_to_add: [{header: {key: x-vh, value: '1'}}]}}}".to_owned(),
        "{applyTo: HTTP_ROUTE, patch: {operation: INSERT_FIRST, value: {match: {path: /direct}, direct_response: {status: 418}}}}".to_owned(),
        "{applyTo: HTTP_FILTER, patch: {operation: INSERT_FIRST, value: {name: discovered, config_discovery: {config_source: {ads: {}, resource_api_version: V3}, type_urls: ['type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua']}}}}".to_owned(),
        "{applyTo: EXTENSION_CONFIG, patch: {operation: ADD, value: {name: discovered, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua, default_source_code: {inline_string: 'function envoy_on_response(h) h:headers():add(\"x-lua\", \"1\") end'}}}}}".to_owned(),
    ];
    let patches: Vec<String> = patches.iter().map(|patch| format!("- {patch}\n")).collect();
    pilot.change(vec![filter("all", &patches.concat())]);
    envoy.wait("all of them", || {
        http::get(at, "a.test", "/direct", &[]).status == 418
            && http::get(at, "a.test", "/", &[]).header("x-lua").is_some()
    });
    let answer = http::get(at, "a.test", "/", &[]);
    assert_eq!(answer.status, 200);
    for (name, value) in [("x-rc", "1"), ("x-vh", "1"), ("server", "patched")] {
        assert_eq!(answer.header(name), Some(value), "{name}: {}", answer.head);
    }
    envoy.wait_for_port(own);
    let own = SocketAddr::from(([127, 0, 0, 1], own));
    envoy.wait("the listener of its own", || {
        http::get(own, "any", "/", &[])
            .body
            .starts_with("backend: own")
    });
    pilot.assert_accepted(&envoy);
    pilot.change(vec![gone(Kind::EnvoyFilter, "all")]);
    envoy.wait("nothing is left", || {
        http::get(at, "a.test", "/", &[]).header("x-rc").is_none()
            && http::get(own, "any", "/", &[]).status == 0
    });
    pilot.assert_accepted(&envoy);
}

fn gateways_are_told_apart() {
    let mut facts = backend("web");
    facts.push(host("a.test", "plain", &to("web")));
    let (pilot, envoy, at) = run(facts, XdsProtocol::Delta);
    assert_eq!(
        http::get(at, "a.test", "/", &[]).status,
        200,
        "{}",
        envoy.log()
    );
    let patch = |proxy: &str, header: &str| {
        format!(
            "- {{applyTo: VIRTUAL_HOST, match: {{proxy: {{{proxy}}}}}, patch: {{operation: MERGE, value: \
             {{response_headers_to_add: [{{header: {{key: {header}, value: '1'}}}}]}}}}}}\n"
        )
    };
    // What the gateway is asked for now did not matter when it came.
    let patches = patch("proxyVersion: '^[0-9]+\\.'", "x-version")
        + &patch("metadata: {TIER: front}", "x-tier")
        + &patch("proxyVersion: '^none'", "x-none");
    pilot.change(vec![filter("proxies", &patches)]);
    envoy.wait("the one for its version", || {
        http::get(at, "a.test", "/", &[])
            .header("x-version")
            .is_some()
    });
    let answer = http::get(at, "a.test", "/", &[]);
    assert_eq!(
        (answer.header("x-tier"), answer.header("x-none")),
        (None, None)
    );
    pilot.assert_accepted(&envoy);
}

fn a_bad_patch_harms_only_itself() {
    let mut facts = backend("web");
    facts.extend([
        host("a.test", "plain", &to("web")),
        host("b.test", "plain", &to("web")),
    ]);
    let (pilot, envoy, at) = run(facts, XdsProtocol::Delta);
    // Envoy refuses the first one's result; the others cannot be applied at all.
    let bad = route("a.test", at.port(), "{match: {safe_regex: {regex: '('}}}")
        + "- {applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: soon}}}\n\
           - {applyTo: HTTP_FILTER, patch: {operation: ADD, value: {name: x, typed_config: {'@type': type.googleapis.com/no.Such}}}}\n"
        + &route(
            "b.test",
            at.port(),
            "{response_headers_to_add: [{header: {key: x-b, value: '1'}}]}",
        );
    pilot.change(vec![filter("bad", &bad)]);
    envoy.wait("the good patch", || {
        http::get(at, "b.test", "/", &[]).header("x-b").is_some()
    });
    assert_eq!(
        http::get(at, "a.test", "/", &[]).status,
        200,
        "the last good routes stay"
    );
    // What comes later arrives.
    let mut later = backend("web2");
    later.push(host("c.test", "plain", &to("web2")));
    pilot.change(later);
    envoy.wait("another host", || {
        http::get(at, "c.test", "/", &[]).status == 200
    });
    pilot.change(vec![gone(Kind::EnvoyFilter, "bad")]);
    envoy.wait("mended", || {
        http::get(at, "b.test", "/", &[]).header("x-b").is_none()
    });
    envoy.wait("accepted", || pilot.refused().is_empty());
}
