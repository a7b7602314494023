//! What VirtualServices cannot say: settings of Envoy's filters for single routes, as EnvoyFilters.
//!
//! Each host has an EnvoyFilter of its own as soon as one of its routes needs one: patches of exactly its routes, found by
//! virtual host and route name. The filters themselves are [`Shared`]: each is put into the chain once, switched off, while
//! at least one host uses it, and a route's settings switch it on for that route alone.

mod cluster;
mod host;
mod patch;
mod shared;
mod value;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

pub(crate) use cluster::{AuthCluster, Endpoint};
pub(super) use host::translate;
pub use shared::Shared;
pub(crate) use shared::{Filter, ext_authz};
pub(crate) use value::{inline, message, names, typed_extension};

/// Namespace of route metadata that switches the access log off.
pub(crate) const ACCESS_LOG: &str = "isthmus.access_log";

/// What a route needs beyond its VirtualService.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RouteFilters {
    /// Filters that are on, with their settings for this route: an Envoy message with its `@type`.
    pub(crate) settings: BTreeMap<Filter, Value>,
    /// Clusters that the settings refer to.
    pub(crate) clusters: BTreeSet<AuthCluster>,
    /// Seconds without a byte in either direction after which a request is given up.
    pub(crate) idle_timeout: Option<i64>,
    /// Metadata of the route, by namespace.
    pub(crate) metadata: BTreeMap<&'static str, Value>,
    /// Limits on the requests of each client.
    pub(crate) limit: Option<ClientLimit>,
    /// Settings of filters for redirects that the gateway answers itself.
    pub(crate) redirects: BTreeMap<Filter, Value>,
}

/// Limits that all routes of an Ingress share: each client address has its own count.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClientLimit {
    /// The Ingress, `namespace/name`.
    pub(crate) ingress: String,
    /// (interval in seconds, requests in it, requests that may come at once).
    pub(crate) buckets: Vec<(i64, u32, u32)>,
    /// CIDR blocks of clients that are not counted.
    pub(crate) except: Vec<String>,
}

impl RouteFilters {
    /// The part that holds for a page that stands in for an answer of the route: who may see it, not how often.
    fn of_page(&self) -> Self {
        let access = |filter: &Filter| filter.restricts_access();
        Self {
            settings: self
                .settings
                .iter()
                .filter(|(filter, _)| access(filter))
                .map(|(filter, value)| (*filter, value.clone()))
                .collect(),
            clusters: self.clusters.clone(),
            idle_timeout: self.idle_timeout,
            metadata: self.metadata.clone(),
            limit: None,
            redirects: BTreeMap::new(),
        }
    }
}
