//! Nouns of the pilot: configs from the controller, and what is known about services, endpoints and secrets.

pub mod change;
pub mod cluster_name;
pub mod config;
pub mod destination_rule;
pub mod diagnostic;
pub mod endpoint;
pub mod envoy_filter;
pub mod host;
pub mod identity;
pub mod pairs;
pub mod proxy;
pub mod secret;
pub mod service;
