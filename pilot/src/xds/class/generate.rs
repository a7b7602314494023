//! Calls the generators for one class: looks up what they need, encodes what they give, counts both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shared_proto::networking::v1alpha3::VirtualService;
use xds_engine::types::{EXTENSION, SCOPED_ROUTE};
use xds_engine::{Resource, ResourceMap};

use super::Counts;
use super::listeners::{client_certificate, route_name};
use super::lookup::Lookup;
use super::patches::route_site;
use super::servers::{Credential, ListenKey, Servers};
use crate::model::change::NamespacedName;
use crate::model::config::{Facts, Server, ServerProtocol, StoredConfig};
use crate::model::host;
use crate::model::proxy::{ON_DEMAND_RDS_KEY, ProxyClass, SCOPED_RDS_KEY};
use crate::push::world::World;
use crate::translate::cds::ClusterOptions;
use crate::translate::lds::{ClientCertificate, HttpOptions};
use crate::translate::patch::RouteSite;
use crate::translate::{Generated, Issue, ecds, names, rds, srds};

/// Annotation that marks VirtualServices made from Gateway API routes (Istio).
const ROUTE_SEMANTICS: &str = "internal.istio.io/route-semantics";

/// Settings that what is generated depends on. The same for all classes, for the life of the process.
#[derive(Clone, Debug, Default)]
pub struct PushOptions {
    /// One route configuration per host, selected by scoped routes; else one per server. For proxies that do not say.
    pub scoped_rds: bool,
    /// Envoy asks for the routes of a host at its first request. For proxies that do not say.
    pub on_demand_rds: bool,
    /// The routes of a host include those of the wildcard hosts above it.
    pub merge_subset: bool,
    /// Clusters for all services, not only for those that a route leads to.
    pub all_clusters: bool,
    /// Domain that completes the short names of services.
    pub domain: Arc<str>,
    /// Namespace whose DestinationRules are for all.
    pub root_namespace: Arc<str>,
    /// Options of clusters.
    pub cluster: ClusterOptions,
    /// Options of HTTP connection managers.
    pub http: HttpOptions,
}

/// An encoded route configuration.
pub(super) struct Routes {
    pub(super) resource: Arc<Resource>,
    /// Clusters with fallbacks that it leads to.
    pub(super) fallbacks: BTreeSet<Arc<str>>,
}

/// The generators, bound to a class and a world.
pub(super) struct Generator<'a> {
    pub(super) class: &'a ProxyClass,
    pub(super) world: &'a World,
    pub(super) servers: &'a Servers,
    pub(super) options: &'a PushOptions,
    pub(super) lookup: Lookup<'a>,
    pub(super) counts: Counts,
    issues: Vec<Issue>,
}

impl<'a> Generator<'a> {
    pub(super) fn new(
        class: &'a ProxyClass,
        world: &'a World,
        servers: &'a Servers,
        options: &'a PushOptions,
    ) -> Self {
        let lookup = Lookup {
            class,
            world,
            options,
        };
        let (counts, issues) = (Counts::default(), Vec::new());
        Self {
            class,
            world,
            servers,
            options,
            lookup,
            counts,
            issues,
        }
    }

    pub(super) fn finish(self) -> (Counts, Vec<Issue>) {
        (self.counts, self.issues)
    }

    pub(super) fn scoped(&self) -> bool {
        let own = self.class.switch(SCOPED_RDS_KEY);
        own.unwrap_or(self.options.scoped_rds)
    }

    pub(super) fn on_demand(&self) -> bool {
        let own = self.class.switch(ON_DEMAND_RDS_KEY);
        own.unwrap_or(self.options.on_demand_rds)
    }

    pub(super) fn ports_listened(&self) -> BTreeSet<u16> {
        self.servers.ports()
    }

    pub(super) fn credentials_of(&self, secret: &NamespacedName) -> Vec<Credential> {
        self.servers.credentials_of(secret).cloned().collect()
    }

    pub(super) fn keep<T>(&mut self, generated: Generated<T>) -> T {
        self.issues.extend(generated.issues);
        generated.resource
    }

    // Routes.

    /// The hosts whose routes depend on one of these hosts.
    pub(super) fn affected_hosts(&self, hosts: &BTreeSet<Arc<str>>) -> BTreeSet<Arc<str>> {
        let mut affected = hosts.clone();
        if self.options.merge_subset {
            let wildcards: Vec<_> = hosts.iter().filter(|host| host.starts_with('*')).collect();
            if !wildcards.is_empty() {
                let below = |host: &Arc<str>| wildcards.iter().any(|w| host::subset_of(host, w));
                affected.extend(self.world.context.hosts().into_iter().filter(below));
            }
        }
        affected
    }

