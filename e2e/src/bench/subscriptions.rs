//! What a fake Envoy holds and asks for. Sans-IO: responses in, requests out.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use anyhow::{Context as _, Result};
use envoy_types::pb::envoy::config::listener::v3::{Listener, filter::ConfigType as FilterConfig};
use envoy_types::pb::envoy::config::route::v3::ScopedRouteConfiguration;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::DownstreamTlsContext;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse,
};
use envoy_types::pb::google::protobuf::Any;
use prost::Message as _;

/// The xDS types that a gateway uses, in the order of subscribing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// Clusters.
    Cds,
    /// Endpoints.
    Eds,
    /// Listeners.
    Lds,
    /// Certificates.
    Sds,
    /// Filters delivered on their own.
    Ecds,
    /// Scopes.
    Srds,
    /// Routes.
    Rds,
}

const TYPES: [(Type, &str); 7] = [
    (
        Type::Cds,
        "type.googleapis.com/envoy.config.cluster.v3.Cluster",
    ),
    (
        Type::Eds,
        "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
    ),
    (
        Type::Lds,
        "type.googleapis.com/envoy.config.listener.v3.Listener",
    ),
    (
        Type::Sds,
        "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
    ),
    (
        Type::Ecds,
        "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
    ),
    (
        Type::Srds,
        "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration",
    ),
    (
        Type::Rds,
        "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
    ),
];

impl Type {
    /// Type URL on the wire.
    pub fn url(self) -> &'static str {
        TYPES
            .iter()
            .find(|(known, _)| *known == self)
            .map_or("", |(_, url)| url)
    }

    fn of(url: &str) -> Option<Self> {
        TYPES
            .iter()
            .find(|(_, known)| *known == url)
            .map(|(known, _)| *known)
    }

    fn is_wildcard(self) -> bool {
        matches!(self, Self::Cds | Self::Lds | Self::Srds)
    }
}

#[derive(Debug, Default)]
struct Watch {
    answered: bool,
    /// Hashes of the names held; the names themselves would weigh too much with many clients.
    held: HashSet<u64>,
    /// Hashes of the names asked for and not answered yet.
    pending: HashSet<u64>,
}

/// Subscriptions of one client. Endpoints of removed clusters are unsubscribed; routes of removed scopes are not, which
/// only an input that shrinks would show.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    watches: BTreeMap<Type, Watch>,
}

impl Subscriptions {
    /// The requests that open a stream.
    pub(super) fn open(&mut self) -> Vec<DeltaDiscoveryRequest> {
        let wildcard = TYPES
            .iter()
            .map(|(kind, _)| *kind)
            .filter(|kind| kind.is_wildcard());
        wildcard.map(|kind| request(kind, "", Vec::new())).collect()
    }

    /// Takes a response in and gives the requests that answer it: the ACK first, then new subscriptions.
    pub(super) fn accept(
        &mut self,
        response: &DeltaDiscoveryResponse,
    ) -> Result<Vec<DeltaDiscoveryRequest>> {
        let kind = Type::of(&response.type_url)
            .with_context(|| format!("unexpected type {}", response.type_url))?;
        let mut requests = vec![request(kind, &response.nonce, Vec::new())];
        let watch = self.watches.entry(kind).or_default();
        watch.answered = true;
        for resource in &response.resources {
            let hash = hash(&resource.name);
            watch.pending.remove(&hash);
            watch.held.insert(hash);
        }
        for name in &response.removed_resources {
            let hash = hash(name);
            watch.pending.remove(&hash);
            watch.held.remove(&hash);
        }
        let mut wanted: BTreeMap<Type, Vec<String>> = BTreeMap::new();
        for resource in &response.resources {
            let body = resource.resource.as_ref();
            for (kind, name) in references(kind, &resource.name, body)? {
                if self.watches.entry(kind).or_default().is_new(&name) {
                    wanted.entry(kind).or_default().push(name);
                }
            }
        }
        requests.extend(
            wanted
                .into_iter()
                .map(|(kind, names)| request(kind, "", names)),
        );
        let gone: Vec<String> = response.removed_resources.clone();
        if let (Some(child), false) = (child(kind), gone.is_empty()) {
            requests.push(self.unsubscribe(child, gone));
        }
        Ok(requests)
    }

    /// Takes back the subscriptions that removed clusters had; their EDS names are the clusters' names.
    fn unsubscribe(&mut self, kind: Type, names: Vec<String>) -> DeltaDiscoveryRequest {
        let watch = self.watches.entry(kind).or_default();
        for name in &names {
            watch.held.remove(&hash(name));
            watch.pending.remove(&hash(name));
        }
        DeltaDiscoveryRequest {
            resource_names_unsubscribe: names,
            ..request(kind, "", Vec::new())
        }
    }

    /// Number of resources of a type held.
    pub(super) fn held(&self, kind: Type) -> usize {
        self.watches.get(&kind).map_or(0, |watch| watch.held.len())
    }

