use std::sync::Arc;

use rstest::rstest;
use serde_json::{Value, json};
use shared_proto::envoy::{UnknownFields, json_to_message, message_to_json};
use shared_proto::networking::v1alpha3::EnvoyFilter;

use super::*;
use crate::model::change::NamespacedName;
use crate::model::envoy_filter::EnvoyFilterFacts;
use crate::translate::issue::Generated;

fn patches(list: &str) -> Vec<Arc<Patch>> {
    let filter: EnvoyFilter = serde_yaml::from_str(&format!("configPatches:\n{list}")).unwrap();
    let precedence = (i64::MIN, "f".into(), "sys".into());
    let facts = EnvoyFilterFacts::of(&filter, NamespacedName::new("sys", "f"), precedence);
    assert_eq!(facts.mistakes, []);
    facts.patches
}

fn encode(name: &str, json: &Value) -> Bytes {
    let bytes = json_to_message(name, json, UnknownFields::Deny).unwrap();
    bytes.into()
}

fn decode(name: &str, bytes: &[u8]) -> Value {
    message_to_json(name, bytes).unwrap()
}

fn on_routes(json: &Value, list: &str) -> Generated<Value> {
    let site = RouteSite {
        port: 80,
        scoped: true,
        port_names: ["http".to_owned()].into(),
        gateways: [NamespacedName::new("sys", "gw")].into(),
        names: ["http.80".to_owned()].into(),
    };
    let all = patches(list);
    let all: Vec<&Patch> = all.iter().map(|patch| &**patch).collect();
    let generated = routes(&site, encode(types::ROUTES, json), &all);
    Generated {
        resource: decode(types::ROUTES, &generated.resource),
        issues: generated.issues,
    }
}

fn on_listener(json: &Value, list: &str) -> Generated<Option<Value>> {
    let site = ListenerSite {
        name: "0.0.0.0_80".to_owned(),
        port: 80,
        scoped: true,
        port_names: ["http".to_owned()].into(),
    };
    let all = patches(list);
    let all: Vec<&Patch> = all.iter().map(|patch| &**patch).collect();
    let generated = listener(&site, encode(types::LISTENER, json), &all);
    let resource = generated.resource;
    Generated {
        resource: resource.map(|bytes| decode(types::LISTENER, &bytes)),
        issues: generated.issues,
    }
}

fn base_routes() -> Value {
    json!({
        "name": "higress-rds-80.a.test",
        "virtualHosts": [{
            "name": "a.test:80",
            "domains": ["a.test"],
            "routes": [
                {"name": "one", "match": {"prefix": "/1"}, "route": {"cluster": "c1", "timeout": "2.500s"}},
                {"name": "two", "match": {"prefix": "/2"}, "redirect": {"hostRedirect": "x"}}
            ]
        }]
    })
}

fn names(routes: &Value) -> Vec<&str> {
    let routes = routes["virtualHosts"][0]["routes"].as_array().unwrap();
    routes
        .iter()
        .map(|route| route["name"].as_str().unwrap())
        .collect()
}

fn route_patch(wanted: &str, patch: &str) -> String {
    format!(
        "- {{applyTo: HTTP_ROUTE, match: {{routeConfiguration: {{{wanted}}}}}, patch: {{{patch}}}}}\n"
    )
}

const ADDED: &str = "value: {name: new, match: {prefix: /n}, redirect: {}}";

#[rstest]
#[case("", "INSERT_FIRST", &["new", "one", "two"])]
#[case("", "INSERT_BEFORE", &["new", "one", "two"])]
#[case("", "INSERT_AFTER", &["one", "two", "new"])]
#[case("", "ADD", &["one", "two", "new"])]
#[case("vhost: {route: {name: two}}", "INSERT_BEFORE", &["one", "new", "two"])]
#[case("vhost: {route: {name: one}}", "INSERT_AFTER", &["one", "new", "two"])]
#[case("vhost: {route: {name: two}}", "INSERT_FIRST", &["new", "one", "two"])]
#[case("vhost: {route: {name: three}}", "INSERT_FIRST", &["one", "two"])]
#[case("vhost: {route: {name: three}}", "INSERT_AFTER", &["one", "two"])]
#[case("vhost: {route: {action: REDIRECT}}", "INSERT_BEFORE", &["one", "new", "two"])]
#[case("vhost: {name: 'b.test:80'}", "ADD", &["one", "two"])]
#[case("vhost: {name: 'A.test:80'}", "ADD", &["one", "two", "new"])]
#[case("vhost: {domainName: a.test}", "ADD", &["one", "two", "new"])]
#[case("portNumber: 80, portName: http, gateway: sys/gw, name: http.80", "ADD", &["one", "two", "new"])]
#[case("portNumber: 81", "ADD", &["one", "two"])]
#[case("portName: https", "ADD", &["one", "two"])]
#[case("gateway: sys/other", "ADD", &["one", "two"])]
#[case("name: http.81", "ADD", &["one", "two"])]
fn routes_are_put_in(#[case] wanted: &str, #[case] operation: &str, #[case] expected: &[&str]) {
    let patch = route_patch(wanted, &format!("operation: {operation}, {ADDED}"));
    let patched = on_routes(&base_routes(), &patch);
    assert_eq!(names(&patched.resource), expected);
    assert_eq!(patched.issues, []);
}

