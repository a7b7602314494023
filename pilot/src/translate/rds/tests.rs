//! What a VirtualService becomes; that Envoy takes it is tested against Envoy itself.

use envoy_types::pb::envoy::config::route::v3 as route;
use prost::Message;
use route::route_action::{ClusterSpecifier, HostRewriteSpecifier};
use route::route_match::PathSpecifier;
use rstest::rstest;

use super::*;
use crate::model::service::{Protocol, Resolution, ServicePort};

struct Services;

impl ServiceLookup for Services {
    fn service(&self, hostname: &str, _: &str) -> Option<Arc<Service>> {
        let numbers: &[u16] = match hostname {
            "one.port" => &[8080],
            "two.ports" => &[1, 2],
            _ => return None,
        };
        let port = |number: &u16| ServicePort {
            name: number.to_string().into(),
            number: *number,
            protocol: Protocol::Http,
        };
        Some(Arc::new(Service {
            hostname: hostname.into(),
            namespace: "test".into(),
            name: "x".into(),
            ports: numbers.iter().map(port).collect(),
            resolution: Resolution::Eds,
            created: 0,
        }))
    }
}

fn spec(http: &str) -> VirtualService {
    serde_yaml::from_str(&format!("http:\n{http}")).unwrap()
}

/// What of the surroundings a test may change.
#[derive(Clone, Copy, Default)]
struct At {
    https: bool,
    https_redirect: bool,
    gateway_semantics: bool,
}

fn build(at: At, http: &[&str]) -> Generated<wire::RouteConfiguration> {
    let specs: Vec<VirtualService> = http.iter().map(|text| spec(text)).collect();
    let labels = BTreeMap::from([("app".to_owned(), "gateway".to_owned())]);
    let gateways: [Arc<str>; 1] = ["test/gw".into()];
    let services: Vec<RouteVs<'_>> = specs
        .iter()
        .map(|spec| RouteVs {
            namespace: "test",
            name: "vs",
            spec,
            gateways: &gateways,
            gateway_semantics: at.gateway_semantics,
        })
        .collect();
    host_route_configuration(&HostRoutes {
        port: 80,
        host: "A.test",
        https: at.https,
        https_redirect: at.https_redirect,
        client_certificate: false,
        virtual_services: &services,
        services: &Services,
        proxy: ProxyView {
            namespace: "system",
            labels: &labels,
        },
    })
}

fn rows(http: &str) -> Vec<wire::Route> {
    let mut built = build(At::default(), &[http]);
    built.resource.virtual_hosts.remove(0).routes
}

fn row(fields: &str) -> wire::Route {
    let mut rows = rows(&format!(
        "- {{{fields}, route: [{{destination: {{host: one.port}}}}]}}"
    ));
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

fn matched(row: &wire::Route) -> &route::RouteMatch {
    row.r#match.as_ref().unwrap()
}

fn forward(row: &wire::Route) -> &route::RouteAction {
    match row.action.as_ref().unwrap() {
        wire::Action::Route(action) => action,
        other => panic!("{other:?}"),
    }
}

fn cluster(row: &wire::Route) -> &str {
    match forward(row).cluster_specifier.as_ref().unwrap() {
        ClusterSpecifier::Cluster(name) => name,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_virtual_host_with_the_host_in_lower_case() {
    let built = build(
        At::default(),
        &["- route: [{destination: {host: one.port}}]"],
    );
    let config = built.resource;
    assert_eq!(config.name, "higress-rds-80.A.test");
    assert_eq!(config.request_headers_to_remove, [names::SCOPE_HEADER]);
    assert_eq!(config.virtual_hosts.len(), 1);
    let host = &config.virtual_hosts[0];
    assert_eq!(host.name, "a.test:80");
    assert_eq!(host.domains, ["a.test"]);
    assert!(host.retry_policy.is_some());
    assert!(built.issues.is_empty());
}

#[test]
fn nothing_to_serve_is_a_black_hole() {
    for http in [&[][..], &["  []"]] {
        let config = build(At::default(), http).resource;
        assert_eq!(config.virtual_hosts[0].name, "blackhole:80");
    }
    let at = At {
        https_redirect: true,
        ..At::default()
    };
    let host = &build(at, &[]).resource.virtual_hosts[0];
    assert_eq!(host.domains, ["a.test"]);
    assert_eq!(
        host.require_tls(),
        route::virtual_host::TlsRequirementType::All
    );
}

#[test]
fn equal_input_gives_equal_bytes() {
    let http = "- {corsPolicy: {allowOrigins: [{exact: a}]}, fault: {abort: {httpStatus: 500}},
        routeHTTPFilters: [{name: a, ip_access_control: {remoteIpBlocks: [10.0.0.0/8]}},
        {name: b, ip_access_control: {remoteIpBlocks: [11.0.0.0/8]}},
        {name: c, local_rate_limit: {tokenBucket: {maxTokens: 1, tokensPefFill: 1, fillInterval: 1s}}}],
        route: [{destination: {host: one.port}}]}";
    let first = build(At::default(), &[http]).resource;
    assert_eq!(
        first.virtual_hosts[0].routes[0]
            .typed_per_filter_config
            .len(),
        4
    );
    let bytes = first.encode_to_vec();
    for _ in 0..50 {
        assert_eq!(
            build(At::default(), &[http]).resource.encode_to_vec(),
            bytes
        );
    }
}

#[rstest]
#[case("uri: {exact: /a}", PathSpecifier::Path("/a".into()))]
#[case("uri: {prefix: /a}", PathSpecifier::Prefix("/a".into()))]
#[case("uri: {prefix: /a/}", PathSpecifier::Prefix("/a/".into()))]
#[case("uri: {regex: '*'}", PathSpecifier::Prefix("/".into()))]
#[case(
    "uri: {regex: '/u/{id}'}",
    PathSpecifier::SafeRegex(proto::regex(r"/u/\{id\}"))
)]
#[case("port: 80", PathSpecifier::Prefix("/".into()))]
fn paths(#[case] condition: &str, #[case] expected: PathSpecifier) {
    let row = row(&format!("match: [{{{condition}}}]"));
    assert_eq!(matched(&row).path_specifier, Some(expected));
}

