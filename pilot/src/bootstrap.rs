//! The Envoy bootstrap of a gateway.
