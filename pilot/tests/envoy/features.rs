//! What routes do in Envoy, and that no input makes Envoy refuse a resource.

use std::net::SocketAddr;

use pilot::bootstrap::XdsProtocol;
use pilot::model::service::Resolution;
use pilot::translate::lds::Routing;
use pilot::translate::{names, rds};
use xds_engine::types;

use crate::fixture::{
    hostname, put_backend, put_host, put_http_listener, put_scope_filter, put_service, service, to,
    virtual_service, with_host,
};
use crate::http;
use crate::proxy::{Envoy, free_port};
use crate::world::{ControlPlane, World};

pub const TESTS: &[(&str, fn())] = &[
    ("features", features),
    ("no_input_is_refused", no_input_is_refused),
    ("plain_routes", plain_routes),
    ("start_waits_for_no_name", start_waits_for_no_name),
];

const SCOPED: Routing = Routing::Scoped { on_demand: false };

fn destination(name: &str) -> String {
    format!("{{host: {}, port: {{number: 80}}}}", hostname(name))
}

/// One host with many routes, in this order.
fn feature_routes() -> String {
    let web = destination("web");
    let copy = destination("copy");
    format!(
        r#"
- {{match: [{{uri: {{exact: /exact}}}}], route: [{{destination: {web}}}], rewrite: {{uri: /new}}}}
- {{match: [{{uri: {{prefix: /strip/}}}}], route: [{{destination: {web}}}], rewrite: {{uri: /}}}}
- {{match: [{{uri: {{regex: "/r/([0-9]+)/.*"}}}}], route: [{{destination: {web}}}],
   rewrite: {{uriRegexRewrite: {{match: "^/r/([0-9]+)/(.*)$", rewrite: '/\2/\1'}}, authority: inner.host}}}}
- {{match: [{{uri: {{prefix: /CASE}}, ignoreUriCase: true}}], route: [{{destination: {web}}}], rewrite: {{uri: /cased}}}}
- {{match: [{{uri: {{prefix: /m}}, method: {{regex: "PUT|POST"}}, headers: {{x-a: {{exact: "1"}}}},
   withoutHeaders: {{x-b: {{}}}}, queryParams: {{q: {{regex: "[a-z]+"}}}}}}], directResponse: {{status: 207, body: {{string: matched}}}}}}
- {{match: [{{uri: {{prefix: /redirect}}}}], redirect: {{scheme: https, authority: other.host, uri: /there, redirectCode: 308}}}}
- {{match: [{{uri: {{prefix: /headers}}}}], headers: {{request: {{set: {{x-set: "100%"}}, add: {{x-add: "%PROTOCOL%"}}, remove: [x-gone]}},
   response: {{set: {{x-answer: given}}}}}}, route: [{{destination: {web}, headers: {{request: {{set: {{x-inner: deep}}}}}}}}]}}
- {{match: [{{uri: {{prefix: /weights}}}}], route: [{{destination: {copy}, weight: 0}}, {{destination: {web}, weight: 1}}]}}
- {{match: [{{uri: {{prefix: /split}}}}], route: [{{destination: {copy}, weight: 50}}, {{destination: {web}, weight: 50}}]}}
- {{match: [{{uri: {{prefix: /abort}}}}], fault: {{abort: {{httpStatus: 418, percentage: {{value: 100}}}}}}, route: [{{destination: {web}}}]}}
- {{match: [{{uri: {{prefix: /cors}}}}], corsPolicy: {{allowOrigins: [{{exact: "https://ok.example"}}], allowMethods: [GET, PUT], maxAge: 60s}},
   route: [{{destination: {web}}}]}}
- {{match: [{{uri: {{prefix: /allowed}}}}], routeHTTPFilters: [{{name: ip-access-control, ip_access_control: {{remoteIpBlocks: [127.0.0.0/8]}}}}],
   route: [{{destination: {web}}}]}}
- {{match: [{{uri: {{prefix: /denied}}}}], routeHTTPFilters: [{{name: ip-access-control, ip_access_control: {{remoteIpBlocks: [10.0.0.0/8, nonsense]}}}}],
   corsPolicy: {{allowOrigins: [{{regex: ".*"}}]}}, route: [{{destination: {web}}}]}}
- {{match: [{{uri: {{prefix: /closed}}}}], routeHTTPFilters: [{{name: ip-access-control, ip_access_control: {{remoteIpBlocks: [nonsense]}}}}],
   route: [{{destination: {web}}}]}}
- {{match: [{{uri: {{prefix: /limited}}}}], routeHTTPFilters: [{{name: limit, local_rate_limit: {{tokenBucket: {{maxTokens: 1, tokensPefFill: 1, fillInterval: 3600s}}}}}}],
   route: [{{destination: {web}}}]}}
- {{match: [{{uri: {{prefix: /slow}}}}], timeout: 5s, fault: {{delay: {{fixedDelay: 0.1s, percentage: {{value: 100}}}}}}, retries: {{attempts: 0}}, route: [{{destination: {web}}}]}}
- {{match: [{{uri: {{prefix: /nothing}}}}], route: [{{destination: {{host: none.svc, port: {{number: 1}}}}}}]}}
- {{match: [{{uri: {{prefix: /retry}}}}], retries: {{attempts: 3, retryOn: "5xx,503,non_idempotent", perTryTimeout: 2s, backoff: 0.01s, retryRemoteLocalities: true}},
   mirror: {copy}, mirrorPercentage: {{value: 100}}, route: [{{destination: {web}}}]}}
"#
    )
}

