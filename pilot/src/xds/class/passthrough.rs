//! Servers whose TLS ends at the backend: which connections they pass on, and where to.

use std::sync::Arc;

use shared_proto::networking::v1alpha3::{
    Destination, RouteDestination, TlsMatchAttributes, VirtualService,
};

use super::generate::Generator;
use crate::model::config::{
    Facts, GatewayFacts, Server, StoredConfig, VirtualServiceFacts, full_host,
};
use crate::model::host;
use crate::translate::lds::Passthrough;
use crate::translate::{Origin, names};

impl Generator<'_> {
    /// What a server passes on, in order of precedence. Hosts without a route are closed, so that no other server takes them.
    pub(super) fn passthrough(&self, gateway: &GatewayFacts, server: &Server) -> Vec<Passthrough> {
        let Some(name) = &gateway.name else {
            return Vec::new();
        };
        let mut configs: Vec<_> = self.world.context.bound_to(name).collect();
        configs.sort_by_cached_key(|config| config.precedence());
        let mut chains: Vec<Passthrough> = Vec::new();
        for config in configs {
            if let Facts::VirtualService(facts) = &config.facts
                && facts.passes_tls
            {
                self.routes(config, facts, server, &mut chains);
            }
        }
        let mut closed: Vec<String> = Vec::new();
        for host in server.hosts.iter().filter(|host| !host.contains('*')) {
            let taken = chains
                .iter()
                .any(|chain| chain.hosts.iter().any(|h| **h == **host));
            if !taken {
                closed.push(host.to_string());
            }
        }
        if !closed.is_empty() {
            chains.push(Passthrough {
                origin: Origin {
                    namespace: name.namespace.to_string(),
                    name: name.name.to_string(),
                },
                hosts: closed,
                clusters: Vec::new(),
            });
        }
        chains
    }

    /// The TLS routes of one VirtualService.
    fn routes(
        &self,
        config: &StoredConfig,
        facts: &VirtualServiceFacts,
        server: &Server,
        chains: &mut Vec<Passthrough>,
    ) {
        // What was stored was decoded before: see `StoredConfig::from_mcp`.
        let spec = config.spec().ok();
        let Some(service) = spec.as_ref().and_then(|spec| spec.get::<VirtualService>()) else {
            return;
        };
        for route in &service.tls {
            let matching = route.r#match.iter().filter(|m| applies(m, server));
            let hosts = matching.flat_map(|m| sni_hosts(m, facts, server)).collect();
            let clusters = self.shares(&config.key.namespace, &route.route, server.port);
            chains.push(Passthrough {
                origin: Origin {
                    namespace: config.key.namespace.to_string(),
                    name: config.key.name.to_string(),
                },
                hosts,
                clusters,
            });
        }
        chains.retain(|chain| !chain.hosts.is_empty());
    }

    /// Clusters and their shares; the share of a single one does not matter.
    fn shares(&self, namespace: &str, to: &[RouteDestination], port: u16) -> Vec<(String, u32)> {
        let cluster = |to: &RouteDestination| {
            let destination = to.destination.as_ref()?;
            Some(self.cluster(namespace, destination, port))
        };
        if let [only] = to {
            return cluster(only).map(|name| (name, 1)).into_iter().collect();
        }
        let weighted = to.iter().filter_map(|to| {
            let weight = u32::try_from(to.weight).ok().filter(|weight| *weight > 0)?;
            Some((cluster(to)?, weight))
        });
        weighted.collect()
    }

    /// The port of a destination is the one given, else the only port of the service, else that of the server.
    fn cluster(&self, namespace: &str, destination: &Destination, port: u16) -> String {
        let hostname: Arc<str> = full_host(&destination.host, namespace, &self.options.domain);
        let given = destination.port.as_ref();
        let given = given.and_then(|given| u16::try_from(given.number).ok());
        let service = || self.world.context.services.get(&hostname);
        let port = given.filter(|given| *given != 0).unwrap_or_else(|| {
            match service().map(|service| service.ports.as_slice()) {
                Some([only]) => only.number,
                _ => port,
            }
        });
        names::cluster_name(port, &destination.subset, &hostname)
    }
}

/// Whether the condition can hold for connections of the server. Those on addresses are not served, so their routes are not.
fn applies(condition: &TlsMatchAttributes, server: &Server) -> bool {
    let port = condition.port == 0 || condition.port == u32::from(server.port);
    port && condition.destination_subnets.is_empty()
        && condition.source_labels.is_empty()
        && condition.gateways.is_empty()
        && condition.source_namespace.is_empty()
}

/// Names that both the VirtualService and the server have.
fn sni_hosts<'a>(
    condition: &'a TlsMatchAttributes,
    facts: &'a VirtualServiceFacts,
    server: &'a Server,
) -> impl Iterator<Item = String> + 'a {
    let names = condition
        .sni_hosts
        .iter()
        .map(|name| name.to_ascii_lowercase());
    names.filter(|name| {
        let within = |hosts: &[Arc<str>]| hosts.iter().any(|host| host::subset_of(name, host));
        within(&facts.hosts) && within(&server.hosts)
    })
}
