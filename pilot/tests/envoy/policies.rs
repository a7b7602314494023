//! What DestinationRules and fallbacks do to requests.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use pilot::bootstrap::XdsProtocol;
use pilot::model::change::Change;
use pilot::model::service::Resolution;
use shared_proto::Kind;

use crate::fixture::{hostname, to};
use crate::http::{self, Answer};
use crate::pilot_server::{
    Pilot, backend, endpoints, gateway, gone, host, rule, service, service_as,
};
use crate::proxy::{Envoy, free_port};

pub const TESTS: &[(&str, fn())] = &[
    ("requests_are_hashed", requests_are_hashed),
    ("subsets_and_pools", subsets_and_pools),
    ("every_rule_is_accepted", every_rule_is_accepted),
    ("fallbacks_take_over", || {
        fallbacks_take_over(XdsProtocol::Delta);
    }),
    ("fallbacks_take_over_sotw", || {
        fallbacks_take_over(XdsProtocol::Sotw);
    }),
    (
        "a_name_is_reached_at_any_port",
        a_name_is_reached_at_any_port,
    ),
];

const HOST: &str = "p.test";

fn run(facts: Vec<Change>) -> (Pilot, Envoy, SocketAddr) {
    run_as(facts, XdsProtocol::Delta)
}

fn run_as(mut facts: Vec<Change>, protocol: XdsProtocol) -> (Pilot, Envoy, SocketAddr) {
    let port = free_port();
    facts.push(gateway(port));
    let pilot = Pilot::start(facts);
    let envoy = Envoy::start(pilot.address, protocol);
    envoy.wait_for_port(port);
    (pilot, envoy, SocketAddr::from(([127, 0, 0, 1], port)))
}

fn served_by(answer: &Answer) -> String {
    let line = answer.body.lines().next().unwrap_or_default();
    line.trim_start_matches("backend: ").to_owned()
}

/// Backends that answered some requests.
fn spread(at: SocketAddr, headers: &[(&str, &str)]) -> BTreeSet<String> {
    (0..24)
        .map(|_| served_by(&http::get(at, HOST, "/?q=1", headers)))
        .collect()
}

fn four() -> Vec<SocketAddr> {
    ["w1", "w2", "w3", "w4"].map(http::backend).to_vec()
}

fn requests_are_hashed() {
    let facts = vec![
        service("web"),
        endpoints("web", &four()),
        host(HOST, "plain", &to("web")),
    ];
    let (pilot, envoy, at) = run(facts);
    assert!(spread(at, &[]).len() > 2, "{}", envoy.log());

    let hashed = |key: &str| {
        pilot.change(vec![rule(
            "web",
            &format!("trafficPolicy: {{loadBalancer: {{consistentHash: {{{key}}}}}}}"),
        )]);
    };
    hashed("httpHeaderName: user");
    envoy.wait("hash by header", || {
        spread(at, &[("user", "u1")]).len() == 1
    });
    let users: BTreeSet<String> = (0..20)
        .flat_map(|n| spread(at, &[("user", &format!("u{n}"))]))
        .collect();
    assert!(users.len() > 2, "{users:?}");

    hashed("httpQueryParameterName: q");
    envoy.wait("hash by parameter", || spread(at, &[]).len() == 1);
    hashed("useSourceIp: true, maglev: {}");
    envoy.wait("hash by address", || {
        spread(at, &[("user", "x")]).len() == 1
    });

    hashed("httpCookie: {name: SESSION, path: /, ttl: 0s}");
    let cookie = || {
        let answer = http::get(at, HOST, "/", &[]);
        answer.header("set-cookie").map(str::to_owned)
    };
    envoy.wait("a cookie", || cookie().is_some());
    let cookie = cookie().unwrap();
    assert!(
        cookie.starts_with("SESSION=") && !cookie.contains("Max-Age"),
        "{cookie}"
    );
    let pair = cookie.split(';').next().unwrap().replace('"', "");
    assert_eq!(spread(at, &[("cookie", &pair)]).len(), 1);

    pilot.change(vec![gone(Kind::DestinationRule, "web")]);
    envoy.wait("no hash", || spread(at, &[("cookie", &pair)]).len() > 2);
    pilot.assert_accepted(&envoy);
}