    /// VirtualServices with exactly this host that a server on the port leads to, in order of precedence.
    fn reachable(&self, port: u16, host: &Arc<str>) -> Vec<&'a Arc<StoredConfig>> {
        let world = self.world;
        let all = world.context.virtual_services(host);
        all.filter(|config| self.leads_to(port, host, config))
            .collect()
    }

    fn leads_to(&self, port: u16, host: &str, config: &StoredConfig) -> bool {
        self.leading_servers(port, host, config).next().is_some()
    }

    /// The servers on a port that lead requests for a host to a VirtualService, with the names of their Gateways.
    fn leading_servers<'b>(
        &'b self,
        port: u16,
        host: &'b str,
        config: &'b StoredConfig,
    ) -> impl Iterator<Item = (&'b NamespacedName, &'b Server)> {
        let names = match &config.facts {
            Facts::VirtualService(facts) => facts.gateways.as_slice(),
            _ => &[],
        };
        names.iter().flat_map(move |name| {
            let gateway = self.world.context.gateways.get(name);
            let gateway = gateway.filter(|gateway| self.class.selected_by(&gateway.selector));
            let servers = gateway
                .map(|gateway| gateway.servers.as_slice())
                .unwrap_or_default();
            let serving = servers
                .iter()
                .filter(move |server| serves(server, port, host));
            serving.map(move |server| (name, server))
        })
    }

    /// Whether a server on the port sends plain requests for the host to https.
    fn redirects(&self, port: u16, host: &Arc<str>) -> bool {
        let mut configs = self.world.context.virtual_services(host);
        configs.any(|config| {
            self.leading_servers(port, host, config)
                .any(|(_, server)| server.https_redirect)
        })
    }

    /// Whether a server on the port serves the host to clients with a certificate only.
    fn asks_certificate(&self, port: u16, host: &Arc<str>) -> bool {
        let asks = |server: &Server| {
            let mutual = server.tls.as_ref().map(client_certificate);
            let covers = |served: &Arc<str>| host::subset_of(host, served);
            server.protocol == ServerProtocol::Https
                && mutual == Some(ClientCertificate::Required)
                && server.hosts.iter().any(covers)
        };
        let mut configs = self.world.context.virtual_services(host);
        configs.any(|config| {
            self.leading_servers(port, host, config)
                .any(|(_, server)| asks(server))
        })
    }

    fn decode(&self, port: u16, host: &str, configs: &[&'a Arc<StoredConfig>]) -> Vec<Decoded<'a>> {
        let mut decoded = Vec::with_capacity(configs.len());
        for config in configs {
            // What was stored was decoded before: see `StoredConfig::from_mcp`.
            let Ok(spec) = config.spec() else { continue };
            let Some(spec) = spec.get::<VirtualService>().cloned() else {
                continue;
            };
            let gateways = self.leading_servers(port, host, config);
            let gateways = gateways.map(|(name, _)| name.to_string().into()).collect();
            decoded.push(Decoded {
                config,
                spec,
                gateways,
            });
        }
        decoded
    }

    fn host_input<'b>(
        &'b self,
        port: u16,
        host: &'b Arc<str>,
        virtual_services: &'b [rds::RouteVs<'b>],
    ) -> rds::HostRoutes<'b> {
        let https = self.servers.tls_on(port);
        rds::HostRoutes {
            port,
            host,
            https,
            https_redirect: self.redirects(port, host),
            client_certificate: self.asks_certificate(port, host),
            virtual_services,
            services: &self.lookup,
            proxy: rds::ProxyView {
                namespace: &self.class.namespace,
                labels: &self.class.labels,
            },
        }
    }

    /// The route configuration of a host; `None` when no server on the port leads to it.
    pub(super) fn host_routes(&mut self, port: u16, host: &Arc<str>) -> Option<Routes> {
        let mut configs = self.reachable(port, host);
        if configs.is_empty() {
            return None;
        }
        if self.options.merge_subset {
            for wildcard in host::wildcards_above(host) {
                configs.extend(self.reachable(port, &wildcard.into()));
            }
        }
        let decoded = self.decode(port, host, &configs);
        let virtual_services: Vec<_> = decoded.iter().map(Decoded::view).collect();
        let generated =
            rds::host_route_configuration(&self.host_input(port, host, &virtual_services));
        let configuration = self.keep(generated);
        self.counts.rds += 1;
        let site = |generator: &Self| generator.host_site(port, host, &configs);
        Some(self.patched_routes(site, &configuration))
    }

    /// The servers that lead to the routes of a host.
    fn host_site(&self, port: u16, host: &str, configs: &[&'a Arc<StoredConfig>]) -> RouteSite {
        let servers = configs
            .iter()
            .flat_map(|config| self.leading_servers(port, host, config));
        route_site(
            (port, true),
            servers.filter_map(|(name, server)| {
                Some((name, &**self.world.context.gateways.get(name)?, server))
            }),
        )
    }

    pub(super) fn scope(&mut self, port: u16, host: &str) -> Arc<Resource> {
        self.counts.srds += 1;
        let scope = srds::scoped_route(port, host, self.on_demand());
        Resource::encode(SCOPED_ROUTE, &scope)
    }

    pub(super) fn scope_filter(&mut self, port: u16, scopes: &ResourceMap) -> Arc<Resource> {
        // Wildcard hosts are the scopes whose names begin with `<port>.*`.
        let prefix = names::scope_name(port, "*");
        let below = scopes.range(Arc::<str>::from(prefix.as_str())..);
        let wildcards = below
            .map(|(name, _)| &**name)
            .take_while(|name| name.starts_with(&prefix))
            .filter_map(|name| names::parse_scope_name(name).map(|(_, host)| host));
        self.counts.ecds += 1;
        Resource::encode(EXTENSION, &ecds::scope_filter(port, wildcards))
    }

    /// All route configurations when scoped routes are off, by name.
    pub(super) fn plain_routes(&mut self) -> BTreeMap<String, Routes> {
        let mut routes = BTreeMap::new();
        for key in self.servers.listeners().cloned().collect::<Vec<_>>() {
            for (name, port, gateways) in self.plain_servers(&key) {
                let hosts: Vec<Arc<str>> = self.world.context.hosts().into_iter().collect();
                let mut entries = Vec::new();
                for host in &hosts {
                    let mut configs = self.reachable(port, host);
                    configs.retain(|config| bound(config, &gateways));
                    if !configs.is_empty() {
                        entries.push((host.clone(), self.decode(port, host, &configs)));
                    }
                }
                let virtual_services: Vec<Vec<_>> = entries
                    .iter()
                    .map(|(_, decoded)| decoded.iter().map(Decoded::view).collect())
                    .collect();
                let inputs: Vec<rds::HostRoutes<'_>> = entries
                    .iter()
                    .zip(&virtual_services)
                    .map(|((host, _), services)| self.host_input(port, host, services))
                    .collect();
                let generated = rds::plain_route_configuration(&name, port, &inputs);
                let configuration = self.keep(generated);
                self.counts.rds += 1;
                let site = |generator: &Self| generator.plain_site(&key, &name);
                let patched = self.patched_routes(site, &configuration);
                routes.insert(name, patched);
            }
        }
        routes
    }

    /// The servers of a route configuration when scoped routes are off.
    fn plain_site(&self, key: &ListenKey, name: &str) -> RouteSite {
        let servers = self.servers.of(key);
        let servers = servers.iter().filter_map(|(gateway, server)| {
            let own = route_name(gateway, server) == name;
            let gateway_name = gateway.name.as_ref().filter(|_| own)?;
            Some((gateway_name, &***gateway, *server))
        });
        route_site((key.port, false), servers)
    }

    /// The route configurations of a listener when scoped routes are off: name, port and the Gateways whose
    /// VirtualServices are in it.
    fn plain_servers(&self, key: &ListenKey) -> Vec<(String, u16, BTreeSet<NamespacedName>)> {
        let mut by_name: BTreeMap<String, BTreeSet<NamespacedName>> = BTreeMap::new();
        let ended = |(_, server): &(_, &Server)| server.protocol != ServerProtocol::Passthrough;
        for (gateway, server) in self.servers.of(key).into_iter().filter(ended) {
            by_name
                .entry(route_name(gateway, server))
                .or_default()
                .extend(gateway.name.clone());
        }
        by_name
            .into_iter()
            .map(|(name, gateways)| (name, key.port, gateways))
            .collect()
    }
}

/// A VirtualService as the route generator wants it.
struct Decoded<'a> {
    config: &'a StoredConfig,
    spec: VirtualService,
    /// The gateways that bind it to the port at hand.
    gateways: Vec<Arc<str>>,
}

impl Decoded<'_> {
    fn view(&self) -> rds::RouteVs<'_> {
        let semantics = self.config.annotations.get(ROUTE_SEMANTICS);
        rds::RouteVs {
            namespace: &self.config.key.namespace,
            name: &self.config.key.name,
            spec: &self.spec,
            gateways: &self.gateways,
            gateway_semantics: semantics.is_some_and(|semantics| semantics == "gateway"),
        }
    }
}

fn serves(server: &Server, port: u16, host: &str) -> bool {
    server.port == port
        && !matches!(
            server.protocol,
            ServerProtocol::Passthrough | ServerProtocol::Unsupported
        )
        && server
            .hosts
            .iter()
            .any(|served| host::intersects(host, served))
}

fn bound(config: &StoredConfig, gateways: &BTreeSet<NamespacedName>) -> bool {
    match &config.facts {
        Facts::VirtualService(facts) => facts.gateways.iter().any(|name| gateways.contains(name)),
        _ => false,
    }
}
