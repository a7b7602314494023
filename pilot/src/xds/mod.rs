//! Serves Envoy.
//!
//! In: batches of changes. [`updater`] is the one task that owns the facts and the generated resources of every
//! [`class`] of proxies; [`source`] admits proxies and hands them the snapshots of their class; the protocol itself is
//! the xds-engine crate's. Out: xDS.

pub mod class;
pub mod connections;
pub mod diagnostics;
pub mod source;
pub mod updater;