fn features() {
    let port = free_port();
    let mut world = World::default();
    put_backend(&mut world, "web", http::backend("web"));
    put_backend(&mut world, "copy", http::backend("copy"));
    let issues = put_host(&mut world, (port, false), "f.test", &feature_routes());
    let reasons: Vec<&str> = issues.iter().map(|issue| issue.reason.as_str()).collect();
    assert_eq!(reasons, ["invalid_address"; 3], "{issues:?}");
    put_scope_filter(&mut world, port, &[]);
    put_http_listener(&mut world, port, SCOPED);
    let control_plane = ControlPlane::start(world);
    let envoy = Envoy::start(control_plane.address, XdsProtocol::Delta);
    envoy.wait_for_port(port);
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!(control_plane.refused(), Vec::<String>::new());

    let statuses = [
        ("/exact", 200),
        ("/abort", 418),
        ("/allowed", 200),
        ("/denied", 403),
        ("/closed", 403),
        ("/limited", 200),
        ("/limited", 429),
        ("/slow", 200),
        ("/nothing", 503),
        ("/retry", 200),
        ("/split", 200),
        ("/unmatched", 404),
    ];
    for (path, status) in statuses {
        let answer = http::get(at, "f.test", path, &[]);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
    }

    let seen = [
        ("/exact?a=b", "GET /new?a=b HTTP"),
        ("/strip/x/y", "GET /x/y HTTP"),
        ("/r/7/a/b", "GET /a/b/7 HTTP"),
        ("/r/7/a/b", "host: inner.host"),
        ("/case/x", "GET /cased/x HTTP"),
        ("/headers", "x-set: 100%\r"),
        ("/headers", "x-add: HTTP/1.1"),
        ("/headers", "x-inner: deep"),
        ("/weights", "backend: web"),
        ("/exact", "x-envoy-attempt-count: 1"),
    ];
    for (path, text) in seen {
        let answer = http::get(at, "f.test", path, &[("x-gone", "1")]);
        assert!(answer.body.contains(text), "{path}: {}", answer.body);
    }
    let headers = http::get(at, "f.test", "/headers", &[("x-gone", "1")]);
    assert!(!headers.body.contains("x-gone"));
    assert_eq!(headers.header("x-answer"), Some("given"));

    let given = [("x-a", "1")];
    let matched = http::request(at, "PUT", "f.test", "/m?q=abc", &given);
    assert_eq!((matched.status, matched.body.as_str()), (207, "matched"));
    let with_b = [("x-a", "1"), ("x-b", "")];
    for (method, path, headers) in [
        ("GET", "/m?q=abc", &given[..]),
        ("PUT", "/m?q=ABC", &given[..]),
        ("PUT", "/m?q=abc", &[]),
        ("PUT", "/m?q=abc", &with_b[..]),
    ] {
        assert_eq!(
            http::request(at, method, "f.test", path, headers).status,
            404
        );
    }

    let redirect = http::get(at, "f.test", "/redirect?a=b", &[]);
    assert_eq!(redirect.status, 308);
    assert_eq!(
        redirect.header("location"),
        Some("https://other.host/there?a=b")
    );

    let preflight = [
        ("origin", "https://ok.example"),
        ("access-control-request-method", "PUT"),
    ];
    let cors = http::request(at, "OPTIONS", "f.test", "/cors", &preflight);
    assert_eq!(cors.status, 200);
    assert_eq!(cors.header("access-control-allow-methods"), Some("GET,PUT"));
    assert_eq!(
        cors.header("access-control-allow-origin"),
        Some("https://ok.example")
    );
}

