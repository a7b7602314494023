use std::fmt::Write as _;

use rstest::rstest;

use super::*;
use crate::ingest;

/// One Ingress: annotations with ingress-nginx's prefix, or with the one given, and paths as `type path`.
fn ingress(name: &str, host: &str, annotations: &[(&str, &str)], paths: &[&str]) -> String {
    let mut text = format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: {name}\n  namespace: n\n  annotations:\n    unrelated: x\n"
    );
    for (key, value) in annotations {
        let prefix = if key.contains('/') {
            ""
        } else {
            "nginx.ingress.kubernetes.io/"
        };
        writeln!(text, "    {prefix}{key}: {value:?}").unwrap();
    }
    writeln!(
        text,
        "spec:\n  ingressClassName: nginx\n  rules:\n  - host: '{host}'\n    http:\n      paths:"
    )
    .unwrap();
    for path in paths {
        let (kind, path) = path.split_once(' ').unwrap();
        writeln!(text, "      - {{path: '{path}', pathType: {kind}, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}").unwrap();
    }
    text + "---\n"
}

fn audited(text: &str, scope: &Scope) -> Report {
    audit(scope, ingest::parse("a.yaml", text.as_bytes()))
}

/// `aspect: request -> nginx | ours` for every row.
fn rows(text: &str) -> Vec<String> {
    let report = audited(text, &Scope::default());
    let shown = |row: &report::Row| {
        let service = |text: &str| text.replace("web.n:80 sees ", "");
        let aspect = row.aspect.as_str();
        format!(
            "{aspect}: {} -> {} | {}",
            row.request,
            service(&row.nginx),
            service(&row.ours)
        )
    };
    report.rows.iter().map(shown).collect()
}

#[rstest]
#[case::nothing(&[], "Prefix /foo", &[])]
#[case::root(&[("rewrite-target", "/")], "Prefix /", &[])]
#[case::groups(&[("rewrite-target", "/$1")], "ImplementationSpecific /a/(.*)", &["status: curl http://h.test/A/X -> /X | 404"])]
#[case::plain(
    &[("rewrite-target", "/bar")],
    "Prefix /foo",
    &[
        "rewritten path: curl http://h.test/foo/x -> /bar | /bar/x",
        "status: curl http://h.test/foox -> /bar | 404",
    ]
)]
#[case::url(
    &[("permanent-redirect", "http://b.test")],
    "Prefix /foo",
    &["redirect: curl http://h.test/foo -> 301 to http://b.test | 301 to http://b.test/foo"]
)]
#[case::addresses(
    &[("allowlist-source-range", "10.0.0.1,x")],
    "Prefix /",
    &[
        "status: curl http://h.test/ -> 503 | /",
        "annotation: curl http://h.test/ -> reads it | /",
    ]
)]
#[case::origins(
    &[("enable-cors", "true"), ("cors-allow-origin", "https://*.b.test")],
    "Prefix /",
    &["cross-origin: curl -H 'origin: https://x.y.b.test' http://h.test/ -> nothing | access-control-allow-origin: https://x.y.b.test",
        "status: curl -X OPTIONS -H 'access-control-request-method: GET' -H 'origin: https://x.b.test' http://h.test/ -> 204 | 200",
    ]
)]
#[case::attempts(
    &[("proxy-next-upstream-tries", "1")],
    "Prefix /",
    &["retries: curl http://h.test/ -> nothing is tried again | 1 more attempts on 5xx"]
)]
#[case::cookie(&[("session-cookie-name", "r")], "Prefix /", &["endpoint choice: curl http://h.test/ -> the default |"])]
#[case::unsupported(
    &[("enable-modsecurity", "true")],
    "Prefix /a",
    &["annotation: curl http://h.test/a -> would inspect requests with ModSecurity | /a"]
)]
#[case::own_choice(
    &[("rewrite-target", "/bar"), ("higress.io/annotation-semantics", "ingress-nginx")],
    "Prefix /foo",
    &[]
)]
fn differences(
    #[case] annotations: &[(&str, &str)],
    #[case] path: &str,
    #[case] expected: &[&str],
) {
    let found = rows(&ingress("i", "h.test", annotations, &[path]));
    let fits = found.len() == expected.len()
        && found
            .iter()
            .zip(expected)
            .all(|(found, start)| found.starts_with(start));
    assert!(fits, "{found:#?}");
}

#[test]
fn canaries_and_regular_expressions_of_others() {
    let mut text = ingress("main", "c.test", &[], &["Prefix /"]);
    let canary = [
        ("canary", "true"),
        ("canary-by-header", "x-c"),
        ("canary-by-header-value", "v."),
    ];
    text += &ingress("canary", "c.test", &canary, &["Prefix /"]).replace("name: web", "name: next");
    text += &ingress(
        "regex",
        "r.test",
        &[("use-regex", "true")],
        &["ImplementationSpecific /api/v[0-9]+"],
    );
    text += &ingress("wide", "r.test", &[], &["Prefix /api"]).replace("name: web", "name: wide");
    let found = rows(&text);
    for start in [
        "backend: curl -H 'x-c: vx' http://c.test/ -> / | next.n",
        "backend: curl http://r.test/api/v1 -> /api/v1 | wide.n",
    ] {
        assert!(found.iter().any(|row| row.starts_with(start)), "{found:#?}");
    }
}

#[test]
fn classes_and_the_summary() {
    let rewrite = [("rewrite-target", "/bar"), ("server-snippet", "x")];
    let mut text = ingress("a", "a.test", &rewrite, &["Prefix /foo"]);
    text += &ingress("b", "b.test", &[], &["Prefix /foo"]);
    text += &ingress("c", "c.test", &rewrite, &["Prefix /foo"])
        .replace("ingressClassName: nginx", "ingressClassName: other");
    let report = audited(&text, &Scope::default());
    let summary = "2 Ingresses: 1 identical, 1 differ, 1 annotations to look at; with --annotation-semantics ingress-nginx: 1 identical, 1 with annotations to look at\n";
    let shown = report.text();
    assert!(shown.ends_with(summary), "{shown}");
    assert!(shown.starts_with("INGRESS "), "{shown}");
    let semantics = Semantics::IngressNginx;
    let report = audited(
        &text,
        &Scope {
            semantics,
            ..Scope::default()
        },
    );
    assert_eq!(report.rows.len(), 1, "{}", report.text());
    assert_eq!(report.json()["summary"]["differ"], 0);
}
