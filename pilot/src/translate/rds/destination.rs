//! The action of a route that leads to backends: clusters with weights, timeout, retries, rewrites.

use envoy_types::pb::envoy::config::route::v3 as route;
use route::route_action::{ClusterSpecifier, HostRewriteSpecifier, MaxStreamDuration};
use route::weighted_cluster::{self, ClusterWeight};
use shared_proto::networking::v1alpha3::{Destination, HttpRouteDestination};

use super::report::{Problem, Report, duration};
use super::route::Context;
use super::{fallback, hash, header_value, headers, mirror, retry, rewrite, wire};
use crate::translate::issue::Reason;
use crate::translate::{names, proto};

/// Where a destination leads to. Its port is the one given, else the only port of the service, else
/// the port that the gateway listens on.
pub(super) struct Target {
    pub(super) hostname: String,
    pub(super) port: u16,
    pub(super) subset: String,
}

impl Target {
    pub(super) fn of(context: Context<'_>, destination: &Destination) -> Self {
        let (services, namespace) = (context.host.services, context.vs.namespace);
        let given = destination
            .port
            .as_ref()
            .and_then(|port| u16::try_from(port.number).ok())
            .filter(|port| *port != 0);
        let port = given.unwrap_or_else(|| {
            let service = services.service(&destination.host, namespace);
            match service.as_deref().map(|service| service.ports.as_slice()) {
                Some([only]) => only.number,
                _ => context.host.port,
            }
        });
        Self {
            hostname: services.complete(&destination.host, namespace),
            port,
            subset: destination.subset.clone(),
        }
    }

    pub(super) fn cluster(&self) -> String {
        names::cluster_name(self.port, &self.subset, &self.hostname)
    }
}

/// Cluster of a destination.
pub(super) fn cluster_name(context: Context<'_>, destination: &Destination) -> String {
    Target::of(context, destination).cluster()
}

/// The action of the route; header operations of a single destination go to the route itself.
pub(super) fn action(
    context: Context<'_>,
    row: &mut wire::Route,
    report: &mut Report<'_>,
) -> Result<wire::Action, Problem> {
    let route = context.route;
    let timeout = route
        .timeout
        .as_ref()
        .and_then(|value| report.optional(duration("timeout", value)))
        .unwrap_or_else(|| proto::seconds(0));
    let endless = timeout.seconds == 0 && timeout.nanos == 0;
    let mut action = route::RouteAction {
        timeout: Some(timeout),
        // A deadline of the client counts. Envoy would not look at a `timeout` beside it.
        max_stream_duration: endless.then(|| MaxStreamDuration {
            grpc_timeout_header_max: Some(timeout),
            ..Default::default()
        }),
        retry_policy: route
            .retries
            .as_ref()
            .map(|retries| retry::policy(retries, report)),
        request_mirror_policies: mirror::policies(context, report),
        ..Default::default()
    };
    if let Some(authority) = headers::authority(route.headers.as_ref()) {
        action.host_rewrite_specifier = report.optional(rewrite::authority(authority));
    }
    if let Some(value) = &route.rewrite {
        rewrite::apply(value, &mut action, report);
    }
    clusters(context, &mut action, row, report)?;
    Ok(wire::Action::Route(action))
}

/// Destinations that get traffic. The weight of a single one does not matter.
fn clusters(
    context: Context<'_>,
    action: &mut route::RouteAction,
    row: &mut wire::Route,
    report: &mut Report<'_>,
) -> Result<(), Problem> {
    let all = &context.route.route;
    let mut taken: Vec<(&HttpRouteDestination, &Destination, u32)> = Vec::new();
    for entry in all {
        let destination = entry
            .destination
            .as_ref()
            .filter(|destination| is_host(&destination.host));
        let Some(destination) = destination else {
            return Err(Problem::new(
                Reason::InvalidHost,
                "a destination has no host, or an invalid one",
            ));
        };
        let weight = u32::try_from(entry.weight).unwrap_or(0);
        if weight > 0 || all.len() == 1 {
            taken.push((entry, destination, weight));
        }
    }
    hash::apply(
        context,
        taken.iter().map(|(_, destination, _)| *destination),
        action,
        report,
    );
    match taken.as_slice() {
        [] => Err(Problem::new(
            Reason::InvalidValue,
            "no destination has a weight above 0",
        )),
        [(entry, destination, _)] => {
            single(context, entry, destination, action, row, report);
            Ok(())
        }
        several => weighted(context, several, action, report),
    }
}

pub(super) fn is_host(host: &str) -> bool {
    !host.is_empty() && host.len() <= 253 && header_value::is_valid(host)
}

fn single(
    context: Context<'_>,
    entry: &HttpRouteDestination,
    destination: &Destination,
    action: &mut route::RouteAction,
    row: &mut wire::Route,
    report: &mut Report<'_>,
) {
    headers::apply(entry.headers.as_ref(), row, report);
    if action.host_rewrite_specifier.is_none()
        && let Some(authority) = headers::authority(entry.headers.as_ref())
    {
        action.host_rewrite_specifier = report.optional(rewrite::authority(authority));
    }
    action.cluster_specifier = Some(ClusterSpecifier::Cluster(fallback::cluster_name(
        context,
        destination,
        &entry.fallback_clusters,
        report,
    )));
}

fn weighted(
    context: Context<'_>,
    entries: &[(&HttpRouteDestination, &Destination, u32)],
    action: &mut route::RouteAction,
    report: &mut Report<'_>,
) -> Result<(), Problem> {
    let total: u64 = entries
        .iter()
        .map(|(_, _, weight)| u64::from(*weight))
        .sum();
    if total > u64::from(u32::MAX) {
        return Err(Problem::new(
            Reason::InvalidValue,
            "the weights of the destinations are too large",
        ));
    }
    let clusters = entries
        .iter()
        .map(|(entry, destination, weight)| {
            let operations = headers::operations(entry.headers.as_ref(), report);
            let host = headers::authority(entry.headers.as_ref())
                .and_then(|authority| report.optional(rewrite::authority(authority)));
            ClusterWeight {
                name: fallback::cluster_name(
                    context,
                    destination,
                    &entry.fallback_clusters,
                    report,
                ),
                weight: Some(proto::uint(*weight)),
                request_headers_to_add: operations.request_add,
                request_headers_to_remove: operations.request_remove,
                response_headers_to_add: operations.response_add,
                response_headers_to_remove: operations.response_remove,
                host_rewrite_specifier: host.and_then(literal),
                ..Default::default()
            }
        })
        .collect();
    action.cluster_specifier = Some(ClusterSpecifier::WeightedClusters(route::WeightedCluster {
        clusters,
        ..Default::default()
    }));
    Ok(())
}

fn literal(
    host: HostRewriteSpecifier,
) -> Option<weighted_cluster::cluster_weight::HostRewriteSpecifier> {
    match host {
        HostRewriteSpecifier::HostRewriteLiteral(value) => {
            Some(weighted_cluster::cluster_weight::HostRewriteSpecifier::HostRewriteLiteral(value))
        }
        _ => None,
    }
}
