//! Deterministic encoding of dynamic messages: map entries in the order of their keys, also inside `Any`.

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{DynamicMessage, FieldDescriptor, MapKey, ReflectMessage, Value};

/// Encodes a message; equal messages give equal bytes.
#[must_use]
pub fn encode(message: &DynamicMessage) -> Vec<u8> {
    let mut out = Vec::new();
    let any = if message.descriptor().full_name() == "google.protobuf.Any" {
        canonical_any(message)
    } else {
        None
    };
    for (field, value) in any.as_ref().unwrap_or(message).fields() {
        encode_field(message, &field, value, &mut out);
    }
    out.extend(unknown_fields(message));
    out
}

fn encode_field(
    parent: &DynamicMessage,
    field: &FieldDescriptor,
    value: &Value,
    out: &mut Vec<u8>,
) {
    match value {
        Value::Message(inner) if !field.is_group() => put(field.number(), &encode(inner), out),
        Value::List(items) if items.iter().all(|item| item.as_message().is_some()) => {
            for inner in items.iter().filter_map(Value::as_message) {
                put(field.number(), &encode(inner), out);
            }
        }
        Value::Map(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|&(key, _)| key);
            for (key, value) in entries {
                if let Some(entry) = map_entry(field, key, value) {
                    put(field.number(), &encode(&entry), out);
                }
            }
        }
        scalar => {
            let mut only = DynamicMessage::new(parent.descriptor());
            only.set_field(field, scalar.clone());
            out.extend(only.encode_to_vec());
        }
    }
}

/// A map entry as the message it is on the wire.
fn map_entry(field: &FieldDescriptor, key: &MapKey, value: &Value) -> Option<DynamicMessage> {
    let kind = field.kind();
    let mut entry = DynamicMessage::new(kind.as_message()?.clone());
    entry.set_field_by_number(1, key.clone().into());
    entry.set_field_by_number(2, value.clone());
    Some(entry)
}

/// The same `Any` with its content encoded canonically; `None` when its type is not known.
fn canonical_any(any: &DynamicMessage) -> Option<DynamicMessage> {
    let url = any.get_field_by_number(1)?;
    let value = any.get_field_by_number(2)?;
    let content = super::decode(super::type_name(url.as_str()?), value.as_bytes()?).ok()?;
    let mut canonical = any.clone();
    canonical.set_field_by_number(2, Value::Bytes(encode(&content).into()));
    Some(canonical)
}

/// Fields that the descriptor does not know, as they came.
fn unknown_fields(message: &DynamicMessage) -> Vec<u8> {
    let mut out = Vec::new();
    for field in message.unknown_fields() {
        field.encode(&mut out);
    }
    out
}

fn put(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
