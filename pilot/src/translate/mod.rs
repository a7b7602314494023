//! Pure mapping from facts and Istio objects to Envoy xDS resources.
//!
//! What comes in is borrowed and complete; what goes out is one Envoy message, and beside it the
//! mistakes that were found ([`issue`]). Nothing here waits, reads a clock or keeps state, and
//! equal input gives equal bytes: messages whose Envoy form holds a map are built so that the map
//! has one entry at most, or with the ordered types of [`rds::wire`].

pub mod issue;
pub mod names;

pub(crate) mod host;
pub(crate) mod proto;
mod report;

pub mod cds;
pub mod ecds;
pub mod eds;
pub mod lds;
pub mod patch;
pub mod rds;
pub mod sds;
pub mod srds;
pub mod traffic_policy;

pub use issue::{Generated, Issue, Origin, Reason};
