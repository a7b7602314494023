//! Clusters with and without rules.

use rstest::rstest;

use super::*;
use crate::model::service::Protocol;

const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

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
