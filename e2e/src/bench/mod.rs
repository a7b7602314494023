//! What `scripts/bench` and the counter test share: a seeded generator of manifests, a fake Envoy, measurements.
//!
//! * [`generate`] N Ingress objects over N hosts with their Services, EndpointSlices and Secrets;
//! * [`client`] a delta ADS client that subscribes and acknowledges as Envoy does;
//! * [`usage`] memory and CPU of a process;
//! * [`kubernetes`] what is different with an API server as the source;
//! * [`run`] the measurements, [`report`] the table.

pub mod client;
pub mod generate;
pub mod kubernetes;
pub mod report;
pub mod run;
mod subscriptions;
pub mod usage;
