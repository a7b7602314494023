//! RDS: the routes of a host, or of all hosts of a server when scoped routes are off.
//!
//! A route configuration depends on the VirtualServices of its host and, by name only, on the
//! services they lead to. Mistakes never make it invalid: a route whose match cannot be understood
//! is left out, one whose action cannot be understood answers 500, any other bad setting is left
//! out of its route; each is reported.

mod access;
mod client_certificate;
mod cors;
mod destination;
mod direct_response;
mod fallback;
mod fault;
mod hash;
mod header_value;
mod headers;
mod internal_redirect;
mod matches;
mod mirror;
mod rate_limit;
mod redirect;
mod retry;
mod rewrite;
mod route;
mod virtual_host;
pub mod wire;

pub use fallback::fallback_clusters;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shared_proto::networking::v1alpha3::VirtualService;
use shared_proto::networking::v1alpha3::load_balancer_settings::ConsistentHashLb;

use super::issue::{Generated, Issue, Reason};
use super::{host, names, proto, report};
use crate::model::service::Service;

/// Bound on direct response bodies, in bytes.
const MAX_DIRECT_RESPONSE: u32 = 1 << 20;

/// Finds services by name.
pub trait ServiceLookup {
    /// The service that a VirtualService in `namespace` means by `hostname`.
    fn service(&self, hostname: &str, namespace: &str) -> Option<Arc<Service>>;

    /// The complete host name that a VirtualService in `namespace` means by `hostname`.
    fn complete(&self, hostname: &str, _namespace: &str) -> String {
        hostname.to_owned()
    }

    /// How requests to a port of a service are hashed, when they are; `subset` may be empty.
    fn hash(&self, _hostname: &str, _port: u16, _subset: &str) -> Option<ConsistentHashLb> {
        None
    }
}

/// Everything that the routes of one host are made from.
#[derive(Clone, Copy)]
pub struct HostRoutes<'a> {
    /// Port that the listener listens on.
    pub port: u16,
    /// Host, `*.` and a domain, or `*`.
    pub host: &'a str,
    /// The port terminates TLS: redirects to https are not followed there.
    pub https: bool,
    /// All requests over plain HTTP are redirected to https (`tls.httpsRedirect` of the server).
    pub https_redirect: bool,
    /// Clients of the host have to show a certificate.
    pub client_certificate: bool,
    /// VirtualServices that serve the host, in order of precedence.
    pub virtual_services: &'a [RouteVs<'a>],
    /// Services by name.
    pub services: &'a dyn ServiceLookup,
    /// The proxies that get the routes.
    pub proxy: ProxyView<'a>,
}

impl std::fmt::Debug for HostRoutes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostRoutes")
            .field("port", &self.port)
            .field("host", &self.host)
            .field("virtual_services", &self.virtual_services.len())
            .finish_non_exhaustive()
    }
}

/// One VirtualService with its identity.
#[derive(Clone, Copy, Debug)]
pub struct RouteVs<'a> {
    /// Namespace of the object.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its content.
    pub spec: &'a VirtualService,
    /// `<ns>/<name>` of the gateways that bind it to the port; conditions on gateways mean them.
    pub gateways: &'a [Arc<str>],
    /// It was made from an Ingress or a Gateway API route, where a path prefix means whole segments.
    pub gateway_semantics: bool,
}

/// What conditions on the source mean at a gateway: the gateway itself.
#[derive(Clone, Copy, Debug)]
pub struct ProxyView<'a> {
    /// Namespace of the proxies.
    pub namespace: &'a str,
    /// Labels of the proxies.
    pub labels: &'a BTreeMap<String, String>,
}

/// The route configuration of one host on one port, for scoped routes.
#[must_use]
pub fn host_route_configuration(input: &HostRoutes<'_>) -> Generated<wire::RouteConfiguration> {
    let mut issues = Vec::new();
    let virtual_host = virtual_host::virtual_host(input, &mut issues);
    let mut resource = configuration(names::route_name(input.port, input.host));
    resource.virtual_hosts =
        vec![virtual_host.unwrap_or_else(|| virtual_host::black_hole(input.port))];
    Generated { resource, issues }
}

/// The route configuration of a server with all its hosts, for when scoped routes are off. Of two
/// entries for the same host the first one serves it.
#[must_use]
pub fn plain_route_configuration(
    name: &str,
    port: u16,
    hosts: &[HostRoutes<'_>],
) -> Generated<wire::RouteConfiguration> {
    let mut issues = Vec::new();
    let mut seen = BTreeSet::new();
    let mut virtual_hosts = Vec::with_capacity(hosts.len());
    for input in hosts {
        if seen.insert(input.host.to_ascii_lowercase()) {
            virtual_hosts.extend(virtual_host::virtual_host(input, &mut issues));
        } else {
            issues.push(Issue {
                origin: None,
                at: name.to_owned(),
                reason: Reason::Duplicate,
                message: format!("host {:?} is there already", input.host),
            });
        }
    }
    virtual_hosts.sort_by(|left, right| {
        let domain = |host: &wire::VirtualHost| host.domains.concat();
        host::by_specificity(&domain(left), &domain(right))
    });
    if virtual_hosts.is_empty() {
        virtual_hosts.push(virtual_host::black_hole(port));
    }
    let mut resource = configuration(name.to_owned());
    resource.virtual_hosts = virtual_hosts;
    Generated { resource, issues }
}

fn configuration(name: String) -> wire::RouteConfiguration {
    wire::RouteConfiguration {
        name,
        validate_clusters: Some(proto::boolean(false)),
        request_headers_to_remove: vec![names::SCOPE_HEADER.to_owned()],
        max_direct_response_body_size_bytes: Some(proto::uint(MAX_DIRECT_RESPONSE)),
        ignore_port_in_host_matching: true,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests;
