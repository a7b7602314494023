//! Error responses that another route answers.

use std::net::SocketAddr;

use pilot::bootstrap::XdsProtocol;

use crate::fixture::hostname;
use crate::http;
use crate::pilot_server::{Pilot, backend, endpoints, gateway, host, service};
use crate::proxy::{Envoy, free_port};

pub const TESTS: &[(&str, fn())] = &[("errors_are_replaced", errors_are_replaced)];

/// As the controller writes `custom-http-errors`.
fn routes(rewrite: &str) -> String {
    let failing = |name: &str| format!("{{host: {}, port: {{number: 80}}}}", hostname(name));
    let redirect = "{maxInternalRedirects: 1, redirectResponseCodes: [404, 503, 200], allowCrossScheme: true, \
         forcedUseOriginalHost: true, forcedAddHeaderBeforeRouteMatcher: true, redirectUrl: 'http://example.com/', \
         headers: {request: {add: {x-envoy-route-name: main-fallback, x-envoy-fallback-service: test/spare}}}}";
    let route = |path: &str, name: &str| {
        format!(
            "- {{name: main, match: [{{uri: {{prefix: {path}}}}}], retries: {{attempts: 0}}, route: [{{destination: {}}}], \
             internalActiveRedirect: {redirect}{rewrite}}}\n",
            failing(name)
        )
    };
    let fallback = format!(
        "- {{name: main-fallback, match: [{{uri: {{exact: /}}, headers: {{x-envoy-route-name: {{exact: main-fallback}}, \
         x-envoy-fallback-service: {{exact: test/spare}}}}}}], route: [{{destination: {}}}]}}\n",
        failing("spare")
    );
    fallback
        + &route("/404", "missing")
        + &route("/503", "none")
        + &route("/500", "broken")
        + &route("/", "web")
}

fn errors_are_replaced() {
    let port = free_port();
    let mut facts = backend("spare");
    facts.extend(backend("web"));
    for (name, status) in [("missing", 404), ("broken", 500)] {
        facts.push(service(name));
        facts.push(endpoints(name, &[http::failing_backend(status)]));
    }
    facts.extend([
        service("none"),
        gateway(port),
        host("exact.test", "plain", &routes("")),
        host("*.wild.test", "plain", &routes("")),
        host("*", "plain", &routes("")),
        host(
            "rewritten.test",
            "plain",
            &routes(", rewrite: {authority: inner.test, uri: /rewritten}"),
        ),
        host(
            "*.rewritten.test",
            "plain",
            &routes(", rewrite: {authority: inner.test}"),
        ),
    ]);
    let pilot = Pilot::start(facts);
    let envoy = Envoy::start(pilot.address, XdsProtocol::Delta);
    envoy.wait_for_port(port);
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    let hosts = [
        "exact.test",
        "EXACT.test:8080",
        "a.wild.test",
        "else.org",
        "rewritten.test",
        "a.rewritten.test",
    ];
    for host in hosts {
        for (path, status, by) in [
            ("/404/x?a=b", 200, "backend: spare"),
            ("/503", 200, "backend: spare"),
            ("/500", 500, "backend: failing"),
            ("/", 200, "backend: web"),
        ] {
            let answer = http::get(at, host, path, &[]);
            let told = format!("{host}{path}: {answer:?} {}", envoy.log());
            assert_eq!(answer.status, status, "{told}");
            assert!(answer.body.starts_with(by), "{told}");
            assert!(!answer.body.contains("x-isthmus-scope"), "{told}");
        }
        let answer = http::request(at, "POST", host, "/404", &[("content-length", "0")]);
        assert!(answer.body.contains("GET / HTTP"), "{answer:?}");
    }
    // The backend answers before the request is complete, so that it cannot go on its way again.
    let answer = http::request(at, "POST", "exact.test", "/404", &[("content-length", "5")]);
    assert_eq!(answer.status, 404, "{answer:?}");
    let answer = http::get(at, "exact.test", "/404", &[]);
    assert!(answer.body.contains("host: exact.test"), "{answer:?}");
    pilot.assert_accepted(&envoy);
}
