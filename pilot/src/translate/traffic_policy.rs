//! The DestinationRules of a service as one, and the policy that holds for a port and a subset.

use shared_proto::networking::v1alpha3 as istio;

use istio::load_balancer_settings::{ConsistentHashLb, LbPolicy};
use istio::traffic_policy::PortTrafficPolicy;

use super::issue::Origin;
use crate::model::destination_rule::is_subset_name;

/// All rules of a service, merged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// The first of the objects.
    pub origin: Option<Origin>,
    policy: Option<istio::TrafficPolicy>,
    subsets: Vec<istio::Subset>,
}

/// What holds for one cluster. Everything unset is Envoy's or the mesh's default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Policy<'a> {
    /// How an endpoint is chosen.
    pub load_balancer: Option<&'a istio::LoadBalancerSettings>,
    /// Bounds on connections and requests.
    pub connection_pool: Option<&'a istio::ConnectionPoolSettings>,
    /// When endpoints that fail are left out.
    pub outlier_detection: Option<&'a istio::OutlierDetection>,
    /// TLS to the endpoints.
    pub tls: Option<&'a istio::ClientTlsSettings>,
}

impl Rule {
    /// Merges rules in order of precedence (Istio): the first traffic policy counts whole, subsets are collected, of
    /// two with one name the first counts.
    #[must_use]
    pub fn merge(rules: impl IntoIterator<Item = (Origin, istio::DestinationRule)>) -> Self {
        let mut merged = Self::default();
        for (origin, rule) in rules {
            merged.origin.get_or_insert(origin);
            if merged.policy.is_none() {
                merged.policy = rule.traffic_policy;
            }
            for subset in rule.subsets {
                let known = merged.subsets.iter().any(|known| known.name == subset.name);
                if !known && is_subset_name(&subset.name) {
                    merged.subsets.push(subset);
                }
            }
        }
        merged
    }

    /// A subset by its name.
    #[must_use]
    pub fn subset(&self, name: &str) -> Option<&istio::Subset> {
        self.subsets.iter().find(|subset| subset.name == name)
    }

    /// The traffic policy of the whole service, for what has no setting per port.
    #[must_use]
    pub fn top(&self) -> Option<&istio::TrafficPolicy> {
        self.policy.as_ref()
    }

    /// The policy of a port; `subset` is empty for the whole service. Settings for a port replace all others, those of
    /// a subset replace one by one (Istio).
    #[must_use]
    pub fn policy(&self, port: u16, subset: &str) -> Policy<'_> {
        let mut policy = Policy::default();
        policy.apply(self.policy.as_ref(), port);
        let subset = self.subset(subset);
        policy.apply(
            subset.and_then(|subset| subset.traffic_policy.as_ref()),
            port,
        );
        policy
    }
}

impl<'a> Policy<'a> {
    fn apply(&mut self, policy: Option<&'a istio::TrafficPolicy>, port: u16) {
        let Some(policy) = policy else { return };
        let of_port = |settings: &&PortTrafficPolicy| {
            let number = settings.port.as_ref().map(|port| port.number);
            number == Some(port.into())
        };
        if let Some(settings) = policy.port_level_settings.iter().find(of_port) {
            *self = Self {
                load_balancer: settings.load_balancer.as_ref(),
                connection_pool: settings.connection_pool.as_ref(),
                outlier_detection: settings.outlier_detection.as_ref(),
                tls: settings.tls.as_ref(),
            };
            return;
        }
        *self = Self {
            load_balancer: policy.load_balancer.as_ref().or(self.load_balancer),
            connection_pool: policy.connection_pool.as_ref().or(self.connection_pool),
            outlier_detection: policy.outlier_detection.as_ref().or(self.outlier_detection),
            tls: policy.tls.as_ref().or(self.tls),
        };
    }

    /// How requests are hashed, when they are.
    #[must_use]
    pub fn consistent_hash(&self) -> Option<&'a ConsistentHashLb> {
        match self.load_balancer?.lb_policy.as_ref()? {
            LbPolicy::ConsistentHash(hash) => Some(hash),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn rule(text: &str) -> (Origin, istio::DestinationRule) {
        let origin = Origin {
            namespace: "n".to_owned(),
            name: "r".to_owned(),
        };
        (origin, serde_yaml::from_str(text).unwrap())
    }

    fn summary(policy: Policy<'_>) -> (i32, i32, bool) {
        let simple = policy.load_balancer.map(|lb| match lb.lb_policy {
            Some(LbPolicy::Simple(simple)) => simple,
            _ => -1,
        });
        let tcp = policy.connection_pool.and_then(|pool| pool.tcp.as_ref());
        (
            simple.unwrap_or(0),
            tcp.map_or(0, |tcp| tcp.max_connections),
            policy.tls.is_some(),
        )
    }

    const MERGED: [&str; 3] = [
        "{host: w, subsets: [{name: a, trafficPolicy: {loadBalancer: {simple: RANDOM}}}, {name: 'x|y'}]}",
        "{host: w, trafficPolicy: {
            connectionPool: {tcp: {maxConnections: 1}}, tls: {mode: SIMPLE},
            portLevelSettings: [{port: {number: 81}, connectionPool: {tcp: {maxConnections: 2}}}]},
          subsets: [{name: a}, {name: b, trafficPolicy: {
            connectionPool: {tcp: {maxConnections: 3}},
            portLevelSettings: [{port: {number: 81}, loadBalancer: {simple: ROUND_ROBIN}}]}}]}",
        "{host: w, trafficPolicy: {loadBalancer: {simple: ROUND_ROBIN}}, subsets: [{name: c}]}",
    ];

    #[rstest]
    #[case(80, "", (0, 1, true))]
    #[case(81, "", (0, 2, false))]
    #[case(80, "a", (2, 1, true))]
    #[case(81, "a", (2, 2, false))]
    #[case(80, "b", (0, 3, true))]
    #[case(81, "b", (4, 0, false))]
    #[case(80, "c", (0, 1, true))]
    #[case(80, "none", (0, 1, true))]
    fn merge_and_override(
        #[case] port: u16,
        #[case] subset: &str,
        #[case] expected: (i32, i32, bool),
    ) {
        let merged = Rule::merge(MERGED.map(rule));
        assert_eq!(summary(merged.policy(port, subset)), expected);
        assert!(merged.subset("x|y").is_none());
    }
}
