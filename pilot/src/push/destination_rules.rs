//! DestinationRules by host, and which of them a class of proxies uses for a service (Istio's levels).

use std::sync::Arc;

use imbl::OrdMap;
use shared_proto::networking::v1alpha3 as istio;

use crate::model::config::{Facts, Precedence, StoredConfig};
use crate::model::destination_rule::DestinationRuleFacts;
use crate::model::host;
use crate::model::proxy::ProxyClass;
use crate::model::service::Service;

/// For whom rules are looked up.
#[derive(Clone, Copy, Debug)]
pub struct RuleQuery<'a> {
    /// The proxies.
    pub class: &'a ProxyClass,
    /// Namespace whose rules are for all.
    pub root_namespace: &'a str,
    /// The service.
    pub service: &'a Service,
}

/// An index; cloning shares it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DestinationRules(OrdMap<(Arc<str>, Precedence), Arc<StoredConfig>>);

impl DestinationRules {
    pub(super) fn insert(&mut self, facts: &DestinationRuleFacts, config: &Arc<StoredConfig>) {
        self.0
            .insert((facts.host.clone(), config.precedence()), config.clone());
    }

    pub(super) fn remove(&mut self, facts: &DestinationRuleFacts, config: &StoredConfig) {
        self.0.remove(&(facts.host.clone(), config.precedence()));
    }

    /// All rules whose host is that of a service or a wildcard above it.
    pub(super) fn matching(&self, hostname: &Arc<str>) -> impl Iterator<Item = Rule<'_>> {
        hosts_above(hostname, self.0.is_empty())
            .into_iter()
            .flat_map(|host| self.of_host(host))
    }

    /// The rules that a class of proxies uses for a service, in order of precedence: those of the first level that has
    /// any (its own namespace, the service's, the root namespace), for the most specific host.
    pub(super) fn lookup(&self, query: RuleQuery<'_>) -> Vec<&Arc<StoredConfig>> {
        let hosts = hosts_above(&query.service.hostname, self.0.is_empty());
        for level in [own_namespace, service_namespace, root_namespace] {
            for host in &hosts {
                let rules = self.of_host(host.clone());
                let rules: Vec<_> = rules.filter(|rule| level(query, rule)).collect();
                let chosen = by_selector(query.class, &rules);
                if !chosen.is_empty() {
                    return chosen;
                }
            }
        }
        Vec::new()
    }

    fn of_host(&self, host: Arc<str>) -> impl Iterator<Item = Rule<'_>> {
        let first = (host.clone(), (i64::MIN, Arc::from(""), Arc::from("")));
        let range = self.0.range(first..);
        range
            .take_while(move |((other, _), _)| *other == host)
            .filter_map(|(_, config)| match &config.facts {
                Facts::DestinationRule(facts) => Some(Rule { config, facts }),
                _ => None,
            })
    }
}

/// A rule with its facts at hand.
pub(super) struct Rule<'a> {
    pub(super) config: &'a Arc<StoredConfig>,
    pub(super) facts: &'a DestinationRuleFacts,
}

impl Rule<'_> {
    fn exported_to(&self, namespace: &str) -> bool {
        self.facts.exported(&self.config.key.namespace, namespace)
    }
}

/// The host itself, then the wildcards above it, the most specific first.
fn hosts_above(hostname: &Arc<str>, skip: bool) -> Vec<Arc<str>> {
    if skip {
        return Vec::new();
    }
    let wildcards = host::wildcards_above(hostname).map(Arc::from);
    [hostname.clone()].into_iter().chain(wildcards).collect()
}

fn own_namespace(query: RuleQuery<'_>, rule: &Rule<'_>) -> bool {
    let own = &*query.class.namespace;
    let namespace = &*rule.config.key.namespace;
    // Proxies of the root namespace prefer what is only theirs.
    let fits = own != query.root_namespace || rule.facts.is_private(namespace);
    namespace == own && fits && rule.exported_to(own)
}

fn service_namespace(query: RuleQuery<'_>, rule: &Rule<'_>) -> bool {
    rule.config.key.namespace == query.service.namespace && rule.exported_to(&query.class.namespace)
}

fn root_namespace(query: RuleQuery<'_>, rule: &Rule<'_>) -> bool {
    *rule.config.key.namespace == *query.root_namespace && rule.exported_to(&query.class.namespace)
}

/// Rules with the first selector that selects the proxies, else those without selector.
fn by_selector<'a>(class: &ProxyClass, rules: &[Rule<'a>]) -> Vec<&'a Arc<StoredConfig>> {
    let selecting = rules
        .iter()
        .map(|rule| &rule.facts.selector)
        .find(|selector| !selector.is_empty() && class.selected_by(selector));
    let none = Default::default();
    let selector = selecting.unwrap_or(&none);
    rules
        .iter()
        .filter(|rule| rule.facts.selector == *selector)
        .map(|rule| rule.config)
        .collect()
}

/// Whether two versions of a rule have the same part that routes depend on: load balancers, and which of them counts.
pub(super) fn same_for_routes(old: Option<&StoredConfig>, new: Option<&StoredConfig>) -> bool {
    let (Some(old), Some(new)) = (old, new) else {
        return false;
    };
    let facts = |config: &StoredConfig| match &config.facts {
        Facts::DestinationRule(facts) => Some(facts.clone()),
        _ => None,
    };
    facts(old) == facts(new)
        && old.precedence() == new.precedence()
        && balancers(old) == balancers(new)
}

/// The rule without anything but its load balancers.
fn balancers(config: &StoredConfig) -> Option<istio::DestinationRule> {
    let spec = config.spec().ok()?;
    let rule = spec.get::<istio::DestinationRule>()?;
    Some(istio::DestinationRule {
        traffic_policy: rule.traffic_policy.as_ref().map(only_balancers),
        subsets: rule
            .subsets
            .iter()
            .map(|subset| istio::Subset {
                name: subset.name.clone(),
                traffic_policy: subset.traffic_policy.as_ref().map(only_balancers),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    })
}

fn only_balancers(policy: &istio::TrafficPolicy) -> istio::TrafficPolicy {
    istio::TrafficPolicy {
        load_balancer: policy.load_balancer.clone(),
        port_level_settings: policy
            .port_level_settings
            .iter()
            .map(|port| istio::traffic_policy::PortTrafficPolicy {
                port: port.port,
                load_balancer: port.load_balancer.clone(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}
