//! Users' objects to Istio objects. Pure: no clock, no I/O, the same input gives the same bytes.

pub mod explain;
pub mod ingress;
pub mod names;
