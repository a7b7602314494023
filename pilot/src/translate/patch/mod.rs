//! Patches of EnvoyFilters, applied to generated resources.
//!
//! In: an encoded resource, and the patches that may concern it, in their order. Out: the patched resource. What no patch
//! touches keeps its bytes and is not even read. A patch that does not fit leaves what it was for as it is, and is told.

mod chain;
mod cluster;
mod fields;
mod http_filters;
mod list;
mod listener;
mod merge;
mod routes;
mod switched;
mod virtual_hosts;

use bytes::Bytes;
use shared_proto::envoy;

use super::issue::{Issue, Origin, Reason};
use crate::model::envoy_filter::{ApplyTo, Operation, Patch};
use fields::Fields;
use merge::Lists;

pub use cluster::{ClusterSite, cluster};
pub use listener::{ListenerSite, listener};
pub use routes::{RouteSite, routes};

/// Types that are patched, by their full names.
mod types {
    pub(super) const LISTENER: &str = "envoy.config.listener.v3.Listener";
    pub(super) const FILTER_CHAIN: &str = "envoy.config.listener.v3.FilterChain";
    pub(super) const FILTER: &str = "envoy.config.listener.v3.Filter";
    pub(super) const HTTP_FILTER: &str =
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter";
    pub(super) const ROUTES: &str = "envoy.config.route.v3.RouteConfiguration";
    pub(super) const VIRTUAL_HOST: &str = "envoy.config.route.v3.VirtualHost";
    pub(super) const ROUTE: &str = "envoy.config.route.v3.Route";
    pub(super) const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
}

/// What was found wrong while a resource was patched.
struct Problems<'a> {
    /// Name of the resource.
    resource: &'a str,
    issues: Vec<Issue>,
}

impl<'a> Problems<'a> {
    fn of(resource: &'a str) -> Self {
        let issues = Vec::new();
        Self { resource, issues }
    }

    fn add(&mut self, patch: &Patch, message: impl std::fmt::Display) {
        let name = &patch.owner.name;
        self.issues.push(Issue {
            origin: Some(Origin {
                namespace: name.namespace.to_string(),
                name: name.name.to_string(),
            }),
            at: patch.field(),
            reason: Reason::InvalidPatch,
            message: format!("{}: {message}; it is left as it is", self.resource),
        });
    }

    /// Merges the value of a patch into a message of this type; `None` when that cannot be.
    fn merge(&mut self, name: &str, base: &Bytes, patch: &Patch) -> Option<Bytes> {
        let lists = match patch.operation {
            Operation::MergeAndReplaceList => Lists::Replace,
            _ => Lists::Append,
        };
        let merged = envoy::descriptor(name)
            .map_err(|error| error.to_string())
            .and_then(|message| {
                let merged = merge::merge(&message, base, &patch.value, lists);
                merged.map_err(|error| error.to_string())
            });
        match merged {
            Ok(merged) => Some(merged),
            Err(error) => {
                self.add(patch, error);
                None
            }
        }
    }
}

/// A resource keeps its name, since it is asked for by it. In listeners, route configurations and clusters it is field 1.
fn keep_name(resource: Bytes, name: &str) -> Bytes {
    const NAME: u32 = 1;
    match Fields::parse(&resource) {
        Ok(mut fields) if fields.text(NAME) != name => {
            fields.set_list(NAME, vec![name.to_owned().into()]);
            fields.encode()
        }
        _ => resource,
    }
}

fn is_merge(patch: &Patch) -> bool {
    matches!(
        patch.operation,
        Operation::Merge | Operation::MergeAndReplaceList
    )
}

/// The patches of one kind.
fn only<'a>(patches: &[&'a Patch], apply_to: ApplyTo) -> Vec<&'a Patch> {
    let of = patches.iter().filter(|patch| patch.apply_to == apply_to);
    of.copied().collect()
}

#[cfg(test)]
mod tests;