    /// Whether everything asked for has been answered.
    pub(super) fn is_settled(&self) -> bool {
        let answered = |kind: Type| self.watches.get(&kind).is_some_and(|watch| watch.answered);
        [Type::Cds, Type::Lds, Type::Srds].into_iter().all(answered)
            && self.watches.values().all(|watch| watch.pending.is_empty())
    }
}

impl Watch {
    /// Whether a name was neither held nor asked for; it counts as asked for from now on.
    fn is_new(&mut self, name: &str) -> bool {
        let hash = hash(name);
        !self.held.contains(&hash) && self.pending.insert(hash)
    }
}

/// The type whose subscriptions follow a removal one to one.
fn child(kind: Type) -> Option<Type> {
    (kind == Type::Cds).then_some(Type::Eds)
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

fn request(kind: Type, nonce: &str, names: Vec<String>) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: kind.url().to_owned(),
        response_nonce: nonce.to_owned(),
        resource_names_subscribe: names,
        ..DeltaDiscoveryRequest::default()
    }
}

/// The resources that a resource refers to, as Envoy would ask for them.
fn references(kind: Type, name: &str, body: Option<&Any>) -> Result<Vec<(Type, String)>> {
    let body = body.map(|any| any.value.as_slice()).unwrap_or_default();
    match kind {
        // Clusters of Services are the ones with endpoints of their own; others resolve names.
        Type::Cds if name.starts_with("outbound|") => Ok(vec![(Type::Eds, name.to_owned())]),
        Type::Srds => {
            let scope = ScopedRouteConfiguration::decode(body)?;
            let wanted = !scope.on_demand && !scope.route_configuration_name.is_empty();
            Ok(wanted
                .then_some((Type::Rds, scope.route_configuration_name))
                .into_iter()
                .collect())
        }
        Type::Lds => listener_references(&Listener::decode(body)?),
        _ => Ok(Vec::new()),
    }
}

fn listener_references(listener: &Listener) -> Result<Vec<(Type, String)>> {
    let mut found = BTreeSet::new();
    for chain in listener
        .filter_chains
        .iter()
        .chain(&listener.default_filter_chain)
    {
        if let Some(any) = chain
            .transport_socket
            .as_ref()
            .and_then(|socket| socket.config_type.as_ref())
        {
            let envoy_types::pb::envoy::config::core::v3::transport_socket::ConfigType::TypedConfig(
                any,
            ) = any;
            let context = DownstreamTlsContext::decode(any.value.as_slice())?
                .common_tls_context
                .unwrap_or_default();
            let names = context
                .tls_certificate_sds_secret_configs
                .into_iter()
                .map(|secret| (Type::Sds, secret.name));
            found.extend(names);
        }
        for filter in &chain.filters {
            let Some(FilterConfig::TypedConfig(any)) = &filter.config_type else {
                continue;
            };
            // TLS that is passed through has a filter of another type.
            if !any.type_url.ends_with(".HttpConnectionManager") {
                continue;
            }
            let manager = hcm::HttpConnectionManager::decode(any.value.as_slice())?;
            found.extend(manager.http_filters.into_iter().filter_map(|filter| {
                match filter.config_type {
                    Some(hcm::http_filter::ConfigType::ConfigDiscovery(_)) => {
                        Some((Type::Ecds, filter.name))
                    }
                    _ => None,
                }
            }));
            if let Some(hcm::http_connection_manager::RouteSpecifier::Rds(rds)) =
                manager.route_specifier
            {
                found.insert((Type::Rds, rds.route_config_name));
            }
        }
    }
    Ok(found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::service::discovery::v3::Resource;

    use super::*;

    fn response(kind: Type, names: &[&str], removed: &[&str]) -> DeltaDiscoveryResponse {
        let resources = names.iter().map(|name| Resource {
            name: (*name).to_owned(),
            ..Resource::default()
        });
        DeltaDiscoveryResponse {
            type_url: kind.url().to_owned(),
            nonce: "n".to_owned(),
            resources: resources.collect(),
            removed_resources: removed.iter().map(|name| (*name).to_owned()).collect(),
            ..DeltaDiscoveryResponse::default()
        }
    }

    #[test]
    fn endpoints_follow_clusters() {
        let mut subscriptions = Subscriptions::default();
        assert_eq!(subscriptions.open().len(), 3);
        let requests = subscriptions
            .accept(&response(Type::Cds, &["outbound|80||a", "other"], &[]))
            .unwrap();
        assert_eq!(requests[0].response_nonce, "n");
        assert_eq!(requests[1].resource_names_subscribe, ["outbound|80||a"]);
        assert!(!subscriptions.is_settled());
        subscriptions
            .accept(&response(Type::Eds, &["outbound|80||a"], &[]))
            .unwrap();
        subscriptions
            .accept(&response(Type::Lds, &[], &[]))
            .unwrap();
        subscriptions
            .accept(&response(Type::Srds, &[], &[]))
            .unwrap();
        assert!(subscriptions.is_settled());
        let requests = subscriptions
            .accept(&response(Type::Cds, &[], &["outbound|80||a"]))
            .unwrap();
        assert_eq!(requests[1].resource_names_unsubscribe, ["outbound|80||a"]);
        assert_eq!(subscriptions.held(Type::Eds), 0);
    }
}
