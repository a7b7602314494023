//! Immutable indexes over configs and services. The next context shares what did not change.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use shared_proto::config::ConfigKey;

use super::destination_rules::{DestinationRules, RuleQuery, same_for_routes};
use super::destinations::{Destinations, first_key};
use super::envoy_filters::{self, EnvoyFilters, PatchQuery};

use crate::model::change::NamespacedName;
use crate::model::config::{
    Facts, GatewayFacts, PortGiven, Precedence, StoredConfig, VirtualServiceFacts,
};
use crate::model::destination_rule::DestinationRuleFacts;
use crate::model::envoy_filter::{EnvoyFilterFacts, Patch};
use crate::model::host;
use crate::model::service::{Resolution, Service};

/// What a push reads. Cloning shares everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PushContext {
    /// All configs.
    pub configs: OrdMap<ConfigKey, Arc<StoredConfig>>,
    /// Services by host name.
    pub services: OrdMap<Arc<str>, Arc<Service>>,
    /// Gateways by name.
    pub gateways: OrdMap<NamespacedName, Arc<GatewayFacts>>,
    /// VirtualServices by one of their hosts, in order of precedence.
    virtual_services: OrdMap<(Arc<str>, Precedence), Arc<StoredConfig>>,
    /// VirtualServices by a gateway that they name.
    by_gateway: OrdSet<(NamespacedName, ConfigKey)>,
    /// VirtualServices by their destinations.
    destinations: Destinations,
    /// DestinationRules by host.
    rules: DestinationRules,
    /// Patches of EnvoyFilters by where they are looked for.
    filters: EnvoyFilters,
}

/// A Gateway before and after a change; `None` where it was or is not there.
pub type Replaced = (Option<Arc<GatewayFacts>>, Option<Arc<GatewayFacts>>);

/// What a change of the context may have changed in what proxies are sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Impact {
    /// Hosts whose routes or reachability may differ.
    pub hosts: BTreeSet<Arc<str>>,
    /// Gateways that changed: the old and the new one.
    pub gateways: Vec<Replaced>,
    /// Host names of services whose clusters may differ.
    pub services: BTreeSet<Arc<str>>,
    /// Gateways whose servers may pass TLS on to somewhere else.
    pub tls_gateways: BTreeSet<NamespacedName>,
    /// Patches of EnvoyFilters that came or went.
    pub patches: Vec<Arc<Patch>>,
}

impl PushContext {
    /// VirtualServices that have exactly this host, in order of precedence.
    pub fn virtual_services(&self, host: &Arc<str>) -> impl Iterator<Item = &Arc<StoredConfig>> {
        let first = (host.clone(), (i64::MIN, Arc::from(""), Arc::from("")));
        self.virtual_services
            .range(first..)
            .take_while(move |((other, _), _)| other == host)
            .map(|(_, config)| config)
    }

    /// Whether some route leads to this host name.
    pub fn referenced(&self, hostname: &str) -> bool {
        self.destinations.contains(hostname)
    }

    /// The ports that routes to this host name give, in order.
    pub fn referenced_ports(&self, hostname: &str) -> Vec<u16> {
        self.destinations.ports(hostname)
    }

    /// Whether a route leads to this host name without saying at which port.
    pub fn referenced_without_port(&self, hostname: &Arc<str>) -> bool {
        let without_port = (hostname.clone(), 0);
        self.destinations.users_of(&without_port).next().is_some()
    }

    /// The DestinationRules that proxies use for a service; to be merged in this order.
    pub fn destination_rules(&self, query: RuleQuery<'_>) -> Vec<&Arc<StoredConfig>> {
        self.rules.lookup(query)
    }

    /// Patches for a class of proxies, in the order in which they are applied.
    pub fn patches(&self, query: PatchQuery<'_>) -> Vec<&Arc<Patch>> {
        self.filters.lookup(query)
    }

    /// Whether there are patches at all, for whatever proxies.
    pub fn has_patches(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Patches that bring a resource of their own.
    pub fn added_patches(&self) -> impl Iterator<Item = &Arc<Patch>> {
        self.filters.added()
    }

    /// Keys of node metadata that tell classes of proxies apart.
    pub fn metadata_keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.filters.metadata_keys()
    }

    /// All hosts of VirtualServices. Cost: all of them.
    pub fn hosts(&self) -> BTreeSet<Arc<str>> {
        self.virtual_services
            .keys()
            .map(|(host, _)| host.clone())
            .collect()
    }

