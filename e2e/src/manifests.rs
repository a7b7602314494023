//! What the harness itself needs to know of Kubernetes manifests: the endpoints.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;
use serde_yaml::Value;

/// Label that names the Service of an EndpointSlice.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Every address and port of the EndpointSlices in `text`, ready or not, with the name of its Service.
///
/// Reading stops at a document that is no YAML; objects that are not EndpointSlices are passed by.
pub fn endpoints(text: &str) -> BTreeMap<SocketAddr, String> {
    let mut found = BTreeMap::new();
    for document in serde_yaml::Deserializer::from_str(text) {
        let Ok(object) = Value::deserialize(document) else {
            break;
        };
        if object.get("kind").and_then(Value::as_str) == Some("EndpointSlice") {
            add_slice(&object, &mut found);
        }
    }
    found
}

fn add_slice(slice: &Value, found: &mut BTreeMap<SocketAddr, String>) {
    let labels = slice
        .get("metadata")
        .and_then(|metadata| metadata.get("labels"));
    let Some(service) = labels
        .and_then(|labels| labels.get(SERVICE_LABEL))
        .and_then(Value::as_str)
    else {
        return;
    };
    let ports: Vec<u16> = list(slice, "ports")
        .filter_map(|port| port.get("port").and_then(Value::as_u64))
        .filter_map(|port| u16::try_from(port).ok())
        .collect();
    for endpoint in list(slice, "endpoints") {
        let addresses = list(endpoint, "addresses")
            .filter_map(|address| address.as_str()?.parse::<IpAddr>().ok());
        for address in addresses {
            found.extend(
                ports
                    .iter()
                    .map(|port| (SocketAddr::new(address, *port), service.to_owned())),
            );
        }
    }
}

fn list<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    object
        .get(field)
        .and_then(Value::as_sequence)
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_and_port_counts() {
        let text = "kind: Nothing\n---\nkind: EndpointSlice\nmetadata: {labels: {kubernetes.io/service-name: s}}\n\
                    ports: [{port: 1}, {port: 2}]\nendpoints:\n- {addresses: [127.0.1.1]}\n\
                    - {addresses: [127.0.1.2], conditions: {ready: false}}\n";
        assert_eq!(endpoints(text).len(), 4);
        assert_eq!(endpoints(text)[&"127.0.1.2:2".parse().unwrap()], "s");
    }
}
