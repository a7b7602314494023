//! LDS: the listeners of a gateway.
//!
//! A listener is either plain HTTP, one filter chain without match, or TLS, one filter chain per
//! server with its hosts as SNI. Listeners know ports, certificates and options, and of hosts' routes
//! those only that pass TLS on: with scoped routes, adding a host to a plain listener does not touch it.

mod filters;
mod hcm;
mod passthrough;
mod tls;

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::listener::v3 as listener;

use super::issue::{Generated, Issue};
use super::{names, proto};

pub(crate) use filters::{CORS, CUSTOM_RESPONSE, FAULT, LOCAL_RATE_LIMIT, ON_DEMAND, RBAC, ROUTER};
pub use hcm::{AccessLog, HttpOptions};
pub use passthrough::Passthrough;
pub use tls::{ClientCertificate, TlsChain, TlsVersion};

/// Everything that one listener is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerInput {
    /// Address to listen on, for example `0.0.0.0` or `::`.
    pub bind: Arc<str>,
    /// Port to listen on.
    pub port: u16,
    /// What is served.
    pub servers: Servers,
    /// How requests find their routes.
    pub routing: Routing,
    /// Options of the HTTP connection managers.
    pub options: HttpOptions,
}

/// What a listener serves.
#[derive(Clone, Debug, PartialEq)]
pub enum Servers {
    /// Plain HTTP.
    Http {
        /// Route configuration to ask for when scoped routes are off.
        route_name: String,
        /// True when gRPC-Web requests are translated to gRPC.
        grpc_web: bool,
    },
    /// TLS, in order of precedence: of two servers with the same SNI the first one has it.
    Tls(Vec<TlsServer>),
}

/// One server of a TLS listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsServer {
    /// HTTP; TLS ends here.
    Https(TlsChain),
    /// Anything; TLS ends at the backend.
    Passthrough(Passthrough),
}

impl From<TlsChain> for TlsServer {
    fn from(chain: TlsChain) -> Self {
        Self::Https(chain)
    }
}

/// How requests find their routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// By host, each host with its own route configuration.
    Scoped {
        /// Routes of a host are asked for at its first request.
        on_demand: bool,
    },
    /// By one route configuration per server, which holds all its hosts.
    Plain,
}

/// The listener; `None` when no filter chain is left.
#[must_use]
pub fn listener(input: &ListenerInput) -> Generated<Option<listener::Listener>> {
    let mut issues = Vec::new();
    let chains = filter_chains(input, &mut issues);
    let tls = matches!(input.servers, Servers::Tls(_));
    let resource = (!chains.is_empty()).then(|| listener::Listener {
        name: names::listener_name(&input.bind, input.port),
        address: Some(proto::socket_address(&input.bind, input.port)),
        traffic_direction: core::TrafficDirection::Outbound.into(),
        listener_filters: if tls {
            vec![tls::inspector()]
        } else {
            Vec::new()
        },
        filter_chains: chains,
        ..Default::default()
    });
    Generated { resource, issues }
}

fn filter_chains(input: &ListenerInput, issues: &mut Vec<Issue>) -> Vec<listener::FilterChain> {
    match &input.servers {
        Servers::Http {
            route_name,
            grpc_web,
        } => {
            let stat_prefix = default_stat_prefix(input);
            let manager = hcm::filter(input, &stat_prefix, route_name, *grpc_web);
            vec![listener::FilterChain {
                filters: vec![manager],
                ..Default::default()
            }]
        }
        Servers::Tls(servers) => tls::filter_chains(input, servers, issues),
    }
}

fn default_stat_prefix(input: &ListenerInput) -> String {
    format!("outbound_{}", names::listener_name(&input.bind, input.port))
}

#[cfg(test)]
mod tests;
