//! Makes a message printable when it holds an `Any` of a type that nobody described.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use prost_reflect::{DynamicMessage, ReflectMessage, Value};
use serde_json::json;

use crate::well_known::Struct;

/// Replaces the content of every unreadable `Any` by a `Struct` that tells the type and the bytes in base64.
pub(super) fn hide_unknown(message: &mut DynamicMessage) {
    if message.descriptor().full_name() == "google.protobuf.Any" {
        hide_in_any(message);
        return;
    }
    for (_, value) in message.fields_mut() {
        hide_in_value(value);
    }
}

fn hide_in_value(value: &mut Value) {
    match value {
        Value::Message(inner) => hide_unknown(inner),
        Value::List(items) => items.iter_mut().for_each(hide_in_value),
        Value::Map(map) => map.values_mut().for_each(hide_in_value),
        _ => {}
    }
}

fn hide_in_any(any: &mut DynamicMessage) {
    let url = any
        .get_field_by_number(1)
        .and_then(|v| v.as_str().map(str::to_owned));
    let value = any
        .get_field_by_number(2)
        .and_then(|v| v.as_bytes().cloned());
    let (url, value) = (url.unwrap_or_default(), value.unwrap_or_default());
    let (url, content) = match super::decode(super::type_name(&url), &value) {
        Ok(mut content) => {
            hide_unknown(&mut content);
            (url, content.encode_to_vec())
        }
        Err(_) => {
            let shown = json!({ "unreadableType": url, "bytes": STANDARD.encode(&value) });
            let shown = Struct::from_json(shown).unwrap_or_default();
            let url = "type.googleapis.com/google.protobuf.Struct".to_owned();
            (url, shown.encode_to_vec())
        }
    };
    any.set_field_by_number(1, Value::String(url));
    any.set_field_by_number(2, Value::Bytes(content.into()));
}
