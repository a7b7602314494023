//! CDS: one cluster per service port, and one for each subset of its endpoints; clusters that fall back to others.

mod aggregate;
mod connection_pool;
mod load_balancer;
mod outlier;
mod tls;

use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3 as cluster;
use envoy_types::pb::envoy::config::endpoint::v3 as endpoint;
use envoy_types::pb::envoy::extensions::clusters::common::dns::v3 as common_dns;
use envoy_types::pb::envoy::extensions::clusters::dns::v3 as dns_cluster;

use connection_pool::Upstream;

use super::issue::{Generated, Reason};
use super::report::{Problem, Report};
use super::traffic_policy::{Policy, Rule};
use super::{names, proto};
use crate::model::service::{Resolution, Service, ServicePort};

pub use aggregate::fallback_cluster;
pub use tls::{Credentials, SecretLookup, credentials};

/// What the mesh says about all clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterOptions {
    /// How long a connection may take to be established.
    pub connect_timeout: Duration,
    /// Bound on connections, pending requests and requests per cluster; retries are not bounded.
    pub concurrency_threshold: u32,
    /// How often names are resolved when the answer has no time to live.
    pub dns_refresh_rate: Duration,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            concurrency_threshold: u32::MAX,
            dns_refresh_rate: Duration::from_secs(60),
        }
    }
}

/// What a cluster is made from.
#[derive(Clone, Copy)]
pub struct ClusterInput<'a> {
    /// The service.
    pub service: &'a Service,
    /// One of its ports.
    pub port: &'a ServicePort,
    /// One of the rule's subsets; empty for all endpoints.
    pub subset: &'a str,
    /// The DestinationRules of the service.
    pub rule: &'a Rule,
    /// Options of all clusters.
    pub options: &'a ClusterOptions,
    /// What Secrets there are.
    pub secrets: &'a dyn SecretLookup,
}

impl std::fmt::Debug for ClusterInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterInput")
            .field("hostname", &self.service.hostname)
            .field("port", &self.port.number)
            .field("subset", &self.subset)
            .finish_non_exhaustive()
    }
}

/// The cluster of a service port without any rule.
#[must_use]
pub fn cluster(
    service: &Service,
    port: &ServicePort,
    options: &ClusterOptions,
) -> cluster::Cluster {
    let name = names::cluster_name(port.number, "", &service.hostname);
    let upstream = Upstream::new(port.protocol.is_http2());
    let mut result = discovered(base(name, options), service, port, options);
    upstream.finish(&mut result);
    result
}

/// The cluster of a service port, or of a subset of its endpoints, as the rules want it.
#[must_use]
pub fn cluster_with_rule(input: ClusterInput<'_>) -> Generated<cluster::Cluster> {
    let ClusterInput {
        service,
        port,
        subset,
        rule,
        options,
        secrets,
    } = input;
    let Some(origin) = &rule.origin else {
        return Generated {
            resource: cluster(service, port, options),
            issues: Vec::new(),
        };
    };
    let name = names::cluster_name(port.number, subset, &service.hostname);
    let mut issues = Vec::new();
    let mut report = Report {
        issues: &mut issues,
        origin,
        at: &name,
    };
    let mut upstream = Upstream::new(port.protocol.is_http2());
    let mut base = base(name.clone(), options);
    let path = names::origin_path("destination-rule", &origin.namespace, &origin.name);
    base.metadata = Some(proto::origin_metadata(path));
    let policy = rule.policy(port.number, subset);
    let open = apply(policy, secrets, &mut base, (&mut upstream, &mut report));
    unsupported(rule, &mut report);
    let open = open.and_then(|()| labels(rule, subset));
    let mut resource = match open {
        Ok(()) => discovered(base, service, port, options),
        Err(problem) => {
            report.add(problem.and("requests are answered with 503"));
            closed(base)
        }
    };
    upstream.finish(&mut resource);
    Generated { resource, issues }
}

