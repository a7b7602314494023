//! Nouns of the pilot: what is known about services, endpoints and secrets.

pub mod endpoint;
pub mod secret;
pub mod service;
