//! Ingresses as users might write them, right and wrong: Kubernetes objects as JSON, which the controller reads like any manifest.

use controller::translate::ingress::annotations::table::{HIGRESS, KEYS, Key, NGINX};
use controller::translate::ingress::annotations::unsupported::UNSUPPORTED;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// Services that exist in each of [`NAMESPACES`], all with a port `web`.
pub(crate) const SERVICES: [&str; 2] = ["s", "t"];
/// Namespaces of Ingresses.
pub(crate) const NAMESPACES: [&str; 2] = ["n", "m"];
/// Secrets that exist in each of [`NAMESPACES`].
pub(crate) const SECRETS: [&str; 2] = ["cert", "cert-cacert"];

/// Hosts of most rules: few, so that Ingresses meet.
const USUAL_HOSTS: &[&str] = &[
    "a.test", "b.test", "c.d.test", "x.a.test", "*.a.test", "e.test", "f.test",
];

const USUAL_PATHS: &[&str] = &[
    "/",
    "/a",
    "/a/b",
    "/b/",
    "/v1.0",
    "/a(/|$)(.*)",
    "/c/[0-9]+",
    "/d",
];

const HOSTS: &[&str] = &[
    "a.test",
    "b.test",
    "A.test",
    "*.test",
    "*.a.test",
    "c.d.test",
    "x.a.test",
    "",
    "*",
    "*.*.test",
    "a_b.test",
    "a:80",
    "10.0.0.1",
    "xn--bcher-kva.test",
    "b\u{fc}cher.test",
    "e.test",
    "f.test",
    "g.test",
    "h.test",
    "www.a.test",
];

const PATHS: &[&str] = &[
    "",
    "/",
    "/a",
    "/a/",
    "/a/b",
    "/a/b/",
    "/b",
    "b",
    "//",
    "/a//b",
    "/a/*",
    "/a.*",
    "/(a)/b.?",
    "/[a",
    "/v1.0",
    "/a(/|$)(.*)",
    "/a?x=1",
    "/a#b",
    "/%zz",
    "/%41",
    "/\u{e9}",
    "/a b",
    "/.*",
    "/a|b",
    "/(((((a+)+)+)+)+",
    "/a{1000}{1000}",
    "/\\d+",
    "/A",
];

