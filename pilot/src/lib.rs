//! Isthmus pilot: reads Istio objects from the controller and Services, EndpointSlices and
//! Secrets from a registry, keeps an immutable [`push::context::PushContext`] and serves Envoy xDS.
//!
//! The stages read in data-flow order; a stage imports only from its left.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod app;
pub mod args;
pub mod bootstrap;
pub mod debug;
pub mod gateway;
pub mod metrics;
pub mod security;

// The stages, in data-flow order.
pub mod ingest;

pub mod model;

pub mod push;

pub mod translate;

pub mod xds;
