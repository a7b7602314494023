//! Addresses of the gateway, as a Service and an Ingress have them in their status.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::Ingress;
use serde::Serialize;

/// One address; ordered so that equal sets are equal lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Address {
    /// IP address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Host name, for load balancers that have names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
}

impl Address {
    fn new(ip: Option<String>, hostname: Option<String>) -> Option<Self> {
        let ip = ip.filter(|ip| !ip.is_empty());
        let hostname = hostname.filter(|name| !name.is_empty());
        (ip.is_some() || hostname.is_some()).then_some(Self { ip, hostname })
    }
}

/// Addresses by which a Service is reached from outside: those of its load balancer and its external IPs.
pub(super) fn of_service(service: &Service) -> BTreeSet<Address> {
    let balancer = service
        .status
        .iter()
        .filter_map(|status| status.load_balancer.as_ref()?.ingress.as_ref())
        .flatten()
        .filter_map(|entry| Address::new(entry.ip.clone(), entry.hostname.clone()));
    let external = service
        .spec
        .iter()
        .filter_map(|spec| spec.external_ips.as_ref())
        .flatten()
        .filter_map(|ip| Address::new(Some(ip.clone()), None));
    balancer.chain(external).collect()
}

/// What the status of an Ingress says now. Order and ports of entries are kept by nobody.
pub(super) fn of_ingress(ingress: &Ingress) -> BTreeSet<Address> {
    ingress
        .status
        .iter()
        .filter_map(|status| status.load_balancer.as_ref()?.ingress.as_ref())
        .flatten()
        .filter_map(|entry| Address::new(entry.ip.clone(), entry.hostname.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn addresses_of_a_service() {
        let service: Service = serde_json::from_value(json!({
            "spec": {"externalIPs": ["192.0.2.9", ""]},
            "status": {"loadBalancer": {"ingress": [
                {"hostname": "lb.example.com"}, {"ip": "192.0.2.1"}, {"ip": "192.0.2.1"}, {}]}},
        }))
        .unwrap();
        let found = serde_json::to_value(of_service(&service)).unwrap();
        assert_eq!(
            found,
            json!([{"hostname": "lb.example.com"}, {"ip": "192.0.2.1"}, {"ip": "192.0.2.9"}])
        );
        assert!(of_service(&Service::default()).is_empty());
    }
}