fn subsets_and_pools() {
    let route = |path: &str, subset: &str| {
        format!(
            "- {{match: [{{uri: {{prefix: {path}}}}}], retries: {{attempts: 0}}, route: [{{destination: \
             {{host: {}, port: {{number: 80}}, subset: {subset}}}}}]}}\n",
            hostname("web")
        )
    };
    let routes = route("/all", "all") + &route("/some", "some") + &route("/none", "none");
    let routes = routes + &to("web");
    let mut facts = backend("web");
    facts.extend([
        host(HOST, "plain", &routes),
        rule(
            "web",
            "subsets: [{name: all}, {name: some, labels: {v: '1'}}]",
        ),
    ]);
    let (pilot, envoy, at) = run(facts);
    for (path, status) in [("/all", 200), ("/some", 503), ("/none", 503), ("/", 200)] {
        let answer = http::get(at, HOST, path, &[]);
        assert_eq!(answer.status, status, "{path}: {answer:?} {}", envoy.log());
    }
    // The backend speaks HTTP/1.1 only.
    let upgrade = "trafficPolicy: {connectionPool: {http: {h2UpgradePolicy: UPGRADE}}}";
    pilot.change(vec![rule("web", upgrade)]);
    envoy.wait("HTTP/2 to the backend", || {
        http::get(at, HOST, "/", &[]).status != 200
    });
    let other_port = "trafficPolicy: {portLevelSettings: [{port: {number: 81}, \
         connectionPool: {http: {h2UpgradePolicy: UPGRADE}}}]}";
    pilot.change(vec![rule("web", other_port)]);
    envoy.wait("HTTP/1.1 again", || {
        http::get(at, HOST, "/", &[]).status == 200
    });
    pilot.assert_accepted(&envoy);
}

/// Valid and invalid settings: none makes Envoy refuse a cluster or a route.
const RULES: &[&str] = &[
    "loadBalancer: {simple: RANDOM}",
    "loadBalancer: {simple: PASSTHROUGH}",
    "loadBalancer: {simple: ROUND_ROBIN, warmup: {duration: 30s, aggression: 1.5, minimumPercent: 10}}",
    "loadBalancer: {simple: LEAST_REQUEST, warmupDurationSecs: 0s, localityLbSetting: {failover: [{from: a, to: b}]}}",
    "loadBalancer: {consistentHash: {useSourceIp: true, minimumRingSize: '99999999999'}}",
    "loadBalancer: {consistentHash: {useSourceIp: true, maglev: {tableSize: '1000'}}}",
    "loadBalancer: {consistentHash: {useSourceIp: true, maglev: {tableSize: '65537'}}}",
    "loadBalancer: {consistentHash: {httpHeaderName: ''}}",
    "loadBalancer: {consistentHash: {httpHeaderName: 'a b'}}",
    "loadBalancer: {consistentHash: {httpHeaderName: ':path'}}",
    "loadBalancer: {consistentHash: {httpQueryParameterName: ''}}",
    "loadBalancer: {consistentHash: {httpCookie: {name: '', ttl: 5s}}}",
    "loadBalancer: {consistentHash: {httpCookie: {name: \"a\\nb\", ttl: -5s}}}",
    "loadBalancer: {consistentHash: {httpCookie: {name: a, path: /x, ttl: 5.5s, attributes: [{name: SameSite, value: Lax}]}}}",
    "connectionPool: {tcp: {maxConnections: -1, connectTimeout: 0s, maxConnectionDuration: 1s, tcpKeepalive: {probes: 3, time: 10s, interval: 0.5s}}}",
    "connectionPool: {http: {http1MaxPendingRequests: 1, http2MaxRequests: 2, maxRequestsPerConnection: 3, maxRetries: 4, idleTimeout: 5s}}",
    "connectionPool: {http: {useClientProtocol: true, maxConcurrentStreams: 10, http2KeepAlive: {interval: 1s, timeout: 1s}}}",
    "connectionPool: {http: {h2UpgradePolicy: UPGRADE, maxConcurrentStreams: -1, idleTimeout: -1s, http2KeepAlive: {interval: 0.0001s}}}",
    "outlierDetection: {consecutive5xxErrors: 5, consecutiveGatewayErrors: 0, interval: 5s, baseEjectionTime: 0s, maxEjectionPercent: 101, minHealthPercent: 50}",
    "outlierDetection: {splitExternalLocalOriginErrors: true, consecutiveLocalOriginFailures: 3, maxEjectionPercent: 100, minHealthPercent: -1}",
    "tls: {mode: SIMPLE}",
    "tls: {mode: SIMPLE, sni: a.test, subjectAltNames: [a.test]}",
    "tls: {mode: ISTIO_MUTUAL}",
    "tls: {mode: MUTUAL}",
    "tls: {mode: MUTUAL, clientCertificate: /a, privateKey: /b, caCertificates: /c}",
    "tls: {mode: MUTUAL, credentialName: 'kubernetes-ingress://Kubernetes/test/none'}",
    "tunnel: {targetHost: a}, proxyProtocol: {version: V2}, tls: {mode: DISABLE}",
];