/// Values that fit some key, by the part of its name that they fit.
const FITTING: &[(&str, &[&str])] = &[
    ("rewrite-target", &["/", "/x", "/$1", "/$2", "/x/$1$2"]),
    ("rewrite-path", &["/", "/x", "/x/"]),
    ("vhost", &["b.test", "b.test:8080"]),
    ("redirect-code", &["301", "302", "303", "307", "308", "300"]),
    (
        "-redirect",
        &["http://b.test", "https://b.test:8443/x?y=1", "true"],
    ),
    ("app-root", &["/home", "/a/b"]),
    (
        "cors-allow-origin",
        &[
            "*",
            "https://a.test",
            "https://*.a.test:8443, http://b.test",
        ],
    ),
    ("cors-allow", &["GET, PUT", "X-A, X-B", "*", "true"]),
    ("max-age", &["600", "0"]),
    ("canary-by-header-pattern", &["^v[0-9]+$", "a|b"]),
    ("canary-by", &["x-canary", "stage", "always"]),
    ("canary-weight", &["10", "50", "100"]),
    ("canary", &["true"]),
    ("source-range", &["10.0.0.0/8", "127.0.0.1, ::1", "*"]),
    ("limit-", &["1", "10", "100"]),
    ("timeout", &["5", "0", "60"]),
    ("next-upstream-tries", &["1", "3"]),
    (
        "next-upstream",
        &["error timeout http_503", "off", "http_502 non_idempotent"],
    ),
    ("mirror-target-service", &["t", "m/t", "t:80"]),
    ("mirror-target-fqdn", &["mirror.test"]),
    ("percentage", &["10", "100"]),
    ("default-backend", &["t", "m/s"]),
    ("http-errors", &["404,503", "500"]),
    ("auth-tls-secret", &["cert", "cert-cacert", "n/cert"]),
    (
        "auth-url",
        &[
            "http://s.n.svc.cluster.local/check",
            "http://t.m.svc.cluster.local:80/x?y=1",
        ],
    ),
    ("auth-type", &["basic"]),
    ("auth-secret", &["cert", "users"]),
    ("cipher", &["ECDHE-RSA-AES128-GCM-SHA256:AES128-SHA"]),
    ("protocol-version", &["TLSv1.2", "TLSv1.3"]),
    (
        "backend-protocol",
        &["HTTPS", "GRPC", "HTTP2", "GRPCS", "HTTP"],
    ),
    ("proxy-ssl-secret", &["cert", "n/cert"]),
    ("proxy-ssl-name", &["in.test"]),
    ("proxy-ssl-verify", &["on", "off"]),
    ("proxy-ssl-server-name", &["on"]),
    (
        "load-balance",
        &["round_robin", "least_conn", "random", "mcp-sse"],
    ),
    (
        "hash-by",
        &[
            "$remote_addr",
            "$request_uri",
            "$host",
            "$http_x_user",
            "$arg_id",
            "$cookie_c",
        ],
    ),
    ("affinity", &["cookie"]),
    ("session-cookie-name", &["sticky"]),
    ("session-cookie-path", &["/a"]),
    ("header-control-remove", &["x-a, x-b", "server"]),
    (
        "header-control",
        &[
            "x-a 1\nx-b \"2 3\"",
            "x-c '%DOWNSTREAM_REMOTE_ADDRESS%'",
            "host b.test",
        ],
    ),
    ("match-method", &["GET", "GET POST"]),
    ("match-", &["1", "a", "a.*", "[0-9]+"]),
    ("body-size", &["1m", "8k", "0"]),
    ("server-alias", &["alias.test", "b.test, c.test"]),
    ("semantics", &["ingress-nginx", "higress"]),
    ("satisfy", &["any", "all"]),
    ("destination", &["30% a.nacos:80 v1\n70% b.static", "a.dns"]),
    ("prefix", &["/prefix"]),
];

/// Values that fit no key, or only by chance.
const JUNK: &[&str] = &[
    "",
    " ",
    "*",
    "on",
    "off",
    "yes",
    "0",
    "-1",
    "1e3",
    "99999999999",
    "503, 404",
    "/",
    "/$9\\",
    "s",
    "n/s",
    "a/b/c",
    "http://",
    "tcp://x",
    "http://b.test/\r\nx: y",
    "10.0.0.0/99",
    "(unclosed",
    "(?<name>a)",
    "a(?=b)",
    "[[:bad:]]",
    "x{100000}",
    "\u{1}",
    "a\nb",
    "%",
    "%%",
    "%REQ(x",
    "%NOSUCH%",
    "${secret.n/s.k}",
    "${secret.}",
    "{}",
    "null",
    "true",
    "\u{202e}",
    "a;b=c",
    "x=\"",
    "x y z",
    "ssl",
    "default",
    "\t/x",
];

fn fitting(key: &Key) -> Vec<&'static str> {
    let row = FITTING.iter().find(|(part, _)| key.name.contains(part));
    let values = row.map_or(&["true", "false"][..], |(_, values)| values);
    values.to_vec()
}

fn known() -> impl Strategy<Value = (String, String)> {
    let key = (
        select(KEYS),
        any::<bool>(),
        select(&["x-user", "path", "authority", "X_Y", "\u{e9}"][..]),
    );
    key.prop_flat_map(|(key, nginx, name)| {
        let full = if nginx { key.nginx } else { key.higress };
        let full = format!("{full}{}", if key.named { name } else { "" });
        let value = prop_oneof![
            8 => select(fitting(&key)).prop_map(str::to_owned),
            2 => select(JUNK).prop_map(str::to_owned),
            1 => ".{0,16}",
        ];
        value.prop_map(move |value| (full.clone(), value))
    })
}