/// Values that somebody could write, put into every place that takes text.
const WEIRD: &[&str] = &[
    "",
    " ",
    "*",
    "/",
    "a",
    "%",
    "%REQ(",
    "%REQ()%",
    "%REQ(a b)%",
    "%START_TIME(%Q)%",
    "%%%",
    "\\",
    "\\1",
    "(",
    "a{1,2000}",
    "(?=x)",
    "[[:nope:]]",
    "\u{0}",
    "\n",
    "a\r\nb: c",
    "é",
    "\u{7f}",
    "x:y",
    ":path",
    ":authority",
    "host",
    "Host",
    "x-isthmus-scope",
    "?",
    "/a?b#c",
    "/%zz",
    "//",
    "http://x",
    "https",
    "-1",
    "999999999999",
    "*.a",
    "a.*",
    "[::1]",
    "true",
    "非ascii",
    "{a}",
    "x{",
    "(?P<n>x)",
    "^$",
    ".*",
    "a|",
    "|",
    "()",
    "\\Qa\\E",
    "\\pN",
    "\\C",
    "(?i)a(?-i)b",
];

fn weird_route(text: &str) -> String {
    let text = serde_json::to_string(text)
        .unwrap()
        .replace('\u{7f}', "\\u007f");
    let web = destination("web");
    format!(
        r#"
- {{name: {text}, match: [{{uri: {{exact: {text}}}}}, {{uri: {{prefix: {text}}}, name: {text}}}, {{uri: {{regex: {text}}}, statPrefix: {text}}},
   {{method: {{exact: {text}}}}}, {{method: {{regex: {text}}}}}, {{authority: {{prefix: {text}}}}}, {{scheme: {{exact: {text}}}}},
   {{headers: {{{text}: {{exact: {text}}}}}}}, {{headers: {{x-a: {{regex: {text}}}}}}}, {{headers: {{x-a: {{prefix: {text}}}}}}},
   {{withoutHeaders: {{{text}: {{regex: {text}}}}}}}, {{queryParams: {{{text}: {{exact: {text}}}}}}}, {{queryParams: {{q: {{regex: {text}}}}}}}],
   route: [{{destination: {web}}}], rewrite: {{uri: {text}, authority: {text}}}}}
- {{match: [{{uri: {{prefix: /a}}}}], redirect: {{uri: {text}, authority: {text}, scheme: {text}, redirectCode: 302}}}}
- {{match: [{{uri: {{prefix: /b}}}}], directResponse: {{status: 200, body: {{string: {text}}}}}}}
- {{match: [{{uri: {{prefix: /c}}}}], rewrite: {{uriRegexRewrite: {{match: {text}, rewrite: {text}}}}}, route: [{{destination: {web}}}],
   headers: {{request: {{set: {{{text}: {text}}}, add: {{x-a: {text}}}, remove: [{text}]}}, response: {{set: {{{text}: x, x-b: {text}}}, remove: [{text}]}}}}}}
- {{match: [{{uri: {{prefix: /d}}}}], rewrite: {{uriRegexRewrite: {{match: "/d(.*)", rewrite: {text}}}}}, mirror: {{host: {text}}},
   route: [{{destination: {{host: {text}, subset: {text}}}, weight: 1, headers: {{request: {{set: {{host: {text}}}}}}}}}, {{destination: {web}, weight: 1}}]}}
- {{match: [{{uri: {{prefix: /e}}}}], corsPolicy: {{allowOrigin: [{text}], allowOrigins: [{{exact: {text}}}, {{prefix: {text}}}, {{regex: {text}}}],
   allowMethods: [{text}], allowHeaders: [{text}], exposeHeaders: [{text}]}}, retries: {{attempts: 1, retryOn: {text}}}, route: [{{destination: {web}}}]}}
- {{match: [{{uri: {{prefix: /f}}}}], fault: {{abort: {{grpcStatus: {text}}}}}, route: [{{destination: {web}}}],
   routeHTTPFilters: [{{name: {text}, ip_access_control: {{remoteIpBlocks: [{text}], notRemoteIpBlocks: [{text}, 1.2.3.4/33]}}}}]}}
"#
    )
}

