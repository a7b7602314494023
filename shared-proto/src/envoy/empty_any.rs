//! An `Any` without content, which has no JSON form that the codec takes.
//!
//! There is one that means something: `config: {}` in a `FilterConfig` switches a filter on for a route. In JSON it is
//! replaced by a mark that the codec takes, and in the message the mark is taken out again.

use prost_reflect::{DynamicMessage, ReflectMessage, Value};
use serde_json::{Value as Json, json};

use super::canonical;

const FILTER_CONFIG: &str = "envoy.config.route.v3.FilterConfig";

/// A type of Envoy's API without members, that is no setting of any filter.
const MARK: &str = "type.googleapis.com/envoy.config.core.v3.AggregatedConfigSource";

/// The JSON with marks; `None` when there is nothing to mark.
pub(super) fn marked(json: &Json) -> Option<Json> {
    if !has_empty(json) {
        return None;
    }
    let mut marked = json.clone();
    mark(&mut marked);
    Some(marked)
}

fn is_empty_config(json: &Json) -> bool {
    let of_type = json["@type"].as_str().map(super::type_name);
    of_type == Some(FILTER_CONFIG) && json["config"] == json!({})
}

fn has_empty(json: &Json) -> bool {
    match json {
        Json::Array(items) => items.iter().any(has_empty),
        Json::Object(members) => is_empty_config(json) || members.values().any(has_empty),
        _ => false,
    }
}

fn mark(json: &mut Json) {
    if is_empty_config(json) {
        json["config"] = json!({ "@type": MARK });
    }
    match json {
        Json::Array(items) => items.iter_mut().for_each(mark),
        Json::Object(members) => members.values_mut().for_each(mark),
        _ => {}
    }
}

/// Empties what was marked, also inside of `Any`.
pub(super) fn unmark(message: &mut DynamicMessage) {
    if message.descriptor().full_name() == "google.protobuf.Any" {
        unmark_any(message);
        return;
    }
    for (_, value) in message.fields_mut() {
        match value {
            Value::Message(inner) => unmark(inner),
            Value::List(items) => items.iter_mut().for_each(unmark_value),
            Value::Map(map) => map.values_mut().for_each(unmark_value),
            _ => {}
        }
    }
}

fn unmark_value(value: &mut Value) {
    if let Value::Message(inner) = value {
        unmark(inner);
    }
}

fn unmark_any(any: &mut DynamicMessage) {
    let url = any.get_field_by_number(1);
    let url = url.and_then(|url| url.as_str().map(str::to_owned));
    let url = url.unwrap_or_default();
    if url == MARK {
        any.clear_field_by_number(1);
        any.clear_field_by_number(2);
        return;
    }
    let value = any.get_field_by_number(2);
    let value = value.and_then(|value| value.as_bytes().cloned());
    let content = super::decode(super::type_name(&url), &value.unwrap_or_default());
    if let Ok(mut content) = content {
        unmark(&mut content);
        any.set_field_by_number(2, Value::Bytes(canonical::encode(&content).into()));
    }
}