fn every_rule_is_accepted() {
    let mut facts = Vec::new();
    let mut routes = String::new();
    for (n, policy) in RULES.iter().enumerate() {
        let name = format!("s{n}");
        facts.push(service(&name));
        facts.push(rule(&name, &format!("trafficPolicy: {{{policy}}}")));
        routes += &format!(
            "- {{match: [{{uri: {{prefix: /{n}/}}}}], route: [{{destination: {{host: {}}}}}]}}\n",
            hostname(&name)
        );
    }
    facts.extend(backend("web"));
    facts.push(host(HOST, "plain", &(routes + &to("web"))));
    let (pilot, envoy, at) = run(facts);
    for (n, rule) in RULES.iter().enumerate() {
        let answer = http::get(at, HOST, &format!("/{n}/"), &[]);
        assert_eq!(answer.status, 503, "{rule}: {}", envoy.log());
    }
    assert_eq!(http::get(at, HOST, "/", &[]).status, 200);
    pilot.assert_accepted(&envoy);
}

fn fallbacks_take_over(protocol: XdsProtocol) {
    let routes = |fallback: &str| {
        let main = format!("{{host: {}, port: {{number: 80}}}}", hostname("main"));
        let spare = format!("{{host: {}, port: {{number: 80}}}}", hostname("spare"));
        let fallbacks = if fallback.is_empty() {
            String::new()
        } else {
            spare
        };
        format!("- route: [{{destination: {main}, fallbackClusters: [{fallbacks}]}}]")
    };
    let mut facts = backend("spare");
    facts.extend([
        service("main"),
        host("with.test", "plain", &routes("spare")),
        host("without.test", "plain", &routes("")),
    ]);
    let (pilot, envoy, at) = run_as(facts, protocol);
    let got = |host: &str| {
        let answer = http::get(at, host, "/", &[]);
        (answer.status, served_by(&answer))
    };
    let served = |host: &str, by: &str| got(host) == (200, by.to_owned());
    assert_eq!(
        got("with.test"),
        (200, "spare".to_owned()),
        "{}",
        envoy.log()
    );
    assert_eq!(got("without.test").0, 503);

    pilot.change(vec![endpoints("main", &[http::backend("main")])]);
    envoy.wait("the first one", || served("with.test", "main"));
    envoy.wait("the first one", || served("without.test", "main"));

    pilot.change(vec![Change::Service(hostname("main").into(), None)]);
    envoy.wait("the other one", || served("with.test", "spare"));
    envoy.wait("nobody", || got("without.test").0 == 503);
    pilot.change(vec![service("main")]);
    envoy.wait("the first one again", || served("with.test", "main"));

    let clusters = || envoy.stat("cluster_manager.active_clusters");
    let before = clusters();
    pilot.change(vec![host("with.test", "plain", &routes(""))]);
    // Nobody needs the spare one any more either.
    envoy.wait("no fallback cluster", || clusters() == before - 2);
    assert_eq!(got("with.test"), (200, "main".to_owned()));
    pilot.assert_accepted(&envoy);
}

fn a_name_is_reached_at_any_port() {
    let at_port = |port: u16| {
        format!(
            "- route: [{{destination: {{host: {}, port: {{number: {port}}}}}}}]",
            hostname("far")
        )
    };
    let (first, second) = (http::backend("first"), http::backend("second"));
    let address = "localhost".into();
    let facts = vec![
        service_as("far", Resolution::Dns { address }, &[]),
        host(HOST, "plain", &at_port(first.port())),
    ];
    let (pilot, envoy, at) = run(facts);
    envoy.wait("the name", || {
        served_by(&http::get(at, HOST, "/", &[])) == "first"
    });
    pilot.change(vec![host(HOST, "plain", &at_port(second.port()))]);
    envoy.wait("the other port", || {
        served_by(&http::get(at, HOST, "/", &[])) == "second"
    });
    pilot.assert_accepted(&envoy);
}