    /// Number of VirtualServices, counted once for each of their hosts.
    pub fn virtual_hosts(&self) -> usize {
        self.virtual_services.len()
    }

    /// Takes one config; `None` removes it.
    pub fn apply_config(
        &mut self,
        key: ConfigKey,
        config: Option<Arc<StoredConfig>>,
        impact: &mut Impact,
    ) {
        let old = match &config {
            Some(config) => self.configs.insert(key, config.clone()),
            None => self.configs.remove(&key),
        };
        if old == config {
            return;
        }
        if let Some(old) = &old {
            self.unindex(old, impact);
        }
        if let Some(new) = &config {
            self.index(new, impact);
        }
        if let (Some(facts), _) | (None, Some(facts)) = (rule(&old), rule(&config)) {
            let balancing = same_for_routes(old.as_deref(), config.as_deref());
            self.add_ruled_services(facts, balancing, impact);
            if let Some(other) = rule(&config).filter(|other| other.host != facts.host) {
                self.add_ruled_services(other, balancing, impact);
            }
        }
        let patches = envoy_filters::touched(filter(&old), filter(&config));
        impact.patches.extend(patches);
        if let (Some(gateway), _) | (None, Some(gateway)) = (gateway(&old), gateway(&config)) {
            impact
                .gateways
                .push((gateway_of(&old), gateway_of(&config)));
            if let Some(name) = &gateway.name {
                self.add_bound_hosts(name, impact);
            }
        }
    }

    /// Takes one service; `None` removes it.
    pub fn apply_service(
        &mut self,
        hostname: Arc<str>,
        service: Option<Arc<Service>>,
        impact: &mut Impact,
    ) {
        let old = match &service {
            Some(service) => self.services.insert(hostname.clone(), service.clone()),
            None => self.services.remove(&hostname),
        };
        if old == service {
            return;
        }
        let namespace = |service: &Option<Arc<Service>>| {
            let service = service.as_ref()?;
            Some(service.namespace.clone())
        };
        // Which rule counts depends on the namespace of the service.
        let hashes = |hostname| {
            let mut rules = self.rules.matching(hostname);
            rules.any(|rule| rule.facts.hashes)
        };
        if namespace(&old) != namespace(&service) && hashes(&hostname) {
            self.add_users(&hostname, impact);
        }
        let without_port = (hostname.clone(), 0);
        self.add_hosts(self.destinations.users_of(&without_port), impact);
        impact.services.insert(hostname);
    }

    /// Services whose clusters follow a rule, and where requests may be hashed in another way, the routes to them.
    /// Cost: that of the service, for a wildcard host that of all services.
    fn add_ruled_services(
        &self,
        rule: &DestinationRuleFacts,
        same_balancing: bool,
        impact: &mut Impact,
    ) {
        let exact = self.services.get_key_value(&rule.host);
        let wildcard = rule.host.starts_with('*').then_some(&self.services);
        let below = wildcard.into_iter().flat_map(OrdMap::keys);
        let below = below.filter(|name| host::subset_of(name, &rule.host));
        for hostname in exact.map(|(hostname, _)| hostname).into_iter().chain(below) {
            impact.services.insert(hostname.clone());
            let mut rules = self.rules.matching(hostname);
            if !same_balancing && (rule.hashes || rules.any(|rule| rule.facts.hashes)) {
                self.add_users(hostname, impact);
            }
        }
    }

    /// The hosts of all routes that lead to a host name.
    fn add_users(&self, hostname: &str, impact: &mut Impact) {
        self.add_hosts(self.destinations.users(hostname), impact);
    }