/// Numbers at and over the edges.
const EDGES: &str = r#"
- {match: [{uri: {prefix: /a}}], redirect: {redirectCode: 304}}
- {match: [{uri: {prefix: /b}}], redirect: {port: 70000}}
- {match: [{uri: {prefix: /c}}], directResponse: {status: 0}}
- {match: [{uri: {prefix: /d}}], directResponse: {status: 999}}
- {match: [{uri: {prefix: /e}}]}
- {match: [{uri: {prefix: /f}}], delegate: {name: x}}
- {match: [{uri: {prefix: /g}}], route: [{destination: {host: a}, weight: 0}, {destination: {host: b}, weight: 0}]}
- {match: [{uri: {prefix: /h}}], route: [{destination: {host: a}, weight: -5}, {destination: {host: b}, weight: 2147483647}]}
- {match: [{uri: {prefix: /i}}], route: [{destination: {host: a}, weight: 2147483647}, {destination: {host: b}, weight: 2147483647}, {destination: {host: c}, weight: 2147483647}]}
- {match: [{uri: {prefix: /j}}], route: [{weight: 1}]}
- {match: [{uri: {prefix: /k}}], timeout: -5s, retries: {attempts: -3}, route: [{destination: {host: a, port: {number: 99999}}}]}
- {match: [{uri: {prefix: /l}}], timeout: 315576000000s, retries: {attempts: 2147483647, perTryTimeout: -1s, backoff: 0s}, route: [{destination: {host: a}}]}
- {match: [{uri: {prefix: /m}}], fault: {delay: {fixedDelay: 0s}, abort: {httpStatus: 20}}, route: [{destination: {host: a}}]}
- {match: [{uri: {prefix: /n}}], fault: {delay: {fixedDelay: 1s, percentage: {value: 1000}}, abort: {httpStatus: 500, percentage: {value: -1}}}, route: [{destination: {host: a}}]}
- {match: [{uri: {prefix: /o}}], mirror: {host: m}, mirrorPercentage: {value: 1e300}, route: [{destination: {host: a}}]}
- {match: [{uri: {prefix: /p}}], mirror: {host: m}, mirrorPercentage: {value: -1}, route: [{destination: {host: a}}]}
- {match: [{uri: {prefix: /q}}], routeHTTPFilters: [{name: l, local_rate_limit: {tokenBucket: {maxTokens: 0, tokensPefFill: 1, fillInterval: 1s}}}], route: [{destination: {host: a}}]}
- {match: [{uri: {prefix: /r}}], routeHTTPFilters: [{name: l, local_rate_limit: {statusCode: 200, tokenBucket: {maxTokens: 1, tokensPefFill: 1, fillInterval: 0.001s}}}], route: [{destination: {host: a}}]}
- {match: [{uri: {prefix: /s}}], corsPolicy: {maxAge: -5s}, route: [{destination: {host: a}}]}
- {match: [{uri: {prefix: /t}}], retries: {attempts: 1, perTryTimeout: 0s, backoff: 0.0000001s}, route: [{destination: {host: a}}]}
"#;

