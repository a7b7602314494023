//! What indexes need to know of a DestinationRule, without its traffic policies.

use std::sync::Arc;

use shared_proto::networking::v1alpha3 as istio;

use istio::load_balancer_settings::LbPolicy;

use super::config::full_host;
use super::pairs::Pairs;

/// Facts of a DestinationRule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DestinationRuleFacts {
    /// Host in lower case, completed; may begin with a wildcard.
    pub host: Arc<str>,
    /// Namespaces that it is exported to, as written; empty for all.
    pub export_to: Vec<Arc<str>>,
    /// Labels of the proxies that it is for; empty for all.
    pub selector: Pairs,
    /// Its subsets whose names can be part of a cluster name, without duplicates.
    pub subsets: Vec<SubsetFacts>,
    /// One of its load balancers hashes requests: routes depend on the rule.
    pub hashes: bool,
}

/// A subset of the endpoints of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubsetFacts {
    /// Its name.
    pub name: Arc<str>,
    /// It asks for labels of endpoints; otherwise it has all of them.
    pub labelled: bool,
}

impl DestinationRuleFacts {
    /// Facts of a rule in a namespace. `domain` completes short host names.
    pub fn of(rule: &istio::DestinationRule, namespace: &str, domain: &str) -> Self {
        let mut subsets: Vec<SubsetFacts> = Vec::new();
        for subset in &rule.subsets {
            let known = subsets.iter().any(|known| *known.name == *subset.name);
            if is_subset_name(&subset.name) && !known {
                subsets.push(SubsetFacts {
                    name: subset.name.as_str().into(),
                    labelled: !subset.labels.is_empty(),
                });
            }
        }
        let selector = rule.workload_selector.as_ref();
        let policies = rule.subsets.iter().map(|subset| &subset.traffic_policy);
        Self {
            host: full_host(&rule.host, namespace, domain),
            export_to: rule.export_to.iter().map(|to| to.as_str().into()).collect(),
            selector: selector
                .map(|selector| selector.match_labels.clone().into_iter().collect())
                .unwrap_or_default(),
            subsets,
            hashes: policies.chain([&rule.traffic_policy]).flatten().any(hashes),
        }
    }

    /// Whether proxies of a namespace may use the rule, which is in `own`. One with a selector is for its own
    /// namespace.
    pub fn exported(&self, own: &str, to: &str) -> bool {
        if !self.selector.is_empty() {
            return own == to;
        }
        self.export_to.is_empty()
            || self.export_to.iter().any(|name| match &**name {
                "*" => true,
                "." => own == to,
                name => name == to,
            })
    }

    /// Whether nobody outside of its own namespace may use the rule.
    pub fn is_private(&self, own: &str) -> bool {
        let only_own = |name: &Arc<str>| matches!(&**name, "." | "~") || **name == *own;
        !self.selector.is_empty()
            || (!self.export_to.is_empty() && self.export_to.iter().all(only_own))
    }
}

/// A name that can stand in a cluster name.
pub fn is_subset_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty() && name.len() <= 63 && name.bytes().all(allowed)
}

fn hashes(policy: &istio::TrafficPolicy) -> bool {
    let ports = policy.port_level_settings.iter();
    ports
        .map(|port| &port.load_balancer)
        .chain([&policy.load_balancer])
        .flatten()
        .any(|balancer| matches!(balancer.lb_policy, Some(LbPolicy::ConsistentHash(_))))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("{host: web}", "a", true)]
    #[case("{host: web, exportTo: ['*']}", "a", true)]
    #[case("{host: web, exportTo: ['.']}", "a", false)]
    #[case("{host: web, exportTo: ['.']}", "shop", true)]
    #[case("{host: web, exportTo: ['~']}", "shop", false)]
    #[case("{host: web, exportTo: [a, b]}", "a", true)]
    #[case("{host: web, workloadSelector: {matchLabels: {x: y}}}", "a", false)]
    fn visibility(#[case] rule: &str, #[case] to: &str, #[case] expected: bool) {
        let rule: istio::DestinationRule = serde_yaml::from_str(rule).unwrap();
        let facts = DestinationRuleFacts::of(&rule, "shop", "cluster.local");
        assert_eq!(&*facts.host, "web.shop.svc.cluster.local");
        assert_eq!(facts.exported("shop", to), expected);
    }

    #[test]
    fn hashing_is_found_wherever_it_is() {
        let hash = "loadBalancer: {consistentHash: {useSourceIp: true}}";
        let table = [
            (format!("{{host: w, trafficPolicy: {{{hash}}}}}"), true),
            (
                format!(
                    "{{host: w, trafficPolicy: {{portLevelSettings: [{{port: {{number: 80}}, {hash}}}]}}}}"
                ),
                true,
            ),
            (
                format!("{{host: w, subsets: [{{name: a, trafficPolicy: {{{hash}}}}}]}}"),
                true,
            ),
            (
                "{host: w, trafficPolicy: {loadBalancer: {simple: RANDOM}}}".to_owned(),
                false,
            ),
        ];
        for (text, expected) in table {
            let rule: istio::DestinationRule = serde_yaml::from_str(&text).unwrap();
            let facts = DestinationRuleFacts::of(&rule, "n", "d");
            assert_eq!(facts.hashes, expected, "{text}");
        }
    }
}
