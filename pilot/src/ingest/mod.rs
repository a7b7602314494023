//! From the wire and the registry to changes.
//!
//! [`mcp`] asks a controller for configs, [`registry`] follows Services, EndpointSlices, Secrets and Namespaces. Both
//! give batches of [`Change`](crate::model::change::Change)s, the first one complete.

pub mod mcp;
pub mod merge;
pub mod registry;
