//! What the generators look up for a class: services and their ports, rules, Secrets.

use std::collections::BTreeSet;
use std::sync::Arc;

use shared_proto::networking::v1alpha3::DestinationRule;
use shared_proto::networking::v1alpha3::load_balancer_settings::ConsistentHashLb;

use super::PushOptions;
use super::servers::{Credential, secret_of};
use crate::model::change::NamespacedName;
use crate::model::config::{Facts, StoredConfig, full_host};
use crate::model::proxy::ProxyClass;
use crate::model::secret::TlsSecret;
use crate::model::service::{Protocol, Service, ServicePort};
use crate::push::context::has_any_port;
use crate::push::destination_rules::RuleQuery;
use crate::push::world::World;
use crate::translate::cds::{Credentials, SecretLookup};
use crate::translate::traffic_policy::Rule;
use crate::translate::{Origin, names, rds};

/// A class and a world.
#[derive(Clone, Copy)]
pub(super) struct Lookup<'a> {
    pub(super) class: &'a ProxyClass,
    pub(super) world: &'a World,
    pub(super) options: &'a PushOptions,
}

/// A part of a service that has a cluster of its own.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) port: ServicePort,
    /// Empty for all endpoints.
    pub(super) subset: Arc<str>,
    /// The subset asks for labels, which endpoints do not have.
    pub(super) labelled: bool,
}

impl Part {
    pub(super) fn cluster_name(&self, hostname: &str) -> String {
        names::cluster_name(self.port.number, &self.subset, hostname)
    }
}

impl<'a> Lookup<'a> {
    /// A service that gets clusters.
    pub(super) fn service(&self, hostname: &str) -> Option<&'a Arc<Service>> {
        let context = &self.world.context;
        let wanted = self.options.all_clusters || context.referenced(hostname);
        context.services.get(hostname).filter(|_| wanted)
    }

    /// The parts of a service that get clusters.
    pub(super) fn parts(&self, hostname: &str) -> Vec<Part> {
        let Some(service) = self.service(hostname) else {
            return Vec::new();
        };
        let mut subsets: Vec<(Arc<str>, bool)> = vec![(Arc::from(""), false)];
        for config in self.rules(service) {
            let Facts::DestinationRule(facts) = &config.facts else {
                continue;
            };
            for subset in &facts.subsets {
                if subsets.iter().all(|(name, _)| *name != subset.name) {
                    subsets.push((subset.name.clone(), subset.labelled));
                }
            }
        }
        let ports = self.ports(service);
        let parts = ports.iter().flat_map(|port| {
            subsets.iter().map(|(subset, labelled)| Part {
                port: port.clone(),
                subset: subset.clone(),
                labelled: *labelled,
            })
        });
        parts.collect()
    }

    /// Names of all clusters of a service.
    pub(super) fn cluster_names(&self, hostname: &str) -> BTreeSet<String> {
        let parts = self.parts(hostname);
        parts
            .iter()
            .map(|part| part.cluster_name(hostname))
            .collect()
    }

    /// Whether a service has the same parts in both worlds, found in the same way.
    pub(super) fn same_parts(&self, other: &Self, hostname: &str) -> bool {
        let resolution = |lookup: &Self| {
            let service = lookup.service(hostname)?;
            Some(service.resolution.clone())
        };
        resolution(self) == resolution(other) && self.parts(hostname) == other.parts(hostname)
    }

    /// The ports of a service that get clusters: those that routes ask for. A route that names none may lead to any of them.
    /// A name without ports of its own has all that are asked for.
    fn ports(&self, service: &Service) -> Vec<ServicePort> {
        let context = &self.world.context;
        let any = has_any_port(service);
        let all = self.options.all_clusters || context.referenced_without_port(&service.hostname);
        if all && !any {
            return service.ports.clone();
        }
        let asked = context.referenced_ports(&service.hostname);
        if !any {
            let is_asked = |port: &&ServicePort| asked.binary_search(&port.number).is_ok();
            return service.ports.iter().filter(is_asked).cloned().collect();
        }
        let port = |number| ServicePort {
            name: Arc::from(""),
            number,
            protocol: Protocol::Http,
        };
        asked.into_iter().map(port).collect()
    }

    fn rules(&self, service: &'a Service) -> Vec<&'a Arc<StoredConfig>> {
        self.world.context.destination_rules(RuleQuery {
            class: self.class,
            root_namespace: &self.options.root_namespace,
            service,
        })
    }

    /// The DestinationRules of a service as one.
    pub(super) fn rule(&self, service: &'a Service) -> Rule {
        let rules = self.rules(service);
        Rule::merge(rules.into_iter().filter_map(|config| {
            let spec = config.spec().ok()?;
            let rule = spec.get::<DestinationRule>()?.clone();
            Some((origin(config), rule))
        }))
    }

    /// A Secret's trust anchors under an SDS name that ends in `-cacert`: in the Secret of that name, or beside the
    /// certificate.
    pub(super) fn anchors(&self, name: &str) -> Option<&'a TlsSecret> {
        let secrets = &self.world.secrets;
        let parsed = names::parse_secret_name(name)?;
        let namespace = parsed.namespace.as_deref().unwrap_or(&self.class.namespace);
        let of = |name: &str| {
            let secret = secrets.get(&NamespacedName::new(namespace, name));
            secret.filter(|secret| secret.ca.as_ref().is_some_and(|ca| !ca.is_empty()))
        };
        let secret = of(&parsed.name).or_else(|| of(parsed.ca_base()?))?;
        Some(secret)
    }
}

