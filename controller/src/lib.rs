//! Isthmus controller: reads Ingresses (and what they need), translates them to Istio objects and serves those to the
//! pilot over MCP.
//!
//! The stages read in data-flow order; a stage imports only from its left.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod app;
pub mod args;
pub mod metrics;

// The stages, in the order of the data.
pub mod ingest;
pub mod model;
pub mod resolve;
pub mod translate;
pub mod xds;

// The way back to the user.
pub mod status;
