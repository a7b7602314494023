//! A config as it is kept: its spec stays encoded, beside it the few facts that indexes are made from.

use std::sync::Arc;

use bytes::Bytes;
use shared_proto::config::{ConfigKey, Meta};
use shared_proto::kinds::{Kind, Spec};
use shared_proto::mcp::McpResource;
use shared_proto::networking::v1alpha3 as istio;

use super::change::NamespacedName;
use super::destination_rule::DestinationRuleFacts;
use super::envoy_filter::EnvoyFilterFacts;
use super::pairs::Pairs;

/// One config from the controller.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredConfig {
    /// Identity.
    pub key: ConfigKey,
    /// Creation time in seconds since the Unix epoch; `None` for derived objects.
    pub created: Option<i64>,
    /// Labels.
    pub labels: Pairs,
    /// Annotations.
    pub annotations: Pairs,
    /// Encoded spec.
    pub body: Bytes,
    /// What indexes need to know of the spec.
    pub facts: Facts,
}

/// Facts of a spec, by kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Facts {
    /// A VirtualService.
    VirtualService(VirtualServiceFacts),
    /// A Gateway.
    Gateway(Arc<GatewayFacts>),
    /// A DestinationRule.
    DestinationRule(DestinationRuleFacts),
    /// An EnvoyFilter.
    EnvoyFilter(Arc<EnvoyFilterFacts>),
    /// A kind that is stored and shown, and has no index yet.
    Other,
}

/// What indexes need of a VirtualService.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VirtualServiceFacts {
    /// Hosts in lower case, without duplicates.
    pub hosts: Vec<Arc<str>>,
    /// Gateways that it is bound to; `mesh` is left out.
    pub gateways: Vec<NamespacedName>,
    /// Host names of all destinations and fallbacks with the port given, without duplicates.
    pub destinations: Vec<(Arc<str>, PortGiven)>,
    /// It says where TLS connections are passed on to.
    pub passes_tls: bool,
}

/// Port number of a destination; 0 when none is given, so that its routes depend on the ports of the service.
pub type PortGiven = u16;

/// What listeners and routes need of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayFacts {
    /// Identity.
    pub name: Option<NamespacedName>,
    /// Creation time, for precedence.
    pub created: Option<i64>,
    /// Labels of the proxies that serve it; empty for all.
    pub selector: Pairs,
    /// Servers in their order.
    pub servers: Vec<Server>,
}

/// One server of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Port number.
    pub port: u16,
    /// Port name.
    pub port_name: String,
    /// Address to listen on; empty for all.
    pub bind: String,
    /// What is spoken.
    pub protocol: ServerProtocol,
    /// Hosts in lower case, without their namespace part.
    pub hosts: Vec<Arc<str>>,
    /// Plain requests are sent to https (`tls.httpsRedirect`).
    pub https_redirect: bool,
    /// TLS settings, for HTTPS.
    pub tls: Option<ServerTls>,
}

/// Protocol of a server, as far as it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerProtocol {
    /// HTTP, HTTP2, GRPC.
    Http,
    /// GRPC-Web: HTTP with translation.
    GrpcWeb,
    /// HTTPS with TLS ended here.
    Https,
    /// TLS that ends at the backend.
    Passthrough,
    /// A protocol or TLS mode that is not served.
    Unsupported,
}

/// TLS settings of a server, in Istio's terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerTls {
    /// SDS name of the certificate.
    pub credential: Arc<str>,
    /// `ServerTLSSettings.TLSmode`.
    pub mode: i32,
    /// `ServerTLSSettings.TLSProtocol` of the lowest version.
    pub min_version: i32,
    /// `ServerTLSSettings.TLSProtocol` of the highest version.
    pub max_version: i32,
    /// OpenSSL cipher names.
    pub cipher_suites: Vec<String>,
}

/// Why a resource of the controller is not used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The type of its body is no known kind.
    #[error("{namespace}/{name}: unknown body type {body_type_url:?}")]
    UnknownType {
        /// Namespace of the object.
        namespace: Arc<str>,
        /// Name of the object.
        name: Arc<str>,
        /// Type URL of the body.
        body_type_url: String,
    },
    /// The body cannot be decoded.
    #[error("{key}: {source}")]
    Decode {
        /// Identity of the object.
        key: ConfigKey,
        /// Why.
        source: prost::DecodeError,
    },
}