#[test]
fn routes_are_merged_in_order_and_redirects_left_alone() {
    let merge = |wanted: &str, value: &str| {
        route_patch(wanted, &format!("operation: MERGE, value: {value}"))
    };
    let list = merge("", "{route: {timeout: 3s, priority: HIGH}}")
        + &merge(
            "vhost: {route: {name: one}}",
            "{route: {timeout: 0.500s}, typed_per_filter_config: {a: {'@type': type.googleapis.com/google.protobuf.Duration, value: 1s}}}",
        )
        + &merge(
            "vhost: {route: {name: one}}",
            "{typed_per_filter_config: {a: {'@type': type.googleapis.com/google.protobuf.Duration, value: 2s}}}",
        );
    let patched = on_routes(&base_routes(), &list);
    let mut expected = base_routes();
    let route = &mut expected["virtualHosts"][0]["routes"][0];
    route["route"] = json!({"cluster": "c1", "timeout": "0.500s", "priority": "HIGH"});
    route["typedPerFilterConfig"] =
        json!({"a": {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "2s"}});
    route["metadata"] = json!({"filterMetadata": {"isthmus.filters": {"a": true}}});
    assert_eq!(patched.resource, expected);
    assert_eq!(patched.issues, []);
}

#[test]
fn routes_say_which_filters_they_switch_on() {
    const OFF: &str =
        "{'@type': type.googleapis.com/envoy.config.route.v3.FilterConfig, disabled: true}";
    const ON: &str =
        "{'@type': type.googleapis.com/envoy.config.route.v3.FilterConfig, config: {}}";
    let list = format!(
        "- {{applyTo: VIRTUAL_HOST, patch: {{operation: MERGE, value: {{typed_per_filter_config: {{a: {ON}, b: {ON}}}}}}}}}\n"
    ) + &route_patch(
        "vhost: {route: {name: one}}",
        &format!("operation: MERGE, value: {{typed_per_filter_config: {{b: {OFF}, c: {ON}}}}}"),
    );
    let patched = on_routes(&base_routes(), &list).resource;
    let routes = &patched["virtualHosts"][0]["routes"];
    let on = |at: usize| &routes[at]["metadata"]["filterMetadata"]["isthmus.filters"];
    assert_eq!(on(0), &json!({"a": true, "c": true}));
    assert_eq!(on(1), &json!({"a": true, "b": true}));
}

#[test]
fn a_name_that_is_brought_does_not_change_the_resource_and_lists_are_added_to() {
    let list = "- {applyTo: ROUTE_CONFIGURATION, patch: {operation: MERGE, value: {name: x, internal_only_headers: [b]}}}\n\
                - {applyTo: VIRTUAL_HOST, patch: {operation: MERGE, value: {request_headers_to_remove: [h]}}}\n\
                - {applyTo: VIRTUAL_HOST, patch: {operation: MERGE_AND_REPLACE_LIST, value: {request_headers_to_remove: [i]}}}\n\
                - {applyTo: HTTP_ROUTE, match: {routeConfiguration: {vhost: {route: {name: two}}}}, patch: {operation: REMOVE}}\n";
    let mut base = base_routes();
    base["internalOnlyHeaders"] = json!(["a"]);
    let patched = on_routes(&base, list).resource;
    assert_eq!(patched["name"], "higress-rds-80.a.test");
    assert_eq!(patched["internalOnlyHeaders"], json!(["a", "b"]));
    assert_eq!(
        patched["virtualHosts"][0]["requestHeadersToRemove"],
        json!(["i"])
    );
    assert_eq!(names(&patched), ["one"]);
}

