//! The value of a patch: JSON of an Envoy message, encoded.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use shared_proto::envoy::{self, UnknownFields};
use shared_proto::well_known::Struct;

use super::read::Wrong;
use super::{ApplyTo, Operation, rules};
use crate::model::change::NamespacedName;
use crate::model::cluster_name::parse_cluster_name;
use crate::model::config::PortGiven;

/// Beginnings of names that only generated resources have.
const RESERVED: [(ApplyTo, &str); 3] = [
    (ApplyTo::Cluster, "outbound|"),
    (ApplyTo::Cluster, "fallback|"),
    (ApplyTo::ExtensionConfig, "isthmus."),
];

/// What a value is read from.
pub(super) struct Input<'a> {
    pub(super) owner: &'a NamespacedName,
    pub(super) at: usize,
    pub(super) apply_to: ApplyTo,
    pub(super) operation: Operation,
    pub(super) given: Option<&'a Struct>,
}

/// A value that was read.
#[derive(Default)]
pub(super) struct Read {
    pub(super) name: Arc<str>,
    pub(super) encoded: Bytes,
    pub(super) destinations: Vec<(Arc<str>, PortGiven)>,
}

pub(super) fn read(input: &Input<'_>) -> Result<Read, Wrong> {
    let at = |member: &str| format!(".patch.value{member}");
    if input.operation == Operation::Remove {
        return Ok(Read::default());
    }
    let Some(Value::Object(mut json)) = input.given.map(Struct::to_json) else {
        return Err((at(""), "is missing".to_owned()));
    };
    let merges = matches!(
        input.operation,
        Operation::Merge | Operation::MergeAndReplaceList
    );
    let name = json.get("name").and_then(Value::as_str).unwrap_or_default();
    let name: Arc<str> = name.into();
    if !merges {
        check(input.apply_to, &json, &name).map_err(|(member, text)| (at(member), text))?;
    }
    name_routes(input, &mut json, !merges);
    let json = Value::Object(json);
    // Not reached without a message: operations are checked before.
    let message = rules::message(input.apply_to).unwrap_or_default();
    let encoded = envoy::json_to_message(message, &json, UnknownFields::Skip);
    let encoded = encoded.map_err(|error| (at(""), error.to_string()))?;
    let mut destinations = Vec::new();
    collect(&json, &mut destinations);
    Ok(Read {
        name,
        encoded: encoded.into(),
        destinations,
    })
}

/// What Envoy would refuse the whole resource for.
fn check(
    apply_to: ApplyTo,
    json: &Map<String, Value>,
    name: &str,
) -> Result<(), (&'static str, String)> {
    for required in rules::required(apply_to) {
        if !member(json, required).is_some_and(is_filled) {
            return Err(("", format!("has no {required}")));
        }
    }
    for (reserved, prefix) in RESERVED {
        if reserved == apply_to && name.starts_with(prefix) {
            let text = format!("begins with {prefix:?} as generated names do; choose another one");
            return Err((".name", text));
        }
    }
    Ok(())
}

fn is_filled(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

/// A member under either spelling of its name.
fn member<'a>(json: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    json.get(name).or_else(|| json.get(&camel_case(name)))
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut result = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(word.len().min(1));
        result += &first.to_ascii_uppercase();
        result += rest;
    }
    result
}

/// Every route has a name: a request without a route name is one that matched nothing, and other scopes are tried for it.
fn name_routes(input: &Input<'_>, json: &mut Map<String, Value>, whole: bool) {
    let name = format!("{}/{}", input.owner, input.at);
    match input.apply_to {
        ApplyTo::HttpRoute if whole => name_route(json, &name),
        ApplyTo::VirtualHost => name_routes_of(json, &name),
        ApplyTo::RouteConfiguration => {
            for key in ["virtual_hosts", "virtualHosts"] {
                objects(json, key, |host| name_routes_of(host, &name));
            }
        }
        _ => {}
    }
}

fn name_routes_of(host: &mut Map<String, Value>, name: &str) {
    objects(host, "routes", |route| name_route(route, name));
}

fn name_route(route: &mut Map<String, Value>, name: &str) {
    if !route.get("name").is_some_and(is_filled) {
        route.insert("name".to_owned(), name.into());
    }
}

fn objects(
    json: &mut Map<String, Value>,
    key: &str,
    mut each: impl FnMut(&mut Map<String, Value>),
) {
    let items = json.get_mut(key).and_then(Value::as_array_mut);
    let objects = items.into_iter().flatten().filter_map(Value::as_object_mut);
    objects.for_each(&mut each);
}

/// The services behind all cluster names in a value.
fn collect(json: &Value, found: &mut Vec<(Arc<str>, PortGiven)>) {
    match json {
        Value::String(text) => {
            if let Some((port, _, host)) = parse_cluster_name(text) {
                found.push((host.to_ascii_lowercase().into(), port));
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(members) => members.values().for_each(|item| collect(item, found)),
        _ => {}
    }
}
