//! Kubernetes Service -> [`Service`].

use std::sync::Arc;

use k8s_openapi::api::core::v1 as k8s;

use crate::model::change::NamespacedName;
use crate::model::service::{Protocol, Resolution, Service, ServicePort};

/// `<name>.<namespace>.svc.<domain>`.
pub fn hostname(service: &NamespacedName, domain: &str) -> Arc<str> {
    let NamespacedName { namespace, name } = service;
    format!("{name}.{namespace}.svc.{domain}").into()
}

/// Reads a Service. Only TCP ports are kept; of two with the same number the first counts.
pub fn service(object: &k8s::Service, domain: &str) -> Service {
    let name = super::name_of(&object.metadata);
    let spec = object.spec.as_ref();
    let mut ports: Vec<ServicePort> = Vec::new();
    for port in spec
        .and_then(|spec| spec.ports.as_ref())
        .into_iter()
        .flatten()
        .filter_map(service_port)
    {
        if ports.iter().all(|known| known.number != port.number) {
            ports.push(port);
        }
    }
    let created = object.metadata.creation_timestamp.as_ref();
    Service {
        hostname: hostname(&name, domain),
        namespace: name.namespace,
        name: name.name,
        ports,
        resolution: spec.map_or(Resolution::Eds, resolution),
        created: created.map_or(0, |time| time.0.as_second()),
    }
}

fn service_port(port: &k8s::ServicePort) -> Option<ServicePort> {
    if !super::is_tcp(port.protocol.as_deref()) {
        return None;
    }
    let name = port.name.as_deref().unwrap_or_default();
    Some(ServicePort {
        name: name.into(),
        number: u16::try_from(port.port).ok().filter(|&number| number > 0)?,
        protocol: protocol(name, port.app_protocol.as_deref()),
    })
}

/// What `appProtocol` says counts; without it, or when it is not known, the name of the port up to the first dash.
/// What tells nothing is TCP.
fn protocol(name: &str, app_protocol: Option<&str>) -> Protocol {
    app_protocol
        .and_then(from_app_protocol)
        .or_else(|| from_port_name(name))
        .unwrap_or(Protocol::Tcp)
}

fn from_app_protocol(value: &str) -> Option<Protocol> {
    match value.to_ascii_lowercase().as_str() {
        "kubernetes.io/h2c" => Some(Protocol::Http2),
        "kubernetes.io/ws" => Some(Protocol::Http),
        "kubernetes.io/wss" => Some(Protocol::Https),
        other => Protocol::from_name(other),
    }
}

fn from_port_name(name: &str) -> Option<Protocol> {
    // The one protocol whose name has a dash.
    const GRPC_WEB: &str = "grpc-web";
    if let Some(start) = name.get(..GRPC_WEB.len())
        && start.eq_ignore_ascii_case(GRPC_WEB)
        && matches!(name.as_bytes().get(GRPC_WEB.len()), None | Some(b'-'))
    {
        return Some(Protocol::GrpcWeb);
    }
    Protocol::from_name(name.split('-').next().unwrap_or(name))
}

/// An ExternalName that is no DNS name leaves a service without endpoints.
fn resolution(spec: &k8s::ServiceSpec) -> Resolution {
    if spec.type_.as_deref() != Some("ExternalName") {
        return Resolution::Eds;
    }
    let address = spec.external_name.as_deref().unwrap_or_default();
    let address = address.trim_end_matches('.').to_ascii_lowercase();
    if !is_dns_name(&address) {
        return Resolution::Eds;
    }
    Resolution::Dns {
        address: address.into(),
    }
}

fn is_dns_name(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    name.len() <= 253 && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn read(spec: serde_json::Value) -> Service {
        let object = json!({
            "metadata": {"name": "web", "namespace": "shop", "creationTimestamp": "1970-01-01T00:01:00Z"},
            "spec": spec,
        });
        service(&serde_json::from_value(object).unwrap(), "cluster.local")
    }

    #[test]
    fn a_service_with_ports() {
        let read = read(json!({"ports": [
            {"name": "http", "port": 80},
            {"name": "dns", "port": 53, "protocol": "UDP"},
            {"name": "sctp", "port": 54, "protocol": "SCTP"},
            {"name": "other", "port": 80, "protocol": "TCP"},
            {"name": "bad", "port": 70000},
            {"port": 81, "appProtocol": "kubernetes.io/h2c"},
        ]}));
        assert_eq!(&*read.hostname, "web.shop.svc.cluster.local");
        assert_eq!(
            (&*read.namespace, &*read.name, read.created),
            ("shop", "web", 60)
        );
        assert_eq!(read.resolution, Resolution::Eds);
        let ports: Vec<_> = read
            .ports
            .iter()
            .map(|port| (&*port.name, port.number, port.protocol))
            .collect();
        assert_eq!(
            ports,
            [("http", 80, Protocol::Http), ("", 81, Protocol::Http2)]
        );
    }

    #[rstest]
    #[case("http", None, Protocol::Http)]
    #[case("http-web", None, Protocol::Http)]
    #[case("HTTP2-x", None, Protocol::Http2)]
    #[case("grpc", None, Protocol::Grpc)]
    #[case("grpc-web", None, Protocol::GrpcWeb)]
    #[case("grpc-web-x", None, Protocol::GrpcWeb)]
    #[case("grpc-website", None, Protocol::Grpc)]
    #[case("https-a", None, Protocol::Https)]
    #[case("httpx", None, Protocol::Tcp)]
    #[case("", None, Protocol::Tcp)]
    #[case("http", Some("grpc"), Protocol::Grpc)]
    #[case("tcp", Some("kubernetes.io/ws"), Protocol::Http)]
    #[case("tcp", Some("kubernetes.io/wss"), Protocol::Https)]
    #[case("grpc", Some("example.com/own"), Protocol::Grpc)]
    fn protocols(#[case] name: &str, #[case] app: Option<&str>, #[case] expected: Protocol) {
        assert_eq!(protocol(name, app), expected);
    }

    #[rstest]
    #[case("Db.Example.com.", Some("db.example.com"))]
    #[case("", None)]
    #[case("a b", None)]
    #[case("a..b", None)]
    fn external_names(#[case] name: &str, #[case] address: Option<&str>) {
        let read =
            read(json!({"type": "ExternalName", "externalName": name, "ports": [{"port": 80}]}));
        let expected = address.map_or(Resolution::Eds, |address| Resolution::Dns {
            address: address.into(),
        });
        assert_eq!(read.resolution, expected);
    }

    #[test]
    fn defaults() {
        let read = service(&k8s::Service::default(), "d");
        assert_eq!(&*read.namespace, "default");
        assert!(read.ports.is_empty());
    }
}