#[test]
fn virtual_hosts_come_and_go_and_two_never_share_a_domain() {
    let add = |name: &str, domain: &str| {
        format!(
            "- {{applyTo: VIRTUAL_HOST, patch: {{operation: ADD, value: {{name: {name}, domains: ['{domain}']}}}}}}\n"
        )
    };
    let list = add("b", "b.test") + &add("c", "A.test") + &add("d", "b.test");
    let patched = on_routes(&base_routes(), &list);
    let hosts = patched.resource["virtualHosts"].as_array().unwrap();
    let names: Vec<&Value> = hosts.iter().map(|host| &host["name"]).collect();
    assert_eq!(names, ["a.test:80", "b"]);
    assert_eq!(patched.issues.len(), 2);
    assert_eq!(patched.issues[0].at, "spec.configPatches[1]");

    let remove = "- {applyTo: VIRTUAL_HOST, match: {routeConfiguration: {vhost: {name: 'a.test:80'}}}, patch: {operation: REMOVE}}\n";
    let patched = on_routes(&base_routes(), &(remove.to_owned() + &add("e", "a.test")));
    assert_eq!(
        patched.resource["virtualHosts"],
        json!([{"name": "e", "domains": ["a.test"]}])
    );
}

#[test]
fn when_domains_clash_routes_keep_their_patches() {
    let list = "- {applyTo: VIRTUAL_HOST, patch: {operation: MERGE, value: {domains: [a.test]}}}\n\
                - {applyTo: HTTP_ROUTE, patch: {operation: MERGE, value: {stat_prefix: p}}}\n";
    let patched = on_routes(&base_routes(), list);
    let host = &patched.resource["virtualHosts"][0];
    assert_eq!(host["domains"], json!(["a.test"]));
    assert_eq!(host["routes"][0]["statPrefix"], "p");
    assert_eq!(patched.issues.len(), 1);
}

const HCM: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const CORS: &str = "type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";

fn chain(sni: &str) -> Value {
    json!({
        "filterChainMatch": {"serverNames": [sni]},
        "transportSocket": {"name": "t", "typedConfig": {
            "@type": "type.googleapis.com/envoy.config.core.v3.HeaderValue", "key": "k", "value": sni
        }},
        "filters": [{"name": "envoy.filters.network.http_connection_manager", "typedConfig": {
            "@type": HCM, "statPrefix": "s", "useRemoteAddress": true,
            "httpFilters": [
                {"name": "isthmus.scope.80", "configDiscovery": {"typeUrls": ["x"]}},
                {"name": "envoy.filters.http.cors", "typedConfig": {"@type": CORS}},
                {"name": "envoy.filters.http.router", "typedConfig": {"@type": ROUTER}}
            ]
        }}]
    })
}

fn base_listener() -> Value {
    json!({
        "name": "0.0.0.0_80",
        "listenerFilters": [{"name": "envoy.filters.listener.tls_inspector"}],
        "filterChains": [chain("a"), chain("b")]
    })
}

fn http_filters(listener: &Value, chain: usize) -> Vec<&str> {
    let manager = &listener["filterChains"][chain]["filters"][0]["typedConfig"];
    let filters = manager["httpFilters"].as_array().unwrap();
    filters
        .iter()
        .map(|filter| filter["name"].as_str().unwrap().rsplit('.').next().unwrap())
        .collect()
}

fn filter_patch(apply_to: &str, wanted: &str, patch: &str) -> String {
    format!(
        "- {{applyTo: {apply_to}, match: {{context: GATEWAY, listener: {{{wanted}}}}}, patch: {{{patch}}}}}\n"
    )
}

const INSIDE: &str = "filterChain: {filter: {name: envoy.filters.network.http_connection_manager, subFilter: {name: SUB}}}";
const BUFFER: &str = "value: {name: x.new, disabled: true, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer, max_request_bytes: 9}}";

