//! EndpointSlice -> [`Endpoints`] of one service.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::discovery::v1 as discovery;

use crate::model::change::NamespacedName;
use crate::model::diagnostic::{Diagnostic, DiagnosticList, DiagnosticReason, shorten};
use crate::model::endpoint::{Endpoint, Endpoints};

/// Label that names the service of a slice.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// What one slice tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The service it belongs to.
    pub service: NamespacedName,
    /// Its addresses that are ready.
    pub endpoints: Arc<Endpoints>,
    /// What of it cannot be used.
    pub mistakes: DiagnosticList,
}

/// Mistakes of one slice that are told.
const MISTAKES: usize = 20;
/// Characters of a value in a message.
const SHOWN: usize = 60;

/// Reads a slice; `None` when it belongs to no service. An address whose readiness is not told is ready. Ports other than TCP
/// are left out; names in place of addresses (`addressType: FQDN`) and ports without number too, which are mistakes.
pub fn slice(object: &discovery::EndpointSlice) -> Option<Slice> {
    let labels = object.metadata.labels.as_ref()?;
    let service = labels.get(SERVICE_LABEL).filter(|name| !name.is_empty())?;
    let namespace = super::name_of(&object.metadata).namespace;
    let mut mistakes = Mistakes::default();
    let numbered = object.ports.iter().flatten().enumerate();
    let ports = numbered.filter_map(|(at, port)| read_port(at, port, &mut mistakes));
    let ports: Vec<(Arc<str>, u16)> = ports.collect();
    check_addresses(object, &mut mistakes);
    let ready = object
        .endpoints
        .iter()
        .filter(|endpoint| is_ready(endpoint));
    let pairs = ready.flat_map(|endpoint| {
        let node: Option<Arc<str>> = endpoint.node_name.as_deref().map(Arc::from);
        let zone: Option<Arc<str>> = endpoint.zone.as_deref().map(Arc::from);
        let ports = &ports;
        addresses(endpoint).flat_map(move |address| {
            let (node, zone) = (node.clone(), zone.clone());
            ports.iter().map(move |(name, port)| {
                let endpoint = Endpoint {
                    node: node.clone(),
                    zone: zone.clone(),
                    ..Endpoint::new(address, *port)
                };
                (Arc::clone(name), endpoint)
            })
        })
    });
    Some(Slice {
        endpoints: Arc::new(Endpoints::new(pairs)),
        service: NamespacedName::new(namespace, service.as_str()),
        mistakes: mistakes.list(),
    })
}

/// What of a slice cannot be used: the first ones, and the number of all.
#[derive(Default)]
struct Mistakes {
    first: Vec<Diagnostic>,
    count: usize,
}

impl Mistakes {
    fn add(&mut self, field: String, message: String) {
        self.count += 1;
        if self.first.len() < MISTAKES {
            self.first.push(Diagnostic {
                field,
                reason: DiagnosticReason::InvalidEndpoint,
                message,
            });
        }
    }

    fn list(mut self) -> DiagnosticList {
        let more = self.count - self.first.len();
        if more > 0 {
            self.first.push(Diagnostic {
                field: "endpoints".to_owned(),
                reason: DiagnosticReason::InvalidEndpoint,
                message: format!("and {more} more, which are not shown; mend these first"),
            });
        }
        self.first.into()
    }
}

/// Addresses that nobody can connect to.
fn check_addresses(object: &discovery::EndpointSlice, mistakes: &mut Mistakes) {
    if object.address_type == "FQDN" {
        let message = "names in place of addresses are not served; give the addresses, or use a Service of type ExternalName";
        mistakes.add("addressType".to_owned(), message.to_owned());
        return;
    }
    for (at, endpoint) in object.endpoints.iter().enumerate() {
        for (index, address) in endpoint.addresses.iter().enumerate() {
            if address.parse::<IpAddr>().is_err() {
                let address = shorten(address, SHOWN);
                mistakes.add(
                    format!("endpoints[{at}].addresses[{index}]"),
                    format!(
                        "{address:?} is no IP address and is left out; write one like 10.0.0.1"
                    ),
                );
            }
        }
    }
}

/// The endpoints of all slices of a service. A single slice is shared, not copied.
pub(super) fn merge<'a>(
    slices: impl ExactSizeIterator<Item = &'a Arc<Endpoints>>,
) -> Arc<Endpoints> {
    let mut slices = slices.peekable();
    if let (1, Some(only)) = (slices.len(), slices.peek()) {
        return Arc::clone(only);
    }
    let pairs = slices.flat_map(|slice| {
        let ports = slice.iter();
        ports.flat_map(|(name, list)| {
            list.iter()
                .map(|endpoint| (Arc::clone(name), endpoint.clone()))
        })
    });
    Arc::new(Endpoints::new(pairs))
}

fn read_port(
    at: usize,
    port: &discovery::EndpointPort,
    mistakes: &mut Mistakes,
) -> Option<(Arc<str>, u16)> {
    if !super::is_tcp(port.protocol.as_deref()) {
        return None;
    }
    let number = port.port.and_then(|number| u16::try_from(number).ok());
    let number = number.filter(|&number| number > 0);
    if number.is_none() {
        let what = port.port.map_or_else(
            || "there is no number".to_owned(),
            |number| format!("{number} is no port"),
        );
        let message = format!("{what}, so it is left out; give one from 1 to 65535");
        mistakes.add(format!("ports[{at}].port"), message);
    }
    Some((port.name.as_deref().unwrap_or_default().into(), number?))
}

