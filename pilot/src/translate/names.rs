//! Every name that the pilot gives to a generated resource, and how names are read back.
//!
//! They are Istio's and Higress's names: EnvoyFilters, WasmPlugins and dashboards depend on them.

use std::fmt::Display;

pub use crate::model::cluster_name::{cluster_name, parse_cluster_name};

/// Prefix of the route configuration of one host.
const HOST_ROUTE_PREFIX: &str = "higress-rds-";

/// Request header that carries the scope key inside of Envoy; it never reaches a backend.
pub const SCOPE_HEADER: &str = "x-isthmus-scope";

/// End of the scope header where routes are fetched on demand. What follows the first `:` is not
/// part of the key.
pub const SCOPE_ON_DEMAND: &str = ":fetch";

/// Metadata of a route in which the filters are that it switches on.
pub const SWITCHED_FILTERS: &str = "isthmus.filters";

/// Name of the scoped routes of a connection manager.
pub const SCOPED_ROUTES: &str = "scoped-route";

/// Cluster without endpoints, for traffic that must go nowhere.
pub const BLACK_HOLE_CLUSTER: &str = "BlackHoleCluster";

/// Cluster name that stands for a destination without host; it never exists.
pub const UNKNOWN_CLUSTER: &str = "UnknownService";

/// `fallback|<cluster>|<cluster>...`: a cluster that falls back from each of its members to the next.
#[must_use]
pub fn fallback_cluster_name<S: AsRef<str>>(members: &[S]) -> String {
    let mut name = "fallback".to_owned();
    for member in members {
        name.push('|');
        name.push_str(member.as_ref());
    }
    name
}

/// Takes the name of a fallback cluster apart into the names of its members.
#[must_use]
pub fn parse_fallback_cluster_name(name: &str) -> Option<Vec<String>> {
    let rest = name.strip_prefix("fallback|")?;
    let parts: Vec<&str> = rest.split('|').collect();
    let members = parts.chunks(4).map(|part| part.join("|"));
    let members: Vec<String> = members.collect();
    let valid = members
        .iter()
        .all(|name| parse_cluster_name(name).is_some());
    (valid && !members.is_empty()).then_some(members)
}

/// `<bind>_<port>`, for example `0.0.0.0_80`.
#[must_use]
pub fn listener_name(bind: &str, port: u16) -> String {
    format!("{bind}_{port}")
}

/// `higress-rds-<port>.<host>`: the route configuration of one host on one port.
#[must_use]
pub fn route_name(port: u16, host: &str) -> String {
    format!("{HOST_ROUTE_PREFIX}{port}.{host}")
}

/// Takes the name of a host's route configuration apart into port and host.
#[must_use]
pub fn parse_route_name(name: &str) -> Option<(u16, &str)> {
    parse_scope_name(name.strip_prefix(HOST_ROUTE_PREFIX)?)
}

/// `<port>.<host>`: the scope of one host on one port, and its key.
#[must_use]
pub fn scope_name(port: u16, host: &str) -> String {
    format!("{port}.{host}")
}

/// Takes a scope name apart into port and host.
#[must_use]
pub fn parse_scope_name(name: &str) -> Option<(u16, &str)> {
    let (port, host) = name.split_once('.')?;
    (!host.is_empty()).then_some((port.parse().ok()?, host))
}

/// Name of the filter, and of the extension config, that chooses the scope on a port.
#[must_use]
pub fn scope_filter_name(port: u16) -> String {
    format!("isthmus.scope.{port}")
}

/// Reads the port back from the name of a scope filter.
#[must_use]
pub fn parse_scope_filter_name(name: &str) -> Option<u16> {
    name.strip_prefix("isthmus.scope.")?.parse().ok()
}

/// Route configuration of an HTTP listener when scoped routes are off: `http.<port>[.<bind>]`.
#[must_use]
pub fn http_route_name(port: u16, bind: Option<&str>) -> String {
    with_bind(format!("http.{port}"), bind)
}

/// Route configuration of one HTTPS server when scoped routes are off:
/// `https.<server port>.<port name>.<gateway>.<namespace>[.<bind>]`.
#[must_use]
pub fn https_route_name(server: &HttpsServer<'_>) -> String {
    let HttpsServer {
        port,
        port_name,
        gateway,
        namespace,
        bind,
    } = server;
    with_bind(
        format!("https.{port}.{port_name}.{gateway}.{namespace}"),
        *bind,
    )
}

fn with_bind(name: String, bind: Option<&str>) -> String {
    match bind {
        Some(bind) if !bind.is_empty() => format!("{name}.{bind}"),
        _ => name,
    }
}

/// What names an HTTPS server of a Gateway.
#[derive(Clone, Copy, Debug)]
pub struct HttpsServer<'a> {
    /// Port number as written in the Gateway.
    pub port: u16,
    /// Port name as written in the Gateway.
    pub port_name: &'a str,
    /// Name of the Gateway.
    pub gateway: &'a str,
    /// Namespace of the Gateway.
    pub namespace: &'a str,
    /// Address the server asks for, if any.
    pub bind: Option<&'a str>,
}

