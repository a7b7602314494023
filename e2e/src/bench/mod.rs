//! What `scripts/bench` and the counter test share: a seeded generator of manifests, a fake Envoy, measurements.
//!
//! * [`generate`] N Ingress objects over N hosts with their Services, EndpointSlices and Secrets;
//! * [`client`] a delta ADS client that subscribes and acknowledges as Envoy does;
//! * [`usage`] memory and CPU of a process;
//! * [`run`] the measurements, [`report`] the table.

pub mod client;
pub mod generate;
pub mod report;
pub mod run;
mod subscriptions;
pub mod usage;