impl StoredConfig {
    /// Reads a resource of the controller. `domain` completes short host names.
    ///
    /// # Errors
    /// When the body is of no known kind or cannot be decoded.
    pub fn from_mcp(resource: McpResource, domain: &str) -> Result<Self, StoreError> {
        let Some(kind) = Kind::from_body_type_url(&resource.body_type_url) else {
            return Err(StoreError::UnknownType {
                namespace: resource.namespace,
                name: resource.name,
                body_type_url: resource.body_type_url,
            });
        };
        let key = ConfigKey::new(kind, resource.namespace, resource.name);
        // Own bytes: a slice would keep the whole response in memory.
        let body = Bytes::copy_from_slice(&resource.body);
        let spec = Spec::decode(kind, resource.body).map_err(|source| StoreError::Decode {
            key: key.clone(),
            source,
        })?;
        let facts = Facts::of(&spec, &key, resource.created, domain);
        Ok(Self {
            key,
            created: resource.created,
            labels: resource.labels.into_iter().collect(),
            annotations: resource.annotations.into_iter().collect(),
            body,
            facts,
        })
    }

    /// The spec, decoded.
    ///
    /// # Errors
    /// When the bytes are no such message; not for configs from [`StoredConfig::from_mcp`].
    pub fn spec(&self) -> Result<Spec, prost::DecodeError> {
        Spec::decode(self.key.kind, self.body.clone())
    }

    /// Metadata for printing.
    pub fn meta(&self) -> Meta {
        let mut meta = Meta::new(self.key.namespace.clone(), self.key.name.clone());
        meta.created = self.created;
        let map = |pairs: &Pairs| {
            let owned = pairs.iter().map(|(k, v)| (k.to_owned(), v.to_owned()));
            owned.collect()
        };
        meta.labels = map(&self.labels);
        meta.annotations = map(&self.annotations);
        meta
    }

    /// Place in the order of precedence: the older first, then by `name.namespace` (Istio).
    pub fn precedence(&self) -> Precedence {
        precedence(&self.key, self.created)
    }
}

/// Sort key of configs: creation time, name, namespace.
pub type Precedence = (i64, Arc<str>, Arc<str>);

fn precedence(key: &ConfigKey, created: Option<i64>) -> Precedence {
    (
        created.unwrap_or(i64::MIN),
        key.name.clone(),
        key.namespace.clone(),
    )
}

impl Facts {
    fn of(spec: &Spec, key: &ConfigKey, created: Option<i64>, domain: &str) -> Self {
        if let Some(service) = spec.get::<istio::VirtualService>() {
            Self::VirtualService(virtual_service(service, &key.namespace, domain))
        } else if let Some(gateway) = spec.get::<istio::Gateway>() {
            let name = NamespacedName::new(key.namespace.clone(), key.name.clone());
            Self::Gateway(Arc::new(GatewayFacts {
                name: Some(name),
                created,
                selector: gateway.selector.clone().into_iter().collect(),
                servers: gateway.servers.iter().filter_map(server).collect(),
            }))
        } else if let Some(rule) = spec.get::<istio::DestinationRule>() {
            Self::DestinationRule(DestinationRuleFacts::of(rule, &key.namespace, domain))
        } else if let Some(filter) = spec.get::<istio::EnvoyFilter>() {
            let name = NamespacedName::new(key.namespace.clone(), key.name.clone());
            let precedence = precedence(key, created);
            Self::EnvoyFilter(Arc::new(EnvoyFilterFacts::of(filter, name, precedence)))
        } else {
            Self::Other
        }
    }
}

/// A short host name stands for a service of the same namespace.
pub fn full_host(host: &str, namespace: &str, domain: &str) -> Arc<str> {
    let host = host.to_ascii_lowercase();
    let short = !host.contains('.') && !host.contains(':') && host != "*" && !host.is_empty();
    if short {
        format!("{host}.{namespace}.svc.{domain}").into()
    } else {
        host.into()
    }
}