#[rstest]
#[case("", "ADD", &["80", "cors", "new", "router"])]
#[case("", "INSERT_FIRST", &["80", "new", "cors", "router"])]
#[case("", "INSERT_BEFORE", &["80", "new", "cors", "router"])]
#[case("", "INSERT_AFTER", &["80", "cors", "new", "router"])]
#[case("envoy.filters.http.router", "INSERT_BEFORE", &["80", "cors", "new", "router"])]
#[case("envoy.router", "INSERT_BEFORE", &["80", "cors", "new", "router"])]
#[case("envoy.filters.http.router", "INSERT_AFTER", &["80", "cors", "new", "router"])]
#[case("envoy.filters.http.router", "INSERT_FIRST", &["80", "new", "cors", "router"])]
#[case("envoy.filters.http.fault", "INSERT_BEFORE", &["80", "cors", "router"])]
#[case("envoy.filters.http.cors", "REPLACE", &["80", "new", "router"])]
#[case("envoy.filters.http.cors", "REMOVE", &["80", "router"])]
fn http_filters_are_put_in(#[case] sub: &str, #[case] operation: &str, #[case] expected: &[&str]) {
    let wanted = if sub.is_empty() {
        String::new()
    } else {
        INSIDE.replace("SUB", sub)
    };
    let patch = filter_patch(
        "HTTP_FILTER",
        &wanted,
        &format!("operation: {operation}, {BUFFER}"),
    );
    let patched = on_listener(&base_listener(), &patch);
    let listener = patched.resource.unwrap();
    assert_eq!(http_filters(&listener, 0), expected);
    assert_eq!(http_filters(&listener, 1), expected);
    assert_eq!(patched.issues, []);
}

#[test]
fn a_filter_that_is_off_asks_the_route() {
    let list = filter_patch(
        "HTTP_FILTER",
        "",
        &format!("operation: INSERT_FIRST, {BUFFER}"),
    ) + &filter_patch(
        "HTTP_FILTER",
        &INSIDE.replace("SUB", "envoy.filters.http.cors"),
        "operation: MERGE, value: {disabled: true}",
    ) + &filter_patch(
        "HTTP_FILTER",
        "",
        "operation: ADD, value: {name: d, disabled: true, config_discovery: {}}",
    );
    let patched = on_listener(&base_listener(), &list);
    let listener = patched.resource.unwrap();
    assert_eq!(http_filters(&listener, 0), ["80", "new", "cors", "router"]);
    let filters = &listener["filterChains"][0]["filters"][0]["typedConfig"]["httpFilters"];
    let inside = &filters[1]["typedConfig"]["extensionConfig"];
    assert_eq!(inside["name"], "x.new");
    assert_eq!(inside["typedConfig"]["maxRequestBytes"], 9);
    for filter in filters.as_array().unwrap() {
        assert_eq!(filter.get("disabled"), None, "{filter}");
    }
    assert_eq!(patched.issues.len(), 1, "settings that are discovered");
}

#[test]
fn a_filter_that_is_moved_is_there_once() {
    let cors = INSIDE.replace("SUB", "envoy.filters.http.cors");
    let value = "value: {name: envoy.filters.http.cors, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors}}";
    let list = filter_patch("HTTP_FILTER", &cors, "operation: REMOVE")
        + &filter_patch("HTTP_FILTER", "", &format!("operation: ADD, {BUFFER}"))
        + &filter_patch("HTTP_FILTER", "", &format!("operation: ADD, {value}"));
    let listener = on_listener(&base_listener(), &list).resource.unwrap();
    assert_eq!(http_filters(&listener, 0), ["80", "new", "cors", "router"]);
}

#[test]
fn the_router_stays() {
    let router = INSIDE.replace("SUB", "envoy.filters.http.router");
    let patched = on_listener(
        &base_listener(),
        &filter_patch("HTTP_FILTER", &router, "operation: REMOVE"),
    );
    assert_eq!(patched.resource, Some(base_listener()));
    assert_eq!(patched.issues.len(), 1);
}

#[test]
fn conditions_choose_a_chain_and_settings_are_merged() {
    let manager = "{statPrefix: t, useRemoteAddress: false, '@type': HCM}".replace("HCM", HCM);
    let list = filter_patch(
        "NETWORK_FILTER",
        "portNumber: 80, filterChain: {sni: b, filter: {name: envoy.filters.network.http_connection_manager}}",
        &format!("operation: MERGE, value: {{typed_config: {manager}}}"),
    ) + &filter_patch(
        "FILTER_CHAIN",
        "filterChain: {sni: a}",
        "operation: MERGE, value: {name: first, transport_socket: {name: t, typed_config: {'@type': type.googleapis.com/envoy.config.core.v3.HeaderValue, key: other}}}",
    );
    let listener = on_listener(&base_listener(), &list).resource.unwrap();
    let manager = |at: usize| &listener["filterChains"][at]["filters"][0]["typedConfig"];
    assert_eq!(
        (&manager(0)["statPrefix"], &manager(1)["statPrefix"]),
        (&json!("s"), &json!("t"))
    );
    assert_eq!(manager(0)["useRemoteAddress"], true);
    assert_eq!(manager(1)["useRemoteAddress"], false);
    assert_eq!(http_filters(&listener, 1), ["80", "cors", "router"]);
    let socket = &listener["filterChains"][0]["transportSocket"]["typedConfig"];
    assert_eq!(
        (&socket["key"], &socket["value"]),
        (&json!("other"), &json!("a"))
    );
    assert_eq!(listener["filterChains"][0]["name"], "first");
}

