//! Envoy messages as JSON values.

use serde_json::{Value, json};

/// An Envoy message for a place that takes any: `package` and `name` are those of its proto definition.
pub(crate) fn message(name: &str, fields: Value) -> Value {
    let mut value = fields;
    if let Some(members) = value.as_object_mut() {
        let url = format!("type.googleapis.com/{name}");
        members.insert("@type".to_owned(), Value::String(url));
    }
    value
}

/// `envoy.config.core.v3.TypedExtensionConfig`.
pub(crate) fn typed_extension(name: &str, config: Value) -> Value {
    json!({"name": name, "typed_config": config})
}

/// `envoy.config.core.v3.DataSource` with a text.
pub(crate) fn inline(text: &str) -> Value {
    json!({"inline_string": text})
}

/// `envoy.type.matcher.v3.ListStringMatcher` of header names, in any letter case.
pub(crate) fn names<'a>(all: impl IntoIterator<Item = &'a str>) -> Value {
    let one = |name: &str| json!({"exact": name, "ignore_case": true});
    json!({"patterns": all.into_iter().map(one).collect::<Vec<_>>()})
}
