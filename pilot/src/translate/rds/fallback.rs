//! Destinations that take over while the first one has no usable endpoint (Higress's `fallbackClusters`).

use std::collections::BTreeSet;
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3 as route;
use route::route_action::ClusterSpecifier;
use shared_proto::networking::v1alpha3::Destination;

use super::destination::{Target, is_host};
use super::report::{Problem, Report};
use super::route::Context;
use super::wire;
use crate::translate::issue::Reason;
use crate::translate::names;

/// The cluster of a destination with its fallbacks; without any it is that of the destination.
pub(super) fn cluster_name(
    context: Context<'_>,
    destination: &Destination,
    fallbacks: &[Destination],
    report: &mut Report<'_>,
) -> String {
    let primary = Target::of(context, destination).cluster();
    let mut members = vec![primary];
    for fallback in fallbacks {
        let cluster = Target::of(context, fallback).cluster();
        if !is_host(&fallback.host) || names::parse_cluster_name(&cluster).is_none() {
            report.add(Problem::new(
                Reason::InvalidHost,
                "a fallback has no host, or an invalid one; it is left out",
            ));
        } else if !members.contains(&cluster) {
            members.push(cluster);
        }
    }
    let name = names::fallback_cluster_name(&members);
    if members.len() > 1 && names::parse_fallback_cluster_name(&name) == Some(members.clone()) {
        return name;
    }
    members.swap_remove(0)
}

/// Names of all clusters with fallbacks that the routes lead to.
#[must_use]
pub fn fallback_clusters(configuration: &wire::RouteConfiguration) -> BTreeSet<Arc<str>> {
    let hosts = configuration.virtual_hosts.iter();
    let mut found = BTreeSet::new();
    for action in hosts.flat_map(|host| &host.routes).map(|row| &row.action) {
        let Some(wire::Action::Route(action)) = action else {
            continue;
        };
        let mut add = |name: &str| {
            if names::parse_fallback_cluster_name(name).is_some() {
                found.insert(Arc::from(name));
            }
        };
        match &action.cluster_specifier {
            Some(ClusterSpecifier::Cluster(name)) => add(name),
            Some(ClusterSpecifier::WeightedClusters(all)) => {
                all.clusters.iter().for_each(|cluster| add(&cluster.name));
            }
            _ => {}
        }
    }
    found
}
