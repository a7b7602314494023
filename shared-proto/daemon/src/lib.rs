//! What both tiers need as long-running programs: flags, logs, signals, listening sockets and the admin HTTP endpoints.
//!
//! It knows nothing of configuration objects or xDS.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod admin;
pub mod flags;
pub mod listen;
pub mod logging;
pub mod metrics;
pub mod reference;
pub mod seldom;
pub mod signal;