fn apply(
    policy: Policy<'_>,
    secrets: &dyn SecretLookup,
    base: &mut cluster::Cluster,
    (upstream, report): (&mut Upstream, &mut Report<'_>),
) -> Result<(), Problem> {
    if let Some(settings) = policy.load_balancer {
        load_balancer::apply(settings, base, report);
    }
    if let Some(settings) = policy.connection_pool {
        connection_pool::apply(settings, base, upstream, report);
    }
    if let Some(settings) = policy.outlier_detection {
        outlier::apply(settings, base, report);
    }
    match policy.tls {
        Some(settings) => tls::apply(settings, secrets, base, upstream),
        None => Ok(()),
    }
}

fn unsupported(rule: &Rule, report: &mut Report<'_>) {
    let Some(policy) = rule.top() else { return };
    for (set, what) in [
        (policy.tunnel.is_some(), "tunnel"),
        (policy.proxy_protocol.is_some(), "proxyProtocol"),
        (policy.retry_budget.is_some(), "retryBudget"),
    ] {
        if set {
            report.add(Problem::new(
                Reason::Unsupported,
                format!("{what} is not served; it is left out"),
            ));
        }
    }
}

/// Endpoints come without the labels of their Pods, so that none of them is in a subset that asks for some.
fn labels(rule: &Rule, subset: &str) -> Result<(), Problem> {
    match rule.subset(subset) {
        Some(subset) if !subset.labels.is_empty() => Err(Problem::new(
            Reason::Unsupported,
            format!(
                "subset {:?}: the labels of endpoints are not known",
                subset.name
            ),
        )),
        _ => Ok(()),
    }
}

/// Answers 503 to everything: without endpoints nothing leaves the gateway.
fn closed(base: cluster::Cluster) -> cluster::Cluster {
    cluster::Cluster {
        cluster_discovery_type: discovery(cluster::cluster::DiscoveryType::Static),
        transport_socket: None,
        ..base
    }
}

fn discovered(
    base: cluster::Cluster,
    service: &Service,
    port: &ServicePort,
    options: &ClusterOptions,
) -> cluster::Cluster {
    match &service.resolution {
        Resolution::Dns { address } if !address.is_empty() => {
            dns(base, address, port.number, options)
        }
        Resolution::Dns { .. } => closed(base),
        Resolution::Eds => eds(base),
    }
}

/// The cluster that takes traffic and answers 503: it has no endpoints.
#[must_use]
pub fn black_hole_cluster(options: &ClusterOptions) -> cluster::Cluster {
    cluster::Cluster {
        name: names::BLACK_HOLE_CLUSTER.to_owned(),
        cluster_discovery_type: discovery(cluster::cluster::DiscoveryType::Static),
        connect_timeout: Some(proto::duration(options.connect_timeout)),
        ..Default::default()
    }
}

fn base(name: String, options: &ClusterOptions) -> cluster::Cluster {
    cluster::Cluster {
        name,
        connect_timeout: Some(proto::duration(options.connect_timeout)),
        lb_policy: cluster::cluster::LbPolicy::LeastRequest.into(),
        circuit_breakers: Some(circuit_breakers(options.concurrency_threshold)),
        common_lb_config: Some(cluster::cluster::CommonLbConfig::default()),
        ..Default::default()
    }
}

fn circuit_breakers(threshold: u32) -> cluster::CircuitBreakers {
    let bounds = cluster::circuit_breakers::Thresholds {
        max_connections: Some(proto::uint(threshold)),
        max_pending_requests: Some(proto::uint(threshold)),
        max_requests: Some(proto::uint(threshold)),
        max_retries: Some(proto::uint(u32::MAX)),
        track_remaining: true,
        ..Default::default()
    };
    cluster::CircuitBreakers {
        thresholds: vec![bounds],
        ..Default::default()
    }
}

fn eds(base: cluster::Cluster) -> cluster::Cluster {
    let config = cluster::cluster::EdsClusterConfig {
        eds_config: Some(proto::ads()),
        service_name: base.name.clone(),
    };
    cluster::Cluster {
        cluster_discovery_type: discovery(cluster::cluster::DiscoveryType::Eds),
        eds_cluster_config: Some(config),
        ..base
    }
}

/// Start never waits for a name to resolve: until it does, the cluster answers 503.
fn dns(
    base: cluster::Cluster,
    address: &str,
    port: u16,
    options: &ClusterOptions,
) -> cluster::Cluster {
    let target = endpoint::Endpoint {
        address: Some(proto::socket_address(address, port)),
        ..Default::default()
    };
    let target = endpoint::LbEndpoint {
        host_identifier: Some(endpoint::lb_endpoint::HostIdentifier::Endpoint(target)),
        ..Default::default()
    };
    let assignment = endpoint::ClusterLoadAssignment {
        cluster_name: base.name.clone(),
        endpoints: vec![endpoint::LocalityLbEndpoints {
            lb_endpoints: vec![target],
            ..Default::default()
        }],
        ..Default::default()
    };
    let config = dns_cluster::DnsCluster {
        dns_refresh_rate: Some(proto::duration(options.dns_refresh_rate)),
        dns_lookup_family: common_dns::DnsLookupFamily::V4Preferred.into(),
        respect_dns_ttl: true,
        ..Default::default()
    };
    let kind = cluster::cluster::CustomClusterType {
        name: "envoy.clusters.dns".to_owned(),
        typed_config: Some(proto::any(&config)),
    };
    cluster::Cluster {
        cluster_discovery_type: Some(cluster::cluster::ClusterDiscoveryType::ClusterType(kind)),
        load_assignment: Some(assignment),
        wait_for_warm_on_init: Some(proto::boolean(false)),
        ..base
    }
}

fn discovery(
    kind: cluster::cluster::DiscoveryType,
) -> Option<cluster::cluster::ClusterDiscoveryType> {
    Some(cluster::cluster::ClusterDiscoveryType::Type(kind.into()))
}

#[cfg(test)]
mod tests;
