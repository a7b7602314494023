//! Immutable indexes over configs and services. The next context shares what did not change.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use shared_proto::Kind;
use shared_proto::config::ConfigKey;

use crate::model::change::NamespacedName;
use crate::model::config::{Facts, GatewayFacts, Precedence, StoredConfig, VirtualServiceFacts};
use crate::model::service::Service;

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
    /// VirtualServices by a destination that they name without a port.
    portless: OrdSet<(Arc<str>, ConfigKey)>,
    /// How many VirtualServices refer to a host name as destination.
    references: OrdMap<Arc<str>, usize>,
}

/// What a change of the context may have changed in what proxies are sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Impact {
    /// Hosts whose routes or reachability may differ.
    pub hosts: BTreeSet<Arc<str>>,
    /// Gateways that changed: the old and the new one.
    pub gateways: Vec<(Option<Arc<GatewayFacts>>, Option<Arc<GatewayFacts>>)>,
    /// Host names of services whose clusters may differ.
    pub services: BTreeSet<Arc<str>>,
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
        self.references.contains_key(hostname)
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
        let portless = self.portless.range((hostname.clone(), first_key())..);
        for (_, key) in portless.take_while(|(other, _)| *other == hostname) {
            if let Some(Facts::VirtualService(facts)) = self.configs.get(key).map(|c| &c.facts) {
                add_hosts(facts, impact);
            }
        }
        impact.services.insert(hostname);
    }

    fn add_bound_hosts(&self, gateway: &NamespacedName, impact: &mut Impact) {
        for service in self.bound_to(gateway) {
            if let Facts::VirtualService(facts) = &service.facts {
                impact.hosts.extend(facts.hosts.iter().cloned());
            }
        }
    }

    /// VirtualServices that name this gateway.
    fn bound_to(&self, gateway: &NamespacedName) -> impl Iterator<Item = &Arc<StoredConfig>> {
        self.by_gateway
            .range((gateway.clone(), first_key())..)
            .take_while(move |(other, _)| other == gateway)
            .filter_map(|(_, key)| self.configs.get(key))
    }

    fn index(&mut self, config: &Arc<StoredConfig>, impact: &mut Impact) {
        let Facts::VirtualService(facts) = &config.facts else {
            if let Facts::Gateway(facts) = &config.facts
                && let Some(name) = &facts.name
            {
                self.gateways.insert(name.clone(), facts.clone());
            }
            return;
        };
        for host in &facts.hosts {
            self.virtual_services
                .insert((host.clone(), config.precedence()), config.clone());
        }
        for gateway in &facts.gateways {
            self.by_gateway
                .insert((gateway.clone(), config.key.clone()));
        }
        for hostname in &facts.portless {
            self.portless.insert((hostname.clone(), config.key.clone()));
        }
        for hostname in &facts.destinations {
            let count = self.references.get(hostname).copied().unwrap_or(0);
            self.references.insert(hostname.clone(), count + 1);
            if count == 0 {
                impact.services.insert(hostname.clone());
            }
        }
        add_hosts(facts, impact);
    }

    fn unindex(&mut self, config: &Arc<StoredConfig>, impact: &mut Impact) {
        let Facts::VirtualService(facts) = &config.facts else {
            if let Facts::Gateway(facts) = &config.facts
                && let Some(name) = &facts.name
            {
                self.gateways.remove(name);
            }
            return;
        };
        for host in &facts.hosts {
            self.virtual_services
                .remove(&(host.clone(), config.precedence()));
        }
        for gateway in &facts.gateways {
            self.by_gateway
                .remove(&(gateway.clone(), config.key.clone()));
        }
        for hostname in &facts.portless {
            self.portless
                .remove(&(hostname.clone(), config.key.clone()));
        }
        for hostname in &facts.destinations {
            match self.references.get(hostname).copied() {
                Some(count) if count > 1 => {
                    self.references.insert(hostname.clone(), count - 1);
                }
                _ => {
                    self.references.remove(hostname);
                    impact.services.insert(hostname.clone());
                }
            }
        }
        add_hosts(facts, impact);
    }
}

/// The lowest key there is, to start a range from.
fn first_key() -> ConfigKey {
    let kind = Kind::ALL
        .iter()
        .min()
        .copied()
        .unwrap_or(Kind::VirtualService);
    ConfigKey::new(kind, "", "")
}

fn add_hosts(facts: &VirtualServiceFacts, impact: &mut Impact) {
    impact.hosts.extend(facts.hosts.iter().cloned());
}

fn gateway(config: &Option<Arc<StoredConfig>>) -> Option<&Arc<GatewayFacts>> {
    match &config.as_ref()?.facts {
        Facts::Gateway(gateway) => Some(gateway),
        _ => None,
    }
}

fn gateway_of(config: &Option<Arc<StoredConfig>>) -> Option<Arc<GatewayFacts>> {
    gateway(config).cloned()
}