fn is_ready(endpoint: &discovery::Endpoint) -> bool {
    let ready = endpoint
        .conditions
        .as_ref()
        .and_then(|conditions| conditions.ready);
    ready.unwrap_or(true)
}

fn addresses(endpoint: &discovery::Endpoint) -> impl Iterator<Item = IpAddr> {
    endpoint
        .addresses
        .iter()
        .filter_map(|address| address.parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(object: serde_json::Value) -> Option<Slice> {
        slice(&serde_json::from_value(object).unwrap())
    }

    fn labelled(rest: serde_json::Value) -> Slice {
        let mut object = json!({
            "metadata": {"name": "web-1", "namespace": "shop", "labels": {SERVICE_LABEL: "web"}},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": [],
        });
        for (field, value) in rest.as_object().unwrap() {
            object[field] = value.clone();
        }
        read(object).unwrap()
    }

    fn shown(endpoints: &Endpoints, port: &str) -> Vec<String> {
        let list = endpoints.port(port).iter();
        list.map(|endpoint| std::net::SocketAddr::new(endpoint.address, endpoint.port).to_string())
            .collect()
    }

    #[test]
    fn only_what_is_ready_sorted_without_duplicates() {
        let slice = labelled(json!({"endpoints": [
            {"addresses": ["10.0.0.10"]},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": true}, "zone": "z1", "nodeName": "n1"},
            {"addresses": ["10.0.0.2"], "conditions": {}},
            {"addresses": ["10.0.0.3"], "conditions": {"ready": false, "serving": true}},
            {"addresses": ["not-an-address"]},
        ]}));
        assert_eq!(slice.service, NamespacedName::new("shop", "web"));
        assert_eq!(
            shown(&slice.endpoints, "http"),
            ["10.0.0.2:8080", "10.0.0.10:8080"]
        );
        let slice = labelled(
            json!({"endpoints": [{"addresses": ["10.0.0.2"], "zone": "z1", "nodeName": "n1"}]}),
        );
        let endpoint = &slice.endpoints.port("http")[0];
        assert_eq!(
            (endpoint.zone.as_deref(), endpoint.node.as_deref()),
            (Some("z1"), Some("n1"))
        );
    }

    #[test]
    fn what_cannot_be_used_is_told() {
        let fields = |slice: &Slice| -> Vec<String> {
            slice.mistakes.iter().map(|m| m.field.clone()).collect()
        };
        let slice = labelled(json!({
            "ports": [{"port": 80}, {"name": "u", "port": 0, "protocol": "UDP"}, {"name": "a"}, {"name": "b", "port": 70000}],
            "endpoints": [{"addresses": ["10.0.0.1", "10.0.0.256"]}, {"addresses": ["x"]}],
        }));
        let expected = [
            "ports[2].port",
            "ports[3].port",
            "endpoints[0].addresses[1]",
            "endpoints[1].addresses[0]",
        ];
        assert_eq!(fields(&slice), expected);
        assert_eq!(shown(&slice.endpoints, ""), ["10.0.0.1:80"]);
        let many: Vec<_> = (0..50)
            .map(|n| json!({"addresses": [format!("x{n}")]}))
            .collect();
        let slice = labelled(json!({ "endpoints": many }));
        assert_eq!(slice.mistakes.len(), MISTAKES + 1);
        assert!(slice.mistakes[MISTAKES].message.starts_with("and 30 more"));
        let slice =
            labelled(json!({"addressType": "FQDN", "endpoints": [{"addresses": ["a.test"]}]}));
        assert_eq!(fields(&slice), ["addressType"]);
    }

    #[test]
    fn ports_by_name() {
        let slice = labelled(json!({
            "ports": [
                {"name": "b", "port": 2}, {"port": 1}, {"name": "u", "port": 3, "protocol": "UDP"},
                {"name": "none"}, {"name": "bad", "port": 0},
            ],
            "endpoints": [{"addresses": ["fd00::1"]}],
        }));
        let names: Vec<_> = slice
            .endpoints
            .iter()
            .map(|(name, _)| name.to_string())
            .collect();
        assert_eq!(names, ["", "b"]);
        assert_eq!(shown(&slice.endpoints, "b"), ["[fd00::1]:2"]);
    }

    #[test]
    fn slices_are_merged_in_any_order() {
        let one = labelled(
            json!({"endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]}),
        )
        .endpoints;
        let two =
            labelled(json!({"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::1"]}]}))
                .endpoints;
        let three = labelled(json!({"endpoints": [{"addresses": ["10.0.0.2"]}]})).endpoints;
        let merged = merge([&one, &two, &three].into_iter());
        assert_eq!(merged, merge([&three, &one, &two].into_iter()));
        assert_eq!(
            shown(&merged, "http"),
            ["10.0.0.1:8080", "10.0.0.2:8080", "[fd00::1]:8080"]
        );
        assert!(Arc::ptr_eq(&merge([&one].into_iter()), &one));
        assert!(merge([].into_iter()).is_empty());
    }

    #[test]
    fn a_slice_without_service_is_ignored() {
        let object = json!({"metadata": {"name": "x"}, "addressType": "IPv4", "endpoints": []});
        assert_eq!(read(object), None);
    }
}
