//! EDS: the endpoints of one cluster.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::endpoint::v3 as endpoint;

use super::proto;
use crate::model::endpoint::{Endpoint, Endpoints};
use crate::model::service::ServicePort;

/// The endpoints of a service port, grouped by region and zone in the order of their names. Always
/// an answer, an empty one when there are no endpoints: Envoy waits for a cluster's first answer.
///
/// Endpoints that are not healthy are left out.
#[must_use]
pub fn cluster_load_assignment(
    cluster_name: &str,
    port: &ServicePort,
    endpoints: &Endpoints,
) -> endpoint::ClusterLoadAssignment {
    let mut zones: BTreeMap<(&str, &str), Vec<&Endpoint>> = BTreeMap::new();
    for endpoint in endpoints.port(&port.name) {
        if endpoint.healthy {
            let region = endpoint.region.as_deref().unwrap_or_default();
            let zone = endpoint.zone.as_deref().unwrap_or_default();
            zones.entry((region, zone)).or_default().push(endpoint);
        }
    }
    endpoint::ClusterLoadAssignment {
        cluster_name: cluster_name.to_owned(),
        endpoints: zones
            .into_iter()
            .map(|(place, members)| locality(place, &members))
            .collect(),
        ..Default::default()
    }
}

fn locality((region, zone): (&str, &str), members: &[&Endpoint]) -> endpoint::LocalityLbEndpoints {
    let locality = core::Locality {
        region: region.to_owned(),
        zone: zone.to_owned(),
        ..Default::default()
    };
    endpoint::LocalityLbEndpoints {
        locality: Some(locality),
        lb_endpoints: members.iter().map(|member| lb_endpoint(member)).collect(),
        load_balancing_weight: u32::try_from(members.len()).ok().map(proto::uint),
        ..Default::default()
    }
}

fn lb_endpoint(member: &Endpoint) -> endpoint::LbEndpoint {
    let endpoint = endpoint::Endpoint {
        address: Some(proto::socket_address(
            &member.address.to_string(),
            member.port,
        )),
        ..Default::default()
    };
    endpoint::LbEndpoint {
        host_identifier: Some(endpoint::lb_endpoint::HostIdentifier::Endpoint(endpoint)),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::service::Protocol;

    fn port() -> ServicePort {
        ServicePort {
            name: "http".into(),
            number: 80,
            protocol: Protocol::Http,
        }
    }

    #[test]
    fn zones_are_sorted_and_unhealthy_endpoints_left_out() {
        let member = |address: &str, zone: Option<&str>, healthy| {
            let mut endpoint = Endpoint::new(address.parse().unwrap(), 8080);
            endpoint.zone = zone.map(Into::into);
            endpoint.healthy = healthy;
            ("http".into(), endpoint)
        };
        let endpoints = Endpoints::new([
            member("10.0.0.3", Some("b"), true),
            member("10.0.0.2", Some("a"), true),
            member("fd00::1", Some("a"), true),
            member("10.0.0.4", Some("a"), false),
        ]);
        let assignment = cluster_load_assignment("c", &port(), &endpoints);
        let zones: Vec<_> = assignment
            .endpoints
            .iter()
            .map(|zone| {
                (
                    zone.locality.as_ref().unwrap().zone.as_str(),
                    zone.lb_endpoints.len(),
                )
            })
            .collect();
        assert_eq!(zones, [("a", 2), ("b", 1)]);
    }

    #[test]
    fn no_endpoints_is_an_answer_too() {
        let assignment = cluster_load_assignment("c", &port(), &Endpoints::default());
        assert_eq!(assignment.cluster_name, "c");
        assert!(assignment.endpoints.is_empty());
    }
}
