//! CDS: one cluster per service port.

use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3 as cluster;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::endpoint::v3 as endpoint;
use envoy_types::pb::envoy::extensions::clusters::common::dns::v3 as common_dns;
use envoy_types::pb::envoy::extensions::clusters::dns::v3 as dns_cluster;
use envoy_types::pb::envoy::extensions::upstreams::http::v3 as upstream_http;

use super::{names, proto};
use crate::model::service::{Resolution, Service, ServicePort};

const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

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

/// The cluster of a service port.
#[must_use]
pub fn cluster(
    service: &Service,
    port: &ServicePort,
    options: &ClusterOptions,
) -> cluster::Cluster {
    let name = names::cluster_name(port.number, "", &service.hostname);
    let base = base(name, port, options);
    match &service.resolution {
        Resolution::Dns { address } if !address.is_empty() => {
            dns(base, address, port.number, options)
        }
        Resolution::Dns { .. } => cluster::Cluster {
            cluster_discovery_type: discovery(cluster::cluster::DiscoveryType::Static),
            ..base
        },
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

fn base(name: String, port: &ServicePort, options: &ClusterOptions) -> cluster::Cluster {
    let mut result = cluster::Cluster {
        name,
        connect_timeout: Some(proto::duration(options.connect_timeout)),
        lb_policy: cluster::cluster::LbPolicy::LeastRequest.into(),
        circuit_breakers: Some(circuit_breakers(options.concurrency_threshold)),
        common_lb_config: Some(cluster::cluster::CommonLbConfig::default()),
        ..Default::default()
    };
    if port.protocol.is_http2() {
        result
            .typed_extension_protocol_options
            .insert(HTTP_OPTIONS.to_owned(), proto::any(&explicit_http2()));
    }
    result
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

fn explicit_http2() -> upstream_http::HttpProtocolOptions {
    use upstream_http::http_protocol_options::{
        ExplicitHttpConfig, UpstreamProtocolOptions, explicit_http_config::ProtocolConfig,
    };
    let http2 = ProtocolConfig::Http2ProtocolOptions(core::Http2ProtocolOptions::default());
    let explicit = ExplicitHttpConfig {
        protocol_config: Some(http2),
    };
    upstream_http::HttpProtocolOptions {
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(explicit)),
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
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::model::service::Protocol;

    fn service(resolution: Resolution, protocol: Protocol) -> Service {
        Service {
            hostname: "web.shop.svc.cluster.local".into(),
            namespace: "shop".into(),
            name: "web".into(),
            ports: vec![ServicePort {
                name: "p".into(),
                number: 80,
                protocol,
            }],
            resolution,
            created: 0,
        }
    }

    fn built(service: &Service) -> cluster::Cluster {
        cluster(service, &service.ports[0], &ClusterOptions::default())
    }

    #[rstest]
    #[case(Protocol::Http, false)]
    #[case(Protocol::Https, false)]
    #[case(Protocol::Tcp, false)]
    #[case(Protocol::Http2, true)]
    #[case(Protocol::Grpc, true)]
    #[case(Protocol::GrpcWeb, true)]
    fn http2_is_explicit(#[case] protocol: Protocol, #[case] expected: bool) {
        let cluster = built(&service(Resolution::Eds, protocol));
        assert_eq!(cluster.name, "outbound|80||web.shop.svc.cluster.local");
        assert_eq!(
            cluster
                .typed_extension_protocol_options
                .contains_key(HTTP_OPTIONS),
            expected
        );
        assert_eq!(
            cluster.eds_cluster_config.unwrap().service_name,
            cluster.name
        );
    }

    #[test]
    fn names_are_resolved_by_envoy_and_never_waited_for() {
        let address = "example.org".into();
        let cluster = built(&service(Resolution::Dns { address }, Protocol::Http));
        let Some(cluster::cluster::ClusterDiscoveryType::ClusterType(kind)) =
            cluster.cluster_discovery_type
        else {
            panic!("not resolved by Envoy");
        };
        assert_eq!(kind.name, "envoy.clusters.dns");
        assert_eq!(cluster.wait_for_warm_on_init, Some(proto::boolean(false)));
    }

    #[test]
    fn an_empty_name_has_no_endpoints() {
        let address = "".into();
        let cluster = built(&service(Resolution::Dns { address }, Protocol::Http));
        assert!(cluster.load_assignment.is_none());
    }
}