#[rstest]
#[case("/a", PathSpecifier::PathSeparatedPrefix("/a".into()))]
#[case("/a/", PathSpecifier::PathSeparatedPrefix("/a".into()))]
#[case("/", PathSpecifier::Prefix("/".into()))]
fn prefixes_end_at_a_slash_with_gateway_semantics(
    #[case] prefix: &str,
    #[case] expected: PathSpecifier,
) {
    let at = At {
        gateway_semantics: true,
        ..At::default()
    };
    let http = format!(
        "- {{match: [{{uri: {{prefix: {prefix}}}}}], route: [{{destination: {{host: one.port}}}}]}}"
    );
    let config = build(at, &[&http]).resource;
    let row = &config.virtual_hosts[0].routes[0];
    assert_eq!(matched(row).path_specifier, Some(expected));
}

#[rstest]
#[case("port: 81")]
#[case("gateways: [other/gw]")]
#[case("sourceLabels: {app: other}")]
#[case("sourceNamespace: test")]
#[case("uri: {regex: '('}")]
#[case("headers: {'a b': {exact: x}}")]
#[case("queryParams: {'': {exact: x}}")]
#[case("uri: {exact: ''}")]
fn conditions_that_leave_the_route_out(#[case] condition: &str) {
    let http = format!(
        "- {{match: [{{{condition}}}], route: [{{destination: {{host: one.port}}}}]}}\n- route: [{{destination: {{host: one.port}}}}]"
    );
    assert_eq!(rows(&http).len(), 1);
}

#[rstest]
#[case("gateways: [gw]")]
#[case("gateways: [./gw]")]
#[case("gateways: [test/gw], sourceLabels: {app: other}")]
#[case("sourceLabels: {app: gateway}")]
#[case("sourceNamespace: system")]
#[case("port: 80")]
fn conditions_that_hold(#[case] condition: &str) {
    assert!(is_row(&format!("match: [{{{condition}}}]")));
}

fn is_row(fields: &str) -> bool {
    matched(&row(fields)).headers.is_empty()
}

#[test]
fn headers_are_sorted_and_pseudo_headers_last() {
    let row = row(
        "match: [{method: {exact: GET}, headers: {x-b: {exact: b}, x-a: {}}, withoutHeaders: {x-aa: {}}}]",
    );
    let headers = &matched(&row).headers;
    let names: Vec<&str> = headers.iter().map(|header| header.name.as_str()).collect();
    assert_eq!(names, ["x-a", "x-aa", "x-b", ":method"]);
    assert!(headers[1].invert_match);
}

#[test]
fn every_route_has_a_name() {
    assert_eq!(row("timeout: 1s").name, "test/vs");
    assert_eq!(row("name: n").name, "n");
    assert_eq!(row("name: n, match: [{name: m}]").name, "n.m");
}

#[test]
fn what_follows_a_catch_all_is_left_out_and_catch_alls_come_last() {
    let to = |path: &str, name: &str| {
        format!(
            "- {{name: {name}, match: [{{uri: {{prefix: {path}}}}}], route: [{{destination: {{host: one.port}}}}]}}"
        )
    };
    let first = format!("{}\n{}\n{}", to("/a", "a"), to("/", "all"), to("/b", "b"));
    let second = to("/c", "c");
    let config = build(At::default(), &[&first, &second]).resource;
    let names: Vec<&str> = config.virtual_hosts[0]
        .routes
        .iter()
        .map(|row| row.name.as_str())
        .collect();
    assert_eq!(names, ["a", "c", "all"]);
}

