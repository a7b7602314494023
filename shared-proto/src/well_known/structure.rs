//! `google.protobuf.Struct`: JSON inside a message, with ordered keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Number;

/// Largest magnitude below which every whole number is exact in a double.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// A JSON object, `google.protobuf.Struct`.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Struct {
    /// Members by name.
    #[prost(btree_map = "string, message", tag = "1")]
    pub fields: BTreeMap<String, Value>,
}

/// A JSON array, `google.protobuf.ListValue`.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListValue {
    /// Elements in order.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<Value>,
}

/// Any JSON value, `google.protobuf.Value`.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Value {
    /// The value; `None` reads as null.
    #[prost(oneof = "value::Kind", tags = "1, 2, 3, 4, 5, 6")]
    pub kind: Option<value::Kind>,
}

/// What a [`Value`] may hold.
pub mod value {
    /// One of the six JSON types.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        /// JSON null; the number is always 0.
        #[prost(int32, tag = "1")]
        NullValue(i32),
        /// A number; JSON numbers are doubles here.
        #[prost(double, tag = "2")]
        NumberValue(f64),
        /// A string.
        #[prost(string, tag = "3")]
        StringValue(String),
        /// A boolean.
        #[prost(bool, tag = "4")]
        BoolValue(bool),
        /// An object.
        #[prost(message, tag = "5")]
        StructValue(super::Struct),
        /// An array.
        #[prost(message, tag = "6")]
        ListValue(super::ListValue),
    }
}

impl Struct {
    /// The value of the member `name`, if there is one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    /// Builds a struct from a JSON value; `None` if it is no object.
    #[must_use]
    pub fn from_json(json: serde_json::Value) -> Option<Self> {
        match json {
            serde_json::Value::Object(map) => Some(map.into()),
            _ => None,
        }
    }

    /// The same object as JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let members = self.fields.iter();
        serde_json::Value::Object(members.map(|(k, v)| (k.clone(), v.to_json())).collect())
    }
}

impl From<serde_json::Map<String, serde_json::Value>> for Struct {
    fn from(map: serde_json::Map<String, serde_json::Value>) -> Self {
        Self {
            fields: map.into_iter().map(|(k, v)| (k, v.into())).collect(),
        }
    }
}

impl Value {
    /// The string, if this is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.kind {
            Some(value::Kind::StringValue(text)) => Some(text),
            _ => None,
        }
    }

    /// The same value as JSON; what JSON cannot express (NaN, infinities) becomes null.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.kind {
            None | Some(value::Kind::NullValue(_)) => Json::Null,
            Some(value::Kind::NumberValue(number)) => number_to_json(*number),
            Some(value::Kind::StringValue(text)) => Json::String(text.clone()),
            Some(value::Kind::BoolValue(flag)) => Json::Bool(*flag),
            Some(value::Kind::StructValue(inner)) => inner.to_json(),
            Some(value::Kind::ListValue(list)) => {
                Json::Array(list.values.iter().map(Self::to_json).collect())
            }
        }
    }
}

/// Whole numbers are printed without a fraction, as other protobuf-JSON printers do.
pub(crate) fn number_to_json(number: f64) -> serde_json::Value {
    if number.fract() == 0.0 && number.abs() < MAX_EXACT {
        #[allow(clippy::cast_possible_truncation)] // exact: whole and below 2^53
        return serde_json::Value::Number(Number::from(number as i64));
    }
    Number::from_f64(number).map_or(serde_json::Value::Null, serde_json::Value::Number)
}

impl From<serde_json::Value> for Value {
    fn from(json: serde_json::Value) -> Self {
        use serde_json::Value as Json;
        let kind = match json {
            Json::Null => value::Kind::NullValue(0),
            Json::Bool(flag) => value::Kind::BoolValue(flag),
            Json::Number(number) => value::Kind::NumberValue(number.as_f64().unwrap_or(f64::NAN)),
            Json::String(text) => value::Kind::StringValue(text),
            Json::Array(items) => value::Kind::ListValue(ListValue {
                values: items.into_iter().map(Self::from).collect(),
            }),
            Json::Object(map) => value::Kind::StructValue(map.into()),
        };
        Self { kind: Some(kind) }
    }
}

impl Serialize for Struct {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Struct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde_json::Map::deserialize(deserializer).map(Self::from)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde_json::Value::deserialize(deserializer).map(Self::from)
    }
}

impl Serialize for ListValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.values.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ListValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(|values| Self { values })
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use serde_json::json;

    use super::*;

    #[test]
    fn json_round_trip_keeps_whole_numbers_whole() {
        let json = json!({"z": 1, "a": [1.5, null, true, "x", -3], "m": {"k": {}}, "e": []});
        let message = Struct::from_json(json.clone()).unwrap();
        assert_eq!(message.to_json(), json);
        assert_eq!(serde_json::to_value(&message).unwrap(), json);
        assert_eq!(serde_json::from_value::<Struct>(json).unwrap(), message);
    }

    #[test]
    fn bytes_equal_those_of_the_stock_type() {
        let json = json!({"k": [2, {"x": "y"}, true]});
        let ours = Struct::from_json(json.clone()).unwrap();
        let stock: pbjson_types::Struct = serde_json::from_value(json).unwrap();
        assert_eq!(ours.encode_to_vec(), stock.encode_to_vec());
        // Null is written out: a value without a kind would be invalid to other readers.
        assert_eq!(Value::from(json!(null)).encode_to_vec(), [8, 0]);
    }

    #[test]
    fn only_an_object_is_a_struct() {
        assert!(Struct::from_json(json!([1])).is_none());
        assert!(serde_json::from_value::<Struct>(json!("x")).is_err());
    }
}
