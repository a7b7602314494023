//! The wire between the tiers: Istio API messages with their protobuf-JSON form, the envelope they
//! travel in, and the table of their kinds.
//!
//! In: nothing but bytes, JSON and YAML. Out: typed messages. This crate knows no sockets, no clocks and no translation.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod config;
#[cfg(feature = "envoy-descriptors")]
pub mod envoy;
mod istio;
pub mod kinds;
pub mod mcp;
pub mod well_known;

pub use config::{Config, ConfigError, ConfigKey, Meta};
pub use istio::{analysis, extensions, meta, networking, security, telemetry, r#type};
pub use kinds::{Kind, Spec, SpecMessage};

/// Encoded `google.protobuf.FileDescriptorSet` of the `.proto` files of this crate and what they import.
pub const FILE_DESCRIPTOR_SET: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.binpb"));
