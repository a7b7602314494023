//! Isthmus pilot: reads Istio objects from the controller and Services, EndpointSlices and
//! Secrets from a registry, keeps an immutable [`push::PushContext`] and serves Envoy xDS.
//!
//! The stages read in data-flow order; a stage imports only from its left.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod bootstrap;
pub mod model;
pub mod translate;