    fn add_hosts<'a>(&self, users: impl Iterator<Item = &'a ConfigKey>, impact: &mut Impact) {
        for user in users {
            if let Some(Facts::VirtualService(facts)) = self.configs.get(user).map(|c| &c.facts) {
                add_hosts(facts, impact);
            }
        }
    }

    fn add_bound_hosts(&self, gateway: &NamespacedName, impact: &mut Impact) {
        for service in self.bound_to(gateway) {
            if let Facts::VirtualService(facts) = &service.facts {
                impact.hosts.extend(facts.hosts.iter().cloned());
            }
        }
    }

    /// VirtualServices that name this gateway.
    pub fn bound_to(&self, gateway: &NamespacedName) -> impl Iterator<Item = &Arc<StoredConfig>> {
        self.by_gateway
            .range((gateway.clone(), first_key())..)
            .take_while(move |(other, _)| other == gateway)
            .filter_map(|(_, key)| self.configs.get(key))
    }

    fn index(&mut self, config: &Arc<StoredConfig>, impact: &mut Impact) {
        match &config.facts {
            Facts::VirtualService(facts) => self.index_virtual_service(config, facts, impact),
            Facts::Gateway(facts) => {
                if let Some(name) = &facts.name {
                    self.gateways.insert(name.clone(), facts.clone());
                }
            }
            Facts::DestinationRule(facts) => self.rules.insert(facts, config),
            Facts::EnvoyFilter(facts) => {
                self.filters.insert(facts);
                self.refer_to(&facts.destinations, &config.key, impact);
            }
            Facts::Other => {}
        }
    }

    fn unindex(&mut self, config: &Arc<StoredConfig>, impact: &mut Impact) {
        match &config.facts {
            Facts::VirtualService(facts) => self.unindex_virtual_service(config, facts, impact),
            Facts::Gateway(facts) => {
                if let Some(name) = &facts.name {
                    self.gateways.remove(name);
                }
            }
            Facts::DestinationRule(facts) => self.rules.remove(facts, config),
            Facts::EnvoyFilter(facts) => {
                self.filters.remove(facts);
                self.refer_no_more(&facts.destinations, &config.key, impact);
            }
            Facts::Other => {}
        }
    }

    fn index_virtual_service(
        &mut self,
        config: &Arc<StoredConfig>,
        facts: &VirtualServiceFacts,
        impact: &mut Impact,
    ) {
        for host in &facts.hosts {
            self.virtual_services
                .insert((host.clone(), config.precedence()), config.clone());
        }
        for gateway in &facts.gateways {
            self.by_gateway
                .insert((gateway.clone(), config.key.clone()));
        }
        self.refer_to(&facts.destinations, &config.key, impact);
        add_hosts(facts, impact);
    }

    fn unindex_virtual_service(
        &mut self,
        config: &Arc<StoredConfig>,
        facts: &VirtualServiceFacts,
        impact: &mut Impact,
    ) {
        for host in &facts.hosts {
            self.virtual_services
                .remove(&(host.clone(), config.precedence()));
        }
        for gateway in &facts.gateways {
            self.by_gateway
                .remove(&(gateway.clone(), config.key.clone()));
        }
        self.refer_no_more(&facts.destinations, &config.key, impact);
        add_hosts(facts, impact);
    }

    /// Clusters follow references, those of each port for itself.
    fn refer_to(&mut self, to: &[(Arc<str>, PortGiven)], user: &ConfigKey, impact: &mut Impact) {
        for to in to {
            if self.destinations.insert(to, user) {
                impact.services.insert(to.0.clone());
            }
        }
    }

    fn refer_no_more(
        &mut self,
        to: &[(Arc<str>, PortGiven)],
        user: &ConfigKey,
        impact: &mut Impact,
    ) {
        for to in to {
            if self.destinations.remove(to, user) {
                impact.services.insert(to.0.clone());
            }
        }
    }
}

/// Whether a service can be reached at any port: it is only a name, and says no ports.
pub fn has_any_port(service: &Service) -> bool {
    service.ports.is_empty() && matches!(service.resolution, Resolution::Dns { .. })
}

fn add_hosts(facts: &VirtualServiceFacts, impact: &mut Impact) {
    impact.hosts.extend(facts.hosts.iter().cloned());
    if facts.passes_tls {
        impact.tls_gateways.extend(facts.gateways.iter().cloned());
    }
}

fn gateway(config: &Option<Arc<StoredConfig>>) -> Option<&Arc<GatewayFacts>> {
    match &config.as_ref()?.facts {
        Facts::Gateway(gateway) => Some(gateway),
        _ => None,
    }
}

fn rule(config: &Option<Arc<StoredConfig>>) -> Option<&DestinationRuleFacts> {
    match &config.as_ref()?.facts {
        Facts::DestinationRule(facts) => Some(facts),
        _ => None,
    }
}

fn filter(config: &Option<Arc<StoredConfig>>) -> Option<&EnvoyFilterFacts> {
    match &config.as_ref()?.facts {
        Facts::EnvoyFilter(facts) => Some(facts),
        _ => None,
    }
}

fn gateway_of(config: &Option<Arc<StoredConfig>>) -> Option<Arc<GatewayFacts>> {
    gateway(config).cloned()
}