fn origin(config: &StoredConfig) -> Origin {
    Origin {
        namespace: config.key.namespace.to_string(),
        name: config.key.name.to_string(),
    }
}

/// The Secrets that the rules of one namespace may use.
pub(super) struct RuleSecrets<'a> {
    pub(super) lookup: Lookup<'a>,
    pub(super) namespace: &'a str,
}

impl RuleSecrets<'_> {
    /// All that has to be followed to know about the Secrets of a setting, there or not.
    pub(super) fn credentials(&self, needed: &Credentials) -> BTreeSet<Credential> {
        let mut followed = BTreeSet::new();
        let mut follow = |secret_name: &str, name: &Arc<str>, trust| {
            let secret = secret_of(self.lookup.class, Some(self.namespace), secret_name);
            followed.extend(secret.map(|secret| Credential {
                secret,
                name: name.clone(),
                trust,
            }));
        };
        if let Some(name) = &needed.certificate {
            follow(name, name, false);
        }
        if let Some(name) = &needed.anchors {
            follow(name, name, true);
            follow(names::without_ca_suffix(name), name, true);
        }
        followed
    }

    fn allowed(&self, name: &str) -> Option<NamespacedName> {
        let class = self.lookup.class;
        secret_of(class, Some(self.namespace), name).filter(|_| class.secrets)
    }
}

impl SecretLookup for RuleSecrets<'_> {
    fn certificate(&self, name: &str) -> bool {
        self.allowed(name)
            .and_then(|secret| self.lookup.world.secrets.get(&secret))
            .is_some_and(|secret| !secret.cert_chain.is_empty() && !secret.private_key.is_empty())
    }

    fn anchors(&self, name: &str) -> bool {
        self.allowed(name).is_some() && self.lookup.anchors(name).is_some()
    }
}

impl rds::ServiceLookup for Lookup<'_> {
    fn service(&self, hostname: &str, namespace: &str) -> Option<Arc<Service>> {
        let hostname = full_host(hostname, namespace, &self.options.domain);
        self.world.context.services.get(&hostname).cloned()
    }

    fn complete(&self, hostname: &str, namespace: &str) -> String {
        full_host(hostname, namespace, &self.options.domain).to_string()
    }

    fn hash(&self, hostname: &str, port: u16, subset: &str) -> Option<ConsistentHashLb> {
        let service = self.world.context.services.get(hostname)?;
        let hashes = |config: &&Arc<StoredConfig>| match &config.facts {
            Facts::DestinationRule(facts) => facts.hashes,
            _ => false,
        };
        if !self.rules(service).iter().any(hashes) {
            return None;
        }
        let rule = self.rule(service);
        rule.policy(port, subset).consistent_hash().cloned()
    }
}