#[test]
fn settings_of_another_type_are_refused_and_told() {
    let cors = INSIDE.replace("SUB", "envoy.filters.http.cors");
    let patch = filter_patch(
        "HTTP_FILTER",
        &cors,
        "operation: MERGE, value: {disabled: true, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer}}",
    );
    let patched = on_listener(&base_listener(), &patch);
    assert_eq!(patched.resource, Some(base_listener()));
    assert_eq!(patched.issues.len(), 1, "told once for equal chains");
    assert!(patched.issues[0].message.contains("buffer.v3.Buffer"));
}

#[test]
fn listeners_and_their_filters() {
    let list = filter_patch(
        "LISTENER",
        "name: 0.0.0.0_80",
        "operation: MERGE, value: {name: n, per_connection_buffer_limit_bytes: 7}",
    ) + &filter_patch("LISTENER", "portNumber: 81", "operation: REMOVE")
        + &filter_patch(
            "LISTENER_FILTER",
            "listenerFilter: envoy.filters.listener.tls_inspector",
            "operation: INSERT_BEFORE, value: {name: p}",
        )
        + &filter_patch("FILTER_CHAIN", "filterChain: {sni: b}", "operation: REMOVE")
        + &filter_patch(
            "FILTER_CHAIN",
            "",
            "operation: ADD, value: {name: c, filters: [{name: f}]}",
        )
        + &filter_patch(
            "NETWORK_FILTER",
            "filterChain: {sni: a}",
            "operation: ADD, value: {name: g}",
        );
    let listener = on_listener(&base_listener(), &list).resource.unwrap();
    assert_eq!(listener["name"], "0.0.0.0_80");
    assert_eq!(listener["perConnectionBufferLimitBytes"], 7);
    assert_eq!(listener["listenerFilters"][0]["name"], "p");
    assert_eq!(listener["filterChains"].as_array().unwrap().len(), 2);
    assert_eq!(
        listener["filterChains"][0]["filters"][0]["name"], "g",
        "the last one is terminal"
    );
    assert_eq!(listener["filterChains"][1]["name"], "c");

    let gone = filter_patch("LISTENER", "portNumber: 80", "operation: REMOVE");
    assert_eq!(on_listener(&base_listener(), &gone).resource, None);
    let empty = filter_patch("FILTER_CHAIN", "", "operation: REMOVE");
    assert_eq!(on_listener(&base_listener(), &empty).resource, None);
}

#[test]
fn clusters() {
    let base = json!({"name": "outbound|80|v1|a.b", "type": "EDS", "connectTimeout": "10s"});
    let site = ClusterSite {
        name: "outbound|80|v1|a.b",
        hostname: "a.b",
        port: 80,
        subset: "v1",
    };
    let on = |wanted: &str, patch: &str| {
        let all = patches(&format!(
            "- {{applyTo: CLUSTER, match: {{cluster: {{{wanted}}}}}, patch: {{{patch}}}}}\n"
        ));
        let all: Vec<&Patch> = all.iter().map(|patch| &**patch).collect();
        let patched = cluster(site, encode(types::CLUSTER, &base), &all).resource;
        patched.map(|bytes| decode(types::CLUSTER, &bytes))
    };
    let merge =
        "operation: MERGE, value: {name: x, connect_timeout: 0.250s, cluster_type: {name: t}}";
    let merged = json!({"name": "outbound|80|v1|a.b", "clusterType": {"name": "t"}, "connectTimeout": "0.250s"});
    for wanted in [
        "",
        "name: 'outbound|80|v1|a.b', portNumber: 9",
        "service: A.b, portNumber: 80, subset: v1",
    ] {
        assert_eq!(on(wanted, merge), Some(merged.clone()), "{wanted}");
        assert_eq!(on(wanted, "operation: REMOVE"), None);
    }
    for wanted in ["name: other", "service: b", "portNumber: 81", "subset: v2"] {
        assert_eq!(on(wanted, merge), Some(base.clone()), "{wanted}");
    }
}