fn no_input_is_refused() {
    let port = free_port();
    let mut world = World::default();
    put_backend(&mut world, "web", http::backend("web"));
    for (index, text) in WEIRD.iter().enumerate() {
        let host = format!("w{index}.test");
        put_host(&mut world, (port, false), &host, &weird_route(text));
        put_service(
            &mut world,
            &pilot::model::service::Service {
                hostname: format!("dns{index}").into(),
                ..service(
                    "dns",
                    Resolution::Dns {
                        address: (*text).into(),
                    },
                )
            },
            None,
        );
    }
    put_host(&mut world, (port, false), "edges.test", EDGES);
    put_host(&mut world, (port, false), "ok.test", &to("web"));
    put_scope_filter(&mut world, port, &["*", "*\"]"]);
    put_http_listener(&mut world, port, SCOPED);
    let control_plane = ControlPlane::start(world);
    let envoy = Envoy::start(control_plane.address, XdsProtocol::Delta);
    envoy.wait_for_port(port);
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    envoy.wait("a host", || {
        http::get(at, "ok.test", "/", &[]).status == 200
    });
    for (index, text) in WEIRD.iter().enumerate() {
        let host = format!("w{index}.test");
        assert_eq!(http::get(at, &host, "/b", &[]).status, 200, "{text:?}");
    }
    for path in ["/a", "/b", "/c", "/d", "/e", "/f", "/g", "/j"] {
        assert_eq!(http::get(at, "edges.test", path, &[]).status, 500, "{path}");
    }
    for path in ["/h", "/k", "/n", "/t"] {
        assert_eq!(http::get(at, "edges.test", path, &[]).status, 503, "{path}");
    }
    assert_eq!(control_plane.refused(), Vec::<String>::new());
}

/// Scoped routes off: one route configuration with all hosts.
fn plain_routes() {
    let port = free_port();
    let mut world = World::default();
    for name in ["one", "two", "any"] {
        put_backend(
            &mut world,
            name,
            http::backend(match name {
                "one" => "one",
                "two" => "two",
                _ => "any",
            }),
        );
    }
    let specs = ["one", "two", "any"].map(|name| virtual_service(&to(name)));
    let name = names::http_route_name(port, None);
    let resource = with_host(port, "one.test", &specs[0], |one| {
        with_host(port, "*.test", &specs[1], |two| {
            with_host(port, "*", &specs[2], |any| {
                with_host(port, "ONE.test", &specs[2], |again| {
                    let hosts = [*any, *one, *two, *again];
                    rds::plain_route_configuration(&name, port, &hosts)
                })
            })
        })
    });
    assert_eq!(resource.issues.len(), 1);
    world.put(types::ROUTE, &name, &resource.resource);
    put_http_listener(&mut world, port, Routing::Plain);
    let control_plane = ControlPlane::start(world);
    let envoy = Envoy::start(control_plane.address, XdsProtocol::Delta);
    envoy.wait_for_port(port);
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    for (host, backend) in [("One.test:80", "one"), ("x.test", "two"), ("x.org", "any")] {
        let body = http::get(at, host, "/", &[]).body;
        assert!(
            body.starts_with(&format!("backend: {backend}")),
            "{host}: {body}"
        );
    }
    assert_eq!(control_plane.refused(), Vec::<String>::new());
}

/// A name that does not resolve, and a service without endpoints, answer 503 and delay nothing.
fn start_waits_for_no_name() {
    let port = free_port();
    let mut world = World::default();
    put_backend(&mut world, "web", http::backend("web"));
    let address = "nowhere.invalid".into();
    put_service(
        &mut world,
        &service("far", Resolution::Dns { address }),
        None,
    );
    put_service(&mut world, &service("empty", Resolution::Eds), None);
    for name in ["web", "far", "empty"] {
        put_host(
            &mut world,
            (port, false),
            &format!("{name}.test"),
            &to(name),
        );
    }
    put_scope_filter(&mut world, port, &[]);
    put_http_listener(&mut world, port, SCOPED);
    let control_plane = ControlPlane::start(world);
    let start = std::time::Instant::now();
    let envoy = Envoy::start(control_plane.address, XdsProtocol::Delta);
    envoy.wait_for_port(port);
    let took = start.elapsed();
    assert!(took.as_secs() < 5, "waited {took:?}");
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    for (host, status) in [("web.test", 200), ("far.test", 503), ("empty.test", 503)] {
        assert_eq!(http::get(at, host, "/", &[]).status, status, "{host}");
    }
    assert!(!envoy.log().contains("Deprecated"), "{}", envoy.log());
    assert_eq!(control_plane.refused(), Vec::<String>::new());
}
