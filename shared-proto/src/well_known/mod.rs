//! Well-known protobuf types whose stock Rust form does not fit: `Struct` with ordered keys (equal values have
//! equal bytes) and `Duration` that also reads Go notation (`24h`, `1m30s`), which users write.

mod duration;
mod structure;

pub use duration::{Duration, DurationError};
pub use pbjson_types::{Any, BoolValue, DoubleValue, Timestamp, UInt32Value, UInt64Value};
pub use structure::{ListValue, Struct, Value, value};

#[cfg(feature = "envoy-descriptors")]
pub(crate) use structure::number_to_json;
