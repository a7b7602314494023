//! Merging an encoded message into another one by the description of their type.
//!
//! As protobuf merges: what is set in the patch replaces single values, is added to lists and goes into maps by key;
//! messages are merged member by member. Otherwise than there, a value that stands for one thing (a duration, a wrapped
//! number, an `Any`) is replaced as a whole, and the settings of filters and transport sockets, which are in an `Any`, are
//! merged when both are of the same type.

use bytes::Bytes;
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use shared_proto::envoy;

use super::fields::{Field, Fields, Malformed};

/// Messages that stand for one value.
const WHOLE: [&str; 12] = [
    "google.protobuf.Any",
    "google.protobuf.BoolValue",
    "google.protobuf.BytesValue",
    "google.protobuf.DoubleValue",
    "google.protobuf.Duration",
    "google.protobuf.FloatValue",
    "google.protobuf.Int32Value",
    "google.protobuf.Int64Value",
    "google.protobuf.StringValue",
    "google.protobuf.Timestamp",
    "google.protobuf.UInt32Value",
    "google.protobuf.UInt64Value",
];

/// Messages whose `typed_config` is merged.
const WITH_SETTINGS: [&str; 3] = [
    "envoy.config.listener.v3.Filter",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter",
    TRANSPORT_SOCKET,
];

const TRANSPORT_SOCKET: &str = "envoy.config.core.v3.TransportSocket";

const TYPE_URL: u32 = 1;
const VALUE: u32 = 2;
/// `name` of all messages with settings.
const NAME: u32 = 1;

/// What becomes of a list that the patch has too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lists {
    /// The items of the patch are added.
    Append,
    /// The items of the patch replace those of the base.
    Replace,
}

/// Why two messages cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MergeError {
    /// One of them cannot be read.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Settings of a filter of another type.
    #[error("its settings are a {patch}, those of the filter a {base}")]
    OtherType { base: String, patch: String },
}

/// The base with the patch merged into it.
///
/// # Errors
/// When one of them is no message, or the settings of a filter are of two types.
pub(super) fn merge(
    message: &MessageDescriptor,
    base: &Bytes,
    patch: &Bytes,
    lists: Lists,
) -> Result<Bytes, MergeError> {
    let mut base = Fields::parse(base)?;
    let patch = Fields::parse(patch)?;
    let mut numbers: Vec<u32> = Vec::new();
    for field in patch.iter() {
        if !numbers.contains(&field.number) {
            numbers.push(field.number);
        }
    }
    for number in numbers {
        match message.get_field(number) {
            Some(field) => merge_field(&field, &mut base, &patch, lists)?,
            None => copy(number, &mut base, &patch),
        }
    }
    Ok(base.encode())
}

fn merge_field(
    field: &FieldDescriptor,
    base: &mut Fields,
    patch: &Fields,
    lists: Lists,
) -> Result<(), MergeError> {
    let number = field.number();
    for other in field.containing_oneof().iter().flat_map(|one| one.fields()) {
        if other.number() != number {
            base.remove(other.number());
        }
    }
    match field.kind() {
        _ if field.is_map() => {
            let keys = keys(patch, number)?;
            base.retain(|entry| {
                entry.number != number || key(&entry.value).is_ok_and(|key| !keys.contains(&key))
            });
            copy(number, base, patch);
        }
        _ if field.is_list() => {
            if lists == Lists::Replace {
                base.remove(number);
            }
            copy(number, base, patch);
        }
        Kind::Message(inner) => {
            let new = patch.message(number).unwrap_or_default();
            let merged = match base.message(number) {
                Some(old) => merge_inner(field, &inner, &old, new, lists)?,
                None => new,
            };
            base.set_list(number, vec![merged]);
        }
        _ => {
            base.remove(number);
            copy(number, base, patch);
        }
    }
    Ok(())
}

fn merge_inner(
    field: &FieldDescriptor,
    inner: &MessageDescriptor,
    old: &Bytes,
    new: Bytes,
    lists: Lists,
) -> Result<Bytes, MergeError> {
    let parent = field.parent_message().full_name();
    if inner.full_name() == WHOLE[0] && WITH_SETTINGS.contains(&parent) {
        return merge_settings(parent, old, new, lists);
    }
    let other_socket = inner.full_name() == TRANSPORT_SOCKET
        && Fields::parse(old)?.text(NAME) != Fields::parse(&new)?.text(NAME);
    if other_socket || WHOLE.contains(&inner.full_name()) {
        return Ok(new);
    }
    merge(inner, old, &new, lists)
}

/// Merges what is inside of two `Any`.
fn merge_settings(
    parent: &str,
    old: &Bytes,
    new: Bytes,
    lists: Lists,
) -> Result<Bytes, MergeError> {
    let mut base = Fields::parse(old)?;
    let patch = Fields::parse(&new)?;
    let type_of = |any: &Fields| envoy::type_name(any.text(TYPE_URL)).to_owned();
    let (name, other) = (type_of(&base), type_of(&patch));
    if name != other && parent != TRANSPORT_SOCKET {
        return Err(MergeError::OtherType {
            base: name,
            patch: other,
        });
    }
    match envoy::descriptor(&name) {
        Ok(message) if name == other => {
            let content = |any: &Fields| any.message(VALUE).unwrap_or_default();
            let merged = merge(&message, &content(&base), &content(&patch), lists)?;
            base.set_list(VALUE, vec![merged]);
            Ok(base.encode())
        }
        _ => Ok(new),
    }
}

/// Adds the fields of this number to those that are there.
fn copy(number: u32, base: &mut Fields, patch: &Fields) {
    let fields = patch.iter().filter(|field| field.number == number);
    fields.cloned().for_each(|field| base.push(field));
}

fn keys(map: &Fields, number: u32) -> Result<Vec<Option<Field>>, Malformed> {
    let entries = map.list(number);
    entries.iter().map(key).collect()
}

/// The key of a map entry; `None` for the empty one.
fn key(entry: &Bytes) -> Result<Option<Field>, Malformed> {
    const KEY: u32 = 1;
    let entry = Fields::parse(entry)?;
    let key = entry.iter().find(|field| field.number == KEY).cloned();
    // An empty key may be written out or not.
    Ok(key.filter(|key| !key.value.is_empty()))
}
