//! Envoy's API by description: protobuf to JSON and back for messages that are known by name only.
//!
//! Used where no compiled type can be: EnvoyFilter patches that users give as JSON, and debug dumps. The descriptor set
//! comes from the crate `envoy-types` (`scripts/gen-envoy-descriptors`).

mod canonical;
mod empty_any;
mod opaque;

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, ReflectMessage,
    SerializeOptions,
};
use serde_json::Value;

use crate::well_known::number_to_json;

pub use canonical::encode as encode_canonical;

static DESCRIPTORS: &[u8] = include_bytes!("../../data/envoy-descriptors.binpb");

/// What went wrong between JSON and a message.
#[derive(Debug, thiserror::Error)]
pub enum EnvoyError {
    /// The descriptor set has no such message.
    #[error("unknown message type {0:?}")]
    UnknownType(String),
    /// The bytes are no message of the type.
    #[error("{name}: {source}")]
    Decode {
        /// Full name of the type.
        name: String,
        /// Why.
        source: prost::DecodeError,
    },
    /// The JSON does not fit the type, or the message cannot be expressed in JSON.
    #[error("{name}: {source}")]
    Json {
        /// Full name of the type.
        name: String,
        /// Where and why.
        source: serde_json::Error,
    },
    /// `@type` is missing or no string.
    #[error("no \"@type\" in the object")]
    NoType,
}

/// What to do with JSON members that the message does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFields {
    /// Refuse the object.
    Deny,
    /// Leave them out.
    Skip,
}

/// Descriptors of Envoy's API and all it refers to; decoded at the first call.
#[must_use]
pub fn pool() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        #[allow(clippy::expect_used)]
        DescriptorPool::decode(DESCRIPTORS).expect("checked in; a unit test decodes it")
    });
    &POOL
}

/// Full name of the message that a type URL names.
#[must_use]
pub fn type_name(type_url: &str) -> &str {
    type_url.rsplit_once('/').map_or(type_url, |(_, name)| name)
}

/// Descriptor of a message by its full name, for example `envoy.config.listener.v3.Listener`.
///
/// # Errors
/// When there is no such message.
pub fn descriptor(name: &str) -> Result<MessageDescriptor, EnvoyError> {
    pool()
        .get_message_by_name(name)
        .ok_or_else(|| EnvoyError::UnknownType(name.to_owned()))
}

/// Decodes a message by its full name.
///
/// # Errors
/// When there is no such message or the bytes are none.
pub fn decode(name: &str, bytes: &[u8]) -> Result<DynamicMessage, EnvoyError> {
    DynamicMessage::decode(descriptor(name)?, bytes).map_err(|source| EnvoyError::Decode {
        name: name.to_owned(),
        source,
    })
}

/// An encoded message as JSON. A nested `Any` is expanded; one of unknown type is shown as a `Struct` that
/// tells the type and the bytes.
///
/// # Errors
/// When there is no such message or the bytes are none.
pub fn message_to_json(name: &str, bytes: &[u8]) -> Result<Value, EnvoyError> {
    let mut message = decode(name, bytes)?;
    to_json(&message).or_else(|_| {
        opaque::hide_unknown(&mut message);
        to_json(&message)
    })
}

/// The content of an `Any` as JSON, with its type as `@type`.
///
/// # Errors
/// When the type is unknown or the bytes are no message of it.
pub fn any_to_json(type_url: &str, value: &[u8]) -> Result<Value, EnvoyError> {
    let content = message_to_json(type_name(type_url), value)?;
    let mut object = serde_json::Map::new();
    object.insert("@type".into(), type_url.into());
    match content {
        Value::Object(members) => object.extend(members),
        // Well-known types such as Duration have a JSON form that is no object.
        other => drop(object.insert("value".into(), other)),
    }
    Ok(Value::Object(object))
}

/// Encodes JSON as a message. Both spellings of field names are accepted; equal JSON gives equal bytes.
///
/// # Errors
/// When there is no such message or the JSON does not fit.
pub fn json_to_message(
    name: &str,
    json: &Value,
    unknown: UnknownFields,
) -> Result<Vec<u8>, EnvoyError> {
    let options = DeserializeOptions::new().deny_unknown_fields(unknown == UnknownFields::Deny);
    let marked = empty_any::marked(json);
    let source = marked.as_ref().unwrap_or(json);
    DynamicMessage::deserialize_with_options(descriptor(name)?, source, &options)
        .map(|mut message| {
            if marked.is_some() {
                empty_any::unmark(&mut message);
            }
            canonical::encode(&message)
        })
        .map_err(|source| EnvoyError::Json {
            name: name.to_owned(),
            source,
        })
}

/// Encodes a JSON object with `@type` as an `Any`: type URL and encoded message.
///
/// # Errors
/// When the type is missing or unknown, or the JSON does not fit.
pub fn json_to_any(json: &Value, unknown: UnknownFields) -> Result<(String, Vec<u8>), EnvoyError> {
    let bytes =
        json_to_message("google.protobuf.Any", json, unknown).map_err(
            |error| match json["@type"].as_str() {
                None => EnvoyError::NoType,
                Some(url) if descriptor(type_name(url)).is_err() => {
                    EnvoyError::UnknownType(type_name(url).to_owned())
                }
                Some(_) => error,
            },
        )?;
    let any = pbjson_types::Any::decode(bytes.as_slice()).map_err(|source| EnvoyError::Decode {
        name: "google.protobuf.Any".to_owned(),
        source,
    })?;
    if any.type_url.is_empty() {
        return Err(EnvoyError::NoType);
    }
    Ok((any.type_url, any.value.to_vec()))
}

fn to_json(message: &DynamicMessage) -> Result<Value, EnvoyError> {
    message
        .serialize_with_options(serde_json::value::Serializer, &SerializeOptions::new())
        .map(|mut json| {
            shorten_numbers(&mut json);
            json
        })
        .map_err(|source| EnvoyError::Json {
            name: message.descriptor().full_name().to_owned(),
            source,
        })
}

/// Prints whole doubles as whole numbers, as other protobuf-JSON printers do.
fn shorten_numbers(json: &mut Value) {
    match json {
        Value::Number(number) if number.is_f64() => {
            if let Some(double) = number.as_f64() {
                *json = number_to_json(double);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(shorten_numbers),
        Value::Object(members) => members.values_mut().for_each(shorten_numbers),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
