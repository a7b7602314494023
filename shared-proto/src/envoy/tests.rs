use pbjson_types::Any;
use serde_json::json;

use super::*;

const LISTENER: &str = "envoy.config.listener.v3.Listener";
const HCM: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

fn listener() -> Value {
    json!({
        "name": "0.0.0.0_80",
        "address": {"socketAddress": {"address": "0.0.0.0", "portValue": 80}},
        "filterChains": [{
            "filters": [{
                "name": "envoy.filters.network.http_connection_manager",
                "typedConfig": {
                    "@type": HCM,
                    "statPrefix": "outbound_0.0.0.0_80",
                    "streamIdleTimeout": "0s",
                    "httpFilters": [{
                        "name": "envoy.filters.http.lua",
                        "typedConfig": {
                            "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
                            "defaultSourceCode": {"inlineString": "-- nothing"}
                        }
                    }, {
                        "name": "envoy.filters.http.router",
                        "typedConfig": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}
                    }]
                }
            }]
        }]
    })
}

#[test]
fn listener_with_http_connection_manager_and_back() {
    let bytes = json_to_message(LISTENER, &listener(), UnknownFields::Deny).unwrap();
    assert_eq!(message_to_json(LISTENER, &bytes).unwrap(), listener());
    let any = any_to_json(&format!("type.googleapis.com/{LISTENER}"), &bytes).unwrap();
    assert_eq!(any["@type"], format!("type.googleapis.com/{LISTENER}"));
    let (url, again) = json_to_any(&any, UnknownFields::Deny).unwrap();
    assert_eq!(type_name(&url), LISTENER);
    assert_eq!(again, bytes);
}

#[test]
fn what_the_pilot_needs_is_described() {
    for name in [
        "envoy.admin.v3.ConfigDump",
        "envoy.config.bootstrap.v3.Bootstrap",
        "envoy.config.cluster.v3.Cluster",
        "envoy.config.core.v3.TypedExtensionConfig",
        "envoy.config.endpoint.v3.ClusterLoadAssignment",
        "envoy.config.route.v3.RouteConfiguration",
        "envoy.config.route.v3.ScopedRouteConfiguration",
        "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
        "envoy.extensions.filters.http.on_demand.v3.OnDemand",
        "envoy.extensions.filters.http.wasm.v3.Wasm",
        "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
        "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
        "envoy.extensions.transport_sockets.tls.v3.Secret",
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "envoy.service.discovery.v3.DeltaDiscoveryRequest",
        "envoy.service.status.v3.ClientConfig",
        "xds.type.v3.TypedStruct",
    ] {
        assert!(descriptor(name).is_ok(), "{name}");
    }
}

#[test]
fn equal_json_gives_equal_bytes() {
    let metadata: serde_json::Map<_, _> = (0..40)
        .map(|n| {
            (
                format!("key{n}"),
                json!({"a": 1, "b": {"c": [n], "d": "x"}}),
            )
        })
        .collect();
    let route = json!({
        "name": "r",
        "virtualHosts": [{
            "name": "v", "domains": ["*"],
            "metadata": {"filterMetadata": metadata},
            "typedPerFilterConfig": {
                "z": {"@type": "type.googleapis.com/google.protobuf.Struct", "value": {"q": 1, "p": 2}},
                "a": {"@type": HCM, "statPrefix": "s"}
            }
        }]
    });
    let name = "envoy.config.route.v3.RouteConfiguration";
    let first = json_to_message(name, &route, UnknownFields::Deny).unwrap();
    for _ in 0..10 {
        assert_eq!(
            json_to_message(name, &route, UnknownFields::Deny).unwrap(),
            first
        );
    }
    assert_eq!(message_to_json(name, &first).unwrap(), route);
}

#[test]
fn names_in_both_spellings_and_unknown_ones() {
    let json = json!({"name": "c", "connect_timeout": "5s", "newThing": 1});
    let name = "envoy.config.cluster.v3.Cluster";
    let error = json_to_message(name, &json, UnknownFields::Deny).unwrap_err();
    assert!(error.to_string().contains("newThing"), "{error}");
    let bytes = json_to_message(name, &json, UnknownFields::Skip).unwrap();
    let back = message_to_json(name, &bytes).unwrap();
    assert_eq!(back, json!({"name": "c", "connectTimeout": "5s"}));
}

#[test]
fn an_unknown_any_is_shown_not_refused() {
    let filter = json!({"name": "x"});
    let name = "envoy.config.listener.v3.Filter";
    let mut bytes = json_to_message(name, &filter, UnknownFields::Deny).unwrap();
    let any = Any {
        type_url: "type.googleapis.com/acme.Filter".into(),
        value: "hi".into(),
    };
    // Field 4 is typed_config.
    prost::encoding::message::encode(4, &any, &mut bytes);
    let shown = message_to_json(name, &bytes).unwrap();
    let content = &shown["typedConfig"]["value"];
    assert_eq!(content["unreadableType"], "type.googleapis.com/acme.Filter");
    assert_eq!(content["bytes"], "aGk=");
}

#[test]
fn mistakes_are_typed() {
    let deny = UnknownFields::Deny;
    assert!(matches!(
        json_to_any(&json!({"a": 1}), deny),
        Err(EnvoyError::NoType)
    ));
    assert!(matches!(
        json_to_any(&json!({}), deny),
        Err(EnvoyError::NoType)
    ));
    let unknown = json!({"@type": "type.googleapis.com/acme.X"});
    assert!(matches!(
        json_to_any(&unknown, deny),
        Err(EnvoyError::UnknownType(_))
    ));
    assert!(matches!(
        any_to_json("acme.X", b""),
        Err(EnvoyError::UnknownType(_))
    ));
    assert!(matches!(
        message_to_json(LISTENER, b"\xff"),
        Err(EnvoyError::Decode { .. })
    ));
    assert!(matches!(
        json_to_message(LISTENER, &json!([]), deny),
        Err(EnvoyError::Json { .. })
    ));
}

#[test]
fn well_known_content_is_wrapped() {
    let url = "type.googleapis.com/google.protobuf.Duration";
    let json = any_to_json(url, &[8, 5]).unwrap();
    assert_eq!(json, json!({"@type": url, "value": "5s"}));
    assert_eq!(
        json_to_any(&json, UnknownFields::Deny).unwrap(),
        (url.to_owned(), vec![8, 5])
    );
}

#[test]
fn a_filter_can_be_switched_on_without_settings() {
    let entry =
        json!({"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "config": {}});
    let route = json!({"name": "r", "typed_per_filter_config": {"f": entry}});
    let bytes =
        json_to_message("envoy.config.route.v3.Route", &route, UnknownFields::Deny).unwrap();
    let message = decode("envoy.config.route.v3.Route", &bytes).unwrap();
    let settings = message
        .get_field_by_name("typed_per_filter_config")
        .unwrap();
    let settings = settings.as_map().unwrap().values().next().unwrap().clone();
    let settings = settings
        .as_message()
        .unwrap()
        .get_field_by_name("value")
        .unwrap()
        .into_owned();
    // Field 1, present and empty.
    assert_eq!(settings.as_bytes().unwrap().as_ref(), [0x0a, 0]);
}