fn virtual_service(
    service: &istio::VirtualService,
    namespace: &Arc<str>,
    domain: &str,
) -> VirtualServiceFacts {
    let mut facts = VirtualServiceFacts::default();
    for host in &service.hosts {
        push_new(&mut facts.hosts, full_host(host, namespace, domain));
    }
    for gateway in service.gateways.iter().filter(|gateway| *gateway != "mesh") {
        let name = match gateway.split_once('/') {
            Some((other, name)) if other != "." => NamespacedName::new(other, name),
            _ => NamespacedName::new(namespace.clone(), name_of(gateway)),
        };
        push_new(&mut facts.gateways, name);
    }
    facts.passes_tls = !service.tls.is_empty();
    let passed = service.tls.iter().flat_map(|route| &route.route);
    let passed = passed.filter_map(|to| to.destination.as_ref());
    for destination in service.http.iter().flat_map(destinations).chain(passed) {
        let host = full_host(&destination.host, namespace, domain);
        let port = destination.port.as_ref();
        let port = port.and_then(|port| u16::try_from(port.number).ok());
        push_new(&mut facts.destinations, (host, port.unwrap_or(0)));
    }
    facts
}

/// Everything that the route may send requests to.
fn destinations(route: &istio::HttpRoute) -> impl Iterator<Item = &istio::Destination> {
    let own = route.route.iter().filter_map(|to| to.destination.as_ref());
    let fallbacks = route.route.iter().flat_map(|to| &to.fallback_clusters);
    let mirrors = route
        .mirrors
        .iter()
        .filter_map(|to| to.destination.as_ref());
    own.chain(fallbacks).chain(mirrors).chain(&route.mirror)
}

fn name_of(gateway: &str) -> &str {
    gateway.split_once('/').map_or(gateway, |(_, name)| name)
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

fn server(server: &istio::Server) -> Option<Server> {
    let port = server.port.as_ref()?;
    let mut hosts: Vec<Arc<str>> = Vec::new();
    for host in &server.hosts {
        push_new(&mut hosts, name_of(host).to_ascii_lowercase().into());
    }
    let tls = server.tls.as_ref().map(|tls| ServerTls {
        credential: credential(&tls.credential_name),
        mode: tls.mode,
        min_version: tls.min_protocol_version,
        max_version: tls.max_protocol_version,
        cipher_suites: tls.cipher_suites.clone(),
    });
    Some(Server {
        port: u16::try_from(port.number).ok().filter(|port| *port > 0)?,
        port_name: port.name.clone(),
        bind: server.bind.clone(),
        protocol: protocol(&port.protocol, tls.as_ref()),
        hosts,
        https_redirect: server.tls.as_ref().is_some_and(|tls| tls.https_redirect),
        tls,
    })
}

/// One spelling for each secret: a bare name gets its scheme (Istio's `kubernetes://`).
fn credential(name: &str) -> Arc<str> {
    if name.is_empty() || name.contains("://") {
        name.into()
    } else {
        format!("kubernetes://{name}").into()
    }
}

fn protocol(name: &str, tls: Option<&ServerTls>) -> ServerProtocol {
    use istio::server_tls_settings::TlSmode as Mode;
    let ends_here = |tls: &ServerTls| {
        [Mode::Simple, Mode::Mutual, Mode::OptionalMutual]
            .iter()
            .any(|mode| *mode as i32 == tls.mode)
            && !tls.credential.is_empty()
    };
    let passes = |tls: &ServerTls| tls.mode == Mode::Passthrough as i32;
    match name.to_ascii_uppercase().as_str() {
        "HTTP" | "HTTP2" | "GRPC" => ServerProtocol::Http,
        "GRPC-WEB" => ServerProtocol::GrpcWeb,
        "HTTPS" if tls.is_some_and(ends_here) => ServerProtocol::Https,
        "HTTPS" | "TLS" if tls.is_some_and(passes) => ServerProtocol::Passthrough,
        _ => ServerProtocol::Unsupported,
    }
}
