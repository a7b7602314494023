//! The xDS transport protocol, state of the world and delta, server and client side.
//!
//! What comes in: requests of clients and snapshots of resources. What goes out: responses that bring
//! each client from what it holds to what the snapshot holds. [`session`] and [`client`] do no I/O;
//! [`server`] and [`transport`] join them to tonic. Nothing here knows what a resource means.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod client;
mod codec;
mod names;
pub mod resource;
pub mod server;
pub mod session;
pub mod transport;
pub mod types;
mod watch;

pub use resource::{Name, Resource, ResourceMap, Version};
pub use server::{AdsService, ClientInfo, ServerEvent, ServerOptions, Source, ads_service};
pub use session::{Protocol, Reaction, Response, Session, Snapshot};
pub use types::{TypeSpec, TypeTable};

/// Envoy's discovery messages, as the envoy-types crate has them.
pub mod discovery {
    pub use envoy_types::pb::envoy::config::core::v3::Node;
    pub use envoy_types::pb::envoy::service::discovery::v3::{
        DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
    };
    pub use envoy_types::pb::google::protobuf::Any;
    pub use envoy_types::pb::google::rpc::Status as ErrorDetail;
}