#[rstest]
#[case("{host: one.port, port: {number: 9}}", "outbound|9||one.port")]
#[case("{host: one.port}", "outbound|8080||one.port")]
#[case("{host: two.ports}", "outbound|80||two.ports")]
#[case("{host: unknown}", "outbound|80||unknown")]
#[case("{host: one.port, subset: v1}", "outbound|8080|v1|one.port")]
fn ports_of_destinations(#[case] destination: &str, #[case] expected: &str) {
    let rows = rows(&format!("- route: [{{destination: {destination}}}]"));
    assert_eq!(cluster(&rows[0]), expected);
}

#[test]
fn destinations_without_weight_get_nothing() {
    let http = "- route: [{destination: {host: a}, weight: 0}, {destination: {host: b}, weight: 30}, {destination: {host: c}, weight: 70}]";
    let rows = rows(http);
    let Some(ClusterSpecifier::WeightedClusters(split)) = &forward(&rows[0]).cluster_specifier
    else {
        panic!("not split");
    };
    let weights: Vec<u32> = split
        .clusters
        .iter()
        .map(|cluster| cluster.weight.unwrap().value)
        .collect();
    assert_eq!(weights, [30, 70]);
}

#[rstest]
#[case("headers: {request: {set: {host: set.host}}}", "set.host")]
#[case(
    "headers: {request: {set: {host: set.host}}}, rewrite: {authority: new.host}",
    "new.host"
)]
fn authority(#[case] fields: &str, #[case] expected: &str) {
    let row = row(fields);
    assert_eq!(
        forward(&row).host_rewrite_specifier,
        Some(HostRewriteSpecifier::HostRewriteLiteral(expected.into()))
    );
    assert!(row.request_headers_to_add.is_empty());
}

#[test]
fn https_redirects_are_not_followed_over_tls() {
    let http = "- {redirect: {scheme: https, redirectCode: 308}, route: [{destination: {host: one.port}}]}";
    let action = |https| {
        let at = At {
            https,
            ..At::default()
        };
        build(at, &[http]).resource.virtual_hosts[0].routes[0]
            .action
            .clone()
            .unwrap()
    };
    assert!(matches!(action(false), wire::Action::Redirect(_)));
    assert!(matches!(action(true), wire::Action::Route(_)));
}

#[rstest]
#[case("retries: {attempts: 0}", 0, "")]
#[case(
    "retries: {attempts: 4}",
    4,
    "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes"
)]
#[case("retries: {attempts: 1, retryOn: '5xx'}", 1, "5xx")]
#[case(
    "retries: {attempts: 1, retryOn: '5xx,502'}",
    1,
    "5xx,retriable-status-codes"
)]
fn retries(#[case] fields: &str, #[case] attempts: u32, #[case] retry_on: &str) {
    let row = row(fields);
    let policy = forward(&row).retry_policy.as_ref().unwrap();
    assert_eq!(policy.num_retries.unwrap().value, attempts);
    assert_eq!(policy.retry_on, retry_on);
}

#[test]
fn unsafe_methods_are_retried_only_when_asked_for() {
    let policy = |retry_on: &str| {
        let row = row(&format!("retries: {{attempts: 1, retryOn: '{retry_on}'}}"));
        forward(&row).retry_policy.clone().unwrap()
    };
    assert_eq!(policy("5xx").retriable_request_headers.len(), 1);
    assert!(
        policy("5xx,non_idempotent")
            .retriable_request_headers
            .is_empty()
    );
}

#[rstest]
#[case("match: [{uri: {regex: '('}}]", Reason::InvalidRegex)]
#[case("redirect: {redirectCode: 304}", Reason::InvalidValue)]
#[case("directResponse: {status: 1}", Reason::InvalidValue)]
#[case(
    "rewrite: {uriRegexRewrite: {match: 'a', rewrite: '\\1'}}",
    Reason::InvalidPath
)]
#[case("headers: {request: {set: {'a b': c}}}", Reason::InvalidHeader)]
#[case("timeout: -1s", Reason::InvalidValue)]
#[case("fault: {delay: {exponentialDelay: 1s}}", Reason::Unsupported)]
#[case("internalActiveRedirect: {}", Reason::InvalidValue)]
fn mistakes_are_reported(#[case] fields: &str, #[case] reason: Reason) {
    let http = format!("- {{name: n, {fields}, route: [{{destination: {{host: one.port}}}}]}}");
    let issues = build(At::default(), &[&http]).issues;
    assert_eq!(issues.len(), 1, "{issues:?}");
    assert_eq!(issues[0].reason, reason);
    assert_eq!(issues[0].at, "n");
    let origin = issues[0].origin.as_ref().unwrap();
    assert_eq!(
        (origin.namespace.as_str(), origin.name.as_str()),
        ("test", "vs")
    );
}

#[test]
fn an_action_that_cannot_be_understood_answers_500() {
    for fields in [
        "redirect: {redirectCode: 304}",
        "name: n",
        "route: [{weight: 1}]",
    ] {
        let rows = rows(&format!("- {{{fields}}}"));
        let Some(wire::Action::DirectResponse(response)) = &rows[0].action else {
            panic!("{fields}");
        };
        assert_eq!(response.status, 500);
    }
}
