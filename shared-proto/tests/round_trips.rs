//! Properties of the envelope and the JSON codec over random configs.

#![allow(clippy::panic)]

use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};
use shared_proto::networking::v1alpha3::{EnvoyFilter, Gateway, VirtualService};
use shared_proto::{Config, Meta, Spec, mcp};

/// Free JSON as users put it into patches and plugin settings.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        (-1e9..1e9).prop_map(|number: f64| json!(number)),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(".{0,6}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn any_spec() -> impl Strategy<Value = Spec> {
    let hosts = || vec("[a-z*.]{1,12}", 0..4);
    let seconds = prop::option::of((0..100_000_i64, 0..1_000_000_000_i32));
    let virtual_service = (hosts(), seconds, any::<i32>(), any::<u32>()).prop_map(
        |(hosts, timeout, weight, port)| {
            let mut route = json!({
                "route": [{"destination": {"host": "a", "port": {"number": port}}, "weight": weight}]
            });
            if let Some((seconds, nanos)) = timeout {
                route["timeout"] = format!("{seconds}.{nanos:09}s").into();
            }
            spec::<VirtualService>(json!({ "hosts": hosts, "http": [route] }))
        },
    );
    let gateway = btree_map("[a-z]{1,5}", ".{0,5}", 0..4)
        .prop_map(|selector| spec::<Gateway>(json!({ "selector": selector })));
    let filter = btree_map(".{0,6}", any_json(), 0..5).prop_map(|value| {
        let patch = json!({ "operation": "MERGE", "value": value });
        spec::<EnvoyFilter>(json!({ "configPatches": [{ "applyTo": "CLUSTER", "patch": patch }] }))
    });
    prop_oneof![virtual_service, gateway, filter]
}

fn spec<T: shared_proto::SpecMessage>(json: Value) -> Spec {
    Spec::from_json(T::KIND, &json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

fn any_config() -> impl Strategy<Value = Config> {
    let strings = || btree_map("[a-z./]{1,8}", ".{0,8}", 0..4);
    let name = "[a-z0-9.-]{1,20}";
    // The years that RFC 3339 can express.
    let created = prop::option::of(-62_135_596_799_i64..253_402_300_799);
    let extra = prop::option::of(vec(any::<u8>(), 0..16));
    (name, name, strings(), strings(), created, extra, any_spec()).prop_map(
        |(namespace, name, labels, annotations, created, extra, spec)| Config {
            meta: Meta {
                labels,
                annotations,
                created,
                extra: extra.map(Bytes::from),
                ..Meta::new(namespace, name)
            },
            spec,
        },
    )
}

proptest! {
    #[test]
    fn envelope_keeps_everything(config in any_config()) {
        let (name, bytes) = mcp::encode(&config);
        prop_assert_eq!(name, format!("{}/{}", config.meta.namespace, config.meta.name));
        let resource = mcp::decode(bytes.clone())?;
        prop_assert_eq!(resource.kind(), Some(config.kind()));
        let back = resource.to_config()?;
        prop_assert_eq!(&back, &config);
        prop_assert_eq!(mcp::encode(&back).1, bytes);
    }

    #[test]
    fn manifest_keeps_all_but_extra(mut config in any_config()) {
        let json = config.to_json();
        config.meta.extra = None;
        prop_assert_eq!(&Config::from_json(&json)?, &config);
        prop_assert_eq!(&Config::from_yaml(&config.to_yaml()?)?, &config);
    }

    #[test]
    fn bytes_that_are_no_envelope_do_no_harm(bytes in vec(any::<u8>(), 0..64)) {
        if let Ok(resource) = mcp::decode(Bytes::from(bytes)) {
            drop(resource.to_config());
        }
    }
}