/// `<host>:<port>`, IPv6 hosts in brackets: name of a virtual host.
#[must_use]
pub fn virtual_host_name(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Takes the name of a virtual host apart into host and port.
#[must_use]
pub fn parse_virtual_host_name(name: &str) -> Option<(&str, u16)> {
    let (host, port) = name.rsplit_once(':')?;
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let host = inner.unwrap_or(host);
    (!host.is_empty()).then_some((host, port.parse().ok()?))
}

/// Virtual host of a port that nobody serves.
#[must_use]
pub fn black_hole_host_name(port: impl Display) -> String {
    format!("blackhole:{port}")
}

/// `/apis/networking.istio.io/v1alpha3/namespaces/<ns>/<kind>/<name>`: where a generated object
/// comes from, as Istio writes it into metadata.
#[must_use]
pub fn origin_path(kind: &str, namespace: &str, name: &str) -> String {
    format!("/apis/networking.istio.io/v1alpha3/namespaces/{namespace}/{kind}/{name}")
}

/// SDS resource name of the trust anchors that belong to a credential.
#[must_use]
pub fn ca_secret_name(credential: &str) -> String {
    format!("{credential}{CA_SUFFIX}")
}

/// SDS resource name of the credential that trust anchors belong to.
#[must_use]
pub fn without_ca_suffix(name: &str) -> &str {
    name.strip_suffix(CA_SUFFIX).unwrap_or(name)
}

const CA_SUFFIX: &str = "-cacert";

/// The Kubernetes Secret that an SDS resource name points at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretRef {
    /// Cluster part of a `kubernetes-ingress://` name; empty means the local one.
    pub cluster: String,
    /// Namespace; `None` means that of the proxy.
    pub namespace: Option<String>,
    /// Name as written, with `-cacert` if it has that suffix.
    pub name: String,
}

impl SecretRef {
    /// For a name that ends in `-cacert`: the name without it. Trust anchors are asked for by that
    /// suffix; they are in a Secret of the full name, or beside the certificate in the short one.
    #[must_use]
    pub fn ca_base(&self) -> Option<&str> {
        self.name
            .strip_suffix(CA_SUFFIX)
            .filter(|base| !base.is_empty())
    }
}

/// Reads `kubernetes-ingress://cluster/ns/name`, `kubernetes-gateway://ns/name` and
/// `kubernetes://[ns/]name`. `None` for every other form.
#[must_use]
pub fn parse_secret_name(resource: &str) -> Option<SecretRef> {
    let (scheme, rest) = resource.split_once("://")?;
    let parts: Vec<&str> = rest.split('/').collect();
    let (cluster, namespace, name) = match (scheme, parts.as_slice()) {
        ("kubernetes-ingress", &[cluster, namespace, name]) => (cluster, Some(namespace), name),
        ("kubernetes-gateway" | "kubernetes", &[namespace, name]) => ("", Some(namespace), name),
        ("kubernetes", &[name]) => ("", None, name),
        _ => return None,
    };
    if name.is_empty() || namespace == Some("") {
        return None;
    }
    Some(SecretRef {
        cluster: cluster.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn names_read_back() {
        assert_eq!(
            parse_route_name(&route_name(80, "*.example.com")),
            Some((80, "*.example.com"))
        );
        assert_eq!(
            parse_scope_name(&scope_name(443, "a.b")),
            Some((443, "a.b"))
        );
        assert_eq!(
            parse_cluster_name(&cluster_name(80, "", "web.shop.svc.cluster.local")),
            Some((80, "", "web.shop.svc.cluster.local"))
        );
        assert_eq!(parse_scope_filter_name(&scope_filter_name(80)), Some(80));
    }

    #[rstest]
    #[case("higress-rds-80")]
    #[case("higress-rds-80.")]
    #[case("higress-rds-x.a.com")]
    #[case("higress-rds-70000.a.com")]
    #[case("http.80")]
    fn other_names_are_no_host_routes(#[case] name: &str) {
        assert_eq!(parse_route_name(name), None);
    }

    #[rstest]
    #[case("kubernetes-ingress://c/ns/n", Some(("c", Some("ns"), "n")))]
    #[case("kubernetes-ingress:///ns/n", Some(("", Some("ns"), "n")))]
    #[case("kubernetes-ingress://ns/n", None)]
    #[case("kubernetes-ingress://c/ns/n/x", None)]
    #[case("kubernetes-gateway://ns/n", Some(("", Some("ns"), "n")))]
    #[case("kubernetes-gateway://n", None)]
    #[case("kubernetes://n", Some(("", None, "n")))]
    #[case("kubernetes://ns/n", Some(("", Some("ns"), "n")))]
    #[case("kubernetes:///n", None)]
    #[case("kubernetes://", None)]
    #[case("file-cert:a~b", None)]
    fn secret_names(#[case] text: &str, #[case] expected: Option<(&str, Option<&str>, &str)>) {
        let parsed = parse_secret_name(text);
        let parsed = parsed
            .as_ref()
            .map(|r| (r.cluster.as_str(), r.namespace.as_deref(), r.name.as_str()));
        assert_eq!(parsed, expected);
    }

    #[test]
    fn trust_anchors_are_asked_for_by_suffix() {
        let name = ca_secret_name("kubernetes-ingress://c/ns/n");
        let parsed = parse_secret_name(&name).unwrap();
        assert_eq!(parsed.ca_base(), Some("n"));
    }
}
