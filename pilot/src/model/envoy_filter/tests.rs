use rstest::rstest;
use shared_proto::envoy::message_to_json;

use super::*;

fn facts(yaml: &str) -> EnvoyFilterFacts {
    let filter: istio::EnvoyFilter = serde_yaml::from_str(yaml).unwrap();
    let precedence = (i64::MIN, "f".into(), "sys".into());
    EnvoyFilterFacts::of(&filter, NamespacedName::new("sys", "f"), precedence)
}

fn one(patch: &str) -> EnvoyFilterFacts {
    facts(&format!("configPatches: [{patch}]"))
}

#[rstest]
#[case(
    "{applyTo: BOOTSTRAP, patch: {operation: MERGE, value: {}}}",
    ".applyTo"
)]
#[case("{patch: {operation: MERGE, value: {}}}", ".applyTo")]
#[case("{applyTo: CLUSTER}", ".patch")]
#[case(
    "{applyTo: HTTP_ROUTE, patch: {operation: REPLACE, value: {match: {}}}}",
    ".patch.operation"
)]
#[case("{applyTo: CLUSTER, patch: {operation: MERGE}}", ".patch.value")]
#[case(
    "{applyTo: CLUSTER, patch: {operation: ADD, value: {}}}",
    ".patch.value"
)]
#[case(
    "{applyTo: CLUSTER, patch: {operation: ADD, value: {name: 'outbound|1||a'}}}",
    ".patch.value.name"
)]
#[case(
    "{applyTo: HTTP_ROUTE, patch: {operation: ADD, value: {name: a}}}",
    ".patch.value"
)]
#[case(
    "{applyTo: CLUSTER, match: {routeConfiguration: {}}, patch: {operation: REMOVE}}",
    ".match"
)]
#[case(
    "{applyTo: HTTP_FILTER, patch: {operation: REMOVE}}",
    ".match.listener.filterChain.filter.subFilter.name"
)]
#[case(
    "{applyTo: CLUSTER, match: {proxy: {proxyVersion: '('}}, patch: {operation: REMOVE}}",
    ".match.proxy.proxyVersion"
)]
#[case(
    "{applyTo: HTTP_FILTER, patch: {operation: ADD, value: {name: a, typed_config: {'@type': type.googleapis.com/no.such.Type}}}}",
    ".patch.value"
)]
#[case(
    "{applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: soon}}}",
    ".patch.value"
)]
fn what_cannot_be_used_is_told_with_its_field(#[case] patch: &str, #[case] member: &str) {
    let facts = one(patch);
    assert_eq!(facts.patches, []);
    let [mistake] = facts.mistakes.as_slice() else {
        panic!("{facts:?}");
    };
    assert_eq!(
        mistake.at,
        format!("spec.configPatches[0]{member}"),
        "{mistake:?}"
    );
}

#[test]
fn one_bad_patch_harms_only_itself() {
    let facts = facts(
        "configPatches: [{applyTo: CLUSTER}, {applyTo: CLUSTER, patch: {operation: REMOVE}}, \
         {applyTo: CLUSTER, match: {context: SIDECAR_INBOUND}, patch: {operation: REMOVE}}]",
    );
    assert_eq!(facts.mistakes.len(), 1);
    assert_eq!(facts.patches.len(), 1);
    assert_eq!(facts.patches[0].at, 1);
}

#[test]
fn policy_targets_are_not_ignored() {
    let facts = facts(
        "targetRefs: [{kind: Gateway, name: g}]\nconfigPatches: [{applyTo: CLUSTER, patch: {operation: REMOVE}}]",
    );
    assert_eq!(facts.patches, []);
    assert_eq!(facts.mistakes[0].at, "spec.targetRefs");
}

#[rstest]
#[case("{applyTo: HTTP_ROUTE, patch: {operation: REMOVE}}", Target::Routes)]
#[case(
    "{applyTo: HTTP_ROUTE, match: {routeConfiguration: {vhost: {name: 'A.test:80'}}}, patch: {operation: REMOVE}}",
    Target::VirtualHost("a.test:80".into())
)]
#[case(
    "{applyTo: HTTP_ROUTE, match: {routeConfiguration: {vhost: {domainName: a.test}}}, patch: {operation: REMOVE}}",
    Target::Domain("a.test".into())
)]
#[case(
    "{applyTo: VIRTUAL_HOST, match: {routeConfiguration: {name: http.80, vhost: {name: a}}}, patch: {operation: ADD, value: {name: a, domains: [a]}}}",
    Target::RouteConfiguration("http.80".into())
)]
#[case(
    "{applyTo: NETWORK_FILTER, patch: {operation: MERGE, value: {}}}",
    Target::Listeners
)]
#[case(
    "{applyTo: CLUSTER, match: {cluster: {service: A.b}}, patch: {operation: REMOVE}}",
    Target::Service("a.b".into())
)]
#[case(
    "{applyTo: CLUSTER, patch: {operation: INSERT_FIRST, value: {name: c}}}",
    Target::Added(Added::Cluster, "c".into())
)]
fn targets(#[case] patch: &str, #[case] expected: Target) {
    let facts = one(patch);
    assert_eq!(facts.mistakes, []);
    assert_eq!(facts.patches[0].target(), expected);
}

#[test]
fn values_are_read_leniently_and_their_clusters_noted() {
    let facts = one(
        "{applyTo: HTTP_ROUTE, patch: {operation: MERGE, value: {no_such_field: 1, \
         route: {timeout: 5s, cluster: 'outbound|80||Web.shop.svc.cluster.local'}}}}",
    );
    assert_eq!(
        facts.destinations,
        [("web.shop.svc.cluster.local".into(), 80)]
    );
    let json = message_to_json("envoy.config.route.v3.Route", &facts.patches[0].value).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"route": {"timeout": "5s", "cluster": "outbound|80||Web.shop.svc.cluster.local"}})
    );
}

#[test]
fn routes_that_are_brought_have_names() {
    let facts = one(
        "{applyTo: ROUTE_CONFIGURATION, patch: {operation: MERGE, value: {virtualHosts: \
         [{name: v, domains: [x], routes: [{match: {prefix: /}, redirect: {}}, {name: own}]}]}}}",
    );
    let value = &facts.patches[0].value;
    let json = message_to_json("envoy.config.route.v3.RouteConfiguration", value).unwrap();
    let routes = &json["virtualHosts"][0]["routes"];
    assert_eq!(
        (&routes[0]["name"], &routes[1]["name"]),
        (&"sys/f/0".into(), &"own".into())
    );
}

#[test]
fn proxies_are_told_apart_by_version_and_metadata() {
    let facts = one(
        "{applyTo: CLUSTER, match: {proxy: {proxyVersion: '^1\\.2[0-9]\\.', metadata: {TIER: front}}}, \
         patch: {operation: REMOVE}}",
    );
    let condition = &facts.patches[0].proxies;
    assert_eq!(condition.keys(), ["ISTIO_VERSION", "TIER"].into());
    let holds = |version: &str, tier: &str| {
        let metadata = [("ISTIO_VERSION", version), ("TIER", tier)];
        condition.holds(&metadata.map(|(k, v)| (k.to_owned(), v.to_owned())).into())
    };
    assert!(holds("1.20.3", "front"));
    assert!(!holds("1.19.3", "front") && !holds("1.20.3", "back"));
    assert!(!condition.holds(&BTreeMap::new()));
}