fn annotation() -> impl Strategy<Value = (String, String)> {
    let unsupported = (select(UNSUPPORTED), select(JUNK))
        .prop_map(|(row, value)| (format!("{NGINX}{}", row.name), value.to_owned()));
    let unknown =
        ("[a-z/.-]{0,12}", ".{0,8}").prop_map(|(name, value)| (format!("{HIGRESS}{name}"), value));
    prop_oneof![20 => known(), 1 => unsupported, 1 => unknown]
}

fn port() -> impl Strategy<Value = Value> {
    prop_oneof![
        5 => Just(json!({"number": 80})),
        3 => Just(json!({"name": "web"})),
        1 => select(vec![json!({"name": "none"}), json!({"number": 0}), json!({"number": 70000}), json!({}), json!({"number": 81})]),
    ]
}

fn mostly(
    usual: &'static [&'static str],
    all: &'static [&'static str],
) -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => select(usual), 1 => select(all)]
}

fn backend() -> impl Strategy<Value = Value> {
    let service = (mostly(&SERVICES, &["none", "bad name", ""]), port());
    let bridge = json!({"resource": {"apiGroup": "networking.higress.io", "kind": "McpBridge", "name": "default"}});
    prop_oneof![
        20 => service.prop_map(|(name, port)| json!({"service": {"name": name, "port": port}})),
        1 => Just(bridge),
        1 => Just(json!({})),
    ]
}

fn path() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![
        10 => Just(json!("Prefix")),
        5 => Just(json!("Exact")),
        5 => Just(json!("ImplementationSpecific")),
        1 => Just(json!("Odd")),
    ];
    (mostly(USUAL_PATHS, PATHS), kind, backend()).prop_map(
        |(path, kind, backend)| json!({"path": path, "pathType": kind, "backend": backend}),
    )
}

fn rule() -> impl Strategy<Value = Value> {
    (mostly(USUAL_HOSTS, HOSTS), vec(path(), 1..4))
        .prop_map(|(host, paths)| json!({"host": host, "http": {"paths": paths}}))
}

fn tls() -> impl Strategy<Value = Value> {
    let secret = mostly(&["cert"], &["none", ""]);
    (vec(mostly(USUAL_HOSTS, HOSTS), 1..6), secret)
        .prop_map(|(hosts, secret)| json!({"hosts": hosts, "secretName": secret}))
}

/// An Ingress.
pub(crate) fn ingress() -> impl Strategy<Value = Value> {
    let identity = (select(&NAMESPACES[..]), 0..60_u32, 0..3_u32);
    let class = prop_oneof![19 => Just("higress"), 1 => Just("other")];
    let parts = (
        vec(rule(), 0..4),
        vec(tls(), 0..2),
        prop::option::weighted(0.1, backend()),
    );
    (identity, class, vec(annotation(), 0..9), parts).prop_map(
        |((namespace, name, day), class, annotations, (rules, tls, default))| {
            let annotations: Map<String, Value> = annotations
                .into_iter()
                .map(|(key, value)| (key, Value::String(value)))
                .collect();
            let mut spec = json!({"ingressClassName": class, "rules": rules, "tls": tls});
            if let (Some(backend), Some(spec)) = (default, spec.as_object_mut()) {
                spec.insert("defaultBackend".to_owned(), backend);
            }
            json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": spec,
                "metadata": {
                    "namespace": namespace, "name": format!("i{name}"), "annotations": annotations,
                    "creationTimestamp": format!("2024-01-0{}T00:00:00Z", day + 1),
                },
            })
        },
    )
}

/// The Services that exist.
pub(crate) fn services() -> impl Iterator<Item = Value> {
    let each = NAMESPACES
        .iter()
        .flat_map(|namespace| SERVICES.iter().map(move |name| (namespace, name)));
    each.map(|(namespace, name)| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": namespace, "name": name},
            "spec": {"ports": [{"name": "web", "port": 80}]},
        })
    })
}

/// The objects as one text of several documents. JSON is YAML.
pub(crate) fn manifest(objects: impl IntoIterator<Item = Value>) -> String {
    let documents: Vec<String> = objects
        .into_iter()
        .map(|object| object.to_string())
        .collect();
    documents.join("\n---\n")
}
