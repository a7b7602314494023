//! EnvoyFilters as they are kept: every patch checked and its value encoded once, when the object arrives.

mod read;
mod rules;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use shared_proto::networking::v1alpha3 as istio;

use istio::envoy_filter as shape;
use shape::envoy_config_object_match::ObjectTypes;

pub use shape::patch::Operation;
pub use shape::{ApplyTo, ClusterMatch, ListenerMatch, RouteConfigurationMatch};

use super::change::NamespacedName;
use super::config::{PortGiven, Precedence};
use super::pairs::Pairs;

/// Node metadata that `proxyVersion` is matched with.
pub const VERSION_KEY: &str = "ISTIO_VERSION";

/// Precedence of an EnvoyFilter within its namespace: priority, then age and name.
pub type FilterOrder = (i32, Precedence);

/// What is kept of an EnvoyFilter.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvoyFilterFacts {
    /// Patches for gateways, in their order.
    pub patches: Vec<Arc<Patch>>,
    /// Services that the values of its patches name as clusters, with their ports.
    pub destinations: Vec<(Arc<str>, PortGiven)>,
    /// What is not used, and why.
    pub mistakes: Vec<Mistake>,
}

/// A part of an EnvoyFilter that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Field of the object.
    pub at: String,
    /// What is wrong with it and how to mend it.
    pub message: String,
}

/// The EnvoyFilter that a patch belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub name: NamespacedName,
    /// Labels of the proxies that it is for; empty for all.
    pub selector: Pairs,
    /// Its precedence.
    pub order: FilterOrder,
}

/// One entry of `configPatches`.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// The object that it is part of.
    pub owner: Arc<Owner>,
    /// Place in the list.
    pub at: usize,
    /// What is patched.
    pub apply_to: ApplyTo,
    /// What is done: only what the table of operations allows.
    pub operation: Operation,
    /// Further conditions on the proxies.
    pub proxies: ProxyCondition,
    /// Which of the things that can be patched; `None` for all.
    pub object: Option<ObjectTypes>,
    /// Name of the value; empty when it has none.
    pub name: Arc<str>,
    /// The value, an encoded message of the type that belongs to `apply_to`; empty for removals.
    pub value: Bytes,
}

/// Where a patch is looked for. A changed patch can only change what is looked up there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// All listeners.
    Listeners,
    /// All route configurations.
    Routes,
    /// The route configuration of this name.
    RouteConfiguration(Arc<str>),
    /// The virtual host of this name.
    VirtualHost(Arc<str>),
    /// The virtual host with this domain.
    Domain(Arc<str>),
    /// All clusters.
    Clusters,
    /// The cluster of this name.
    Cluster(Arc<str>),
    /// The clusters of the service with this host name.
    Service(Arc<str>),
    /// A resource that the patch brings itself.
    Added(Added, Arc<str>),
}

/// Kinds of resources that patches bring themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Added {
    /// A listener.
    Listener,
    /// A cluster.
    Cluster,
    /// An extension config.
    Extension,
}

/// Conditions on proxies beyond labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProxyCondition {
    /// Expression that the version has to match.
    pub version: Option<VersionPattern>,
    /// Node metadata that has to be equal.
    pub metadata: Pairs,
}

/// A compiled expression; equal when the text is.
#[derive(Clone, Debug)]
pub struct VersionPattern(regex::Regex);

impl PartialEq for VersionPattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl ProxyCondition {
    /// Keys of node metadata that the condition depends on.
    pub fn keys(&self) -> BTreeSet<&str> {
        let version = self.version.as_ref().map(|_| VERSION_KEY);
        let metadata = self.metadata.iter().map(|(key, _)| key);
        version.into_iter().chain(metadata).collect()
    }

    /// Whether proxies with this metadata meet it.
    pub fn holds(&self, metadata: &BTreeMap<String, String>) -> bool {
        let value = |key: &str| metadata.get(key).map_or("", String::as_str);
        let version = self.version.as_ref();
        version.is_none_or(|pattern| pattern.0.is_match(value(VERSION_KEY)))
            && self
                .metadata
                .iter()
                .all(|(key, wanted)| value(key) == wanted)
    }
}

impl EnvoyFilterFacts {
    /// Reads a spec.
    pub fn of(filter: &istio::EnvoyFilter, name: NamespacedName, precedence: Precedence) -> Self {
        read::read(filter, name, precedence)
    }
}

impl Patch {
    /// Conditions on listeners and what is in them.
    pub fn listener(&self) -> Option<&ListenerMatch> {
        match &self.object {
            Some(ObjectTypes::Listener(listener)) => Some(listener),
            _ => None,
        }
    }

    /// Conditions on route configurations and what is in them.
    pub fn routes(&self) -> Option<&RouteConfigurationMatch> {
        match &self.object {
            Some(ObjectTypes::RouteConfiguration(routes)) => Some(routes),
            _ => None,
        }
    }

    /// Conditions on clusters.
    pub fn cluster(&self) -> Option<&ClusterMatch> {
        match &self.object {
            Some(ObjectTypes::Cluster(cluster)) => Some(cluster),
            _ => None,
        }
    }

    /// The field of the object that the patch is.
    pub fn field(&self) -> String {
        field(self.at)
    }

    /// Where it is looked for.
    pub fn target(&self) -> Target {
        use ApplyTo as A;
        let adds = self.operation == Operation::Add;
        match self.apply_to {
            A::ExtensionConfig => Target::Added(Added::Extension, self.name.clone()),
            A::Cluster if adds => Target::Added(Added::Cluster, self.name.clone()),
            A::Listener if adds => Target::Added(Added::Listener, self.name.clone()),
            A::Cluster => self.cluster().map_or(Target::Clusters, cluster_target),
            A::RouteConfiguration | A::VirtualHost | A::HttpRoute => {
                // A virtual host that is added is in no virtual host.
                let inside = !(adds && self.apply_to == A::VirtualHost);
                let routes = self.routes();
                routes.map_or(Target::Routes, |routes| routes_target(routes, inside))
            }
            _ => Target::Listeners,
        }
    }

    /// Whether both do the same to the same, whatever their place in the list.
    pub fn same(&self, other: &Self) -> bool {
        let Self {
            owner,
            at: _,
            apply_to,
            operation,
            proxies,
            object,
            name,
            value,
        } = self;
        *owner == other.owner
            && *apply_to == other.apply_to
            && *operation == other.operation
            && *proxies == other.proxies
            && *object == other.object
            && *name == other.name
            && *value == other.value
    }
}

fn field(at: usize) -> String {
    format!("spec.configPatches[{at}]")
}

fn cluster_target(cluster: &ClusterMatch) -> Target {
    if !cluster.name.is_empty() {
        Target::Cluster(cluster.name.as_str().into())
    } else if !cluster.service.is_empty() {
        Target::Service(cluster.service.to_ascii_lowercase().into())
    } else {
        Target::Clusters
    }
}

fn routes_target(routes: &RouteConfigurationMatch, inside: bool) -> Target {
    let host = routes.vhost.as_ref().filter(|_| inside);
    let host = host.map_or(("", ""), |host| (&host.name, &host.domain_name));
    match (host, routes.name.as_str()) {
        ((name, _), _) if !name.is_empty() => Target::VirtualHost(name.to_ascii_lowercase().into()),
        ((_, domain), _) if !domain.is_empty() => {
            Target::Domain(domain.to_ascii_lowercase().into())
        }
        (_, name) if !name.is_empty() => Target::RouteConfiguration(name.into()),
        _ => Target::Routes,
    }
}

#[cfg(test)]
mod tests;
