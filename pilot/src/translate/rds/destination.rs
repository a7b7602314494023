//! The action of a route that leads to backends: clusters with weights, timeout, retries, rewrites.

use envoy_types::pb::envoy::config::route::v3 as route;
use envoy_types::pb::google::protobuf;
use route::route_action::{ClusterSpecifier, HostRewriteSpecifier, MaxStreamDuration};
use route::weighted_cluster::{self, ClusterWeight};
use shared_proto::networking::v1alpha3::{Destination, HttpRouteDestination};

use super::report::{Problem, Report};
use super::route::Context;
use super::{header_value, headers, mirror, retry, rewrite, wire};
use crate::translate::issue::Reason;
use crate::translate::{names, proto};

/// A duration that is not negative; longer ones than Envoy can hold are cut.
pub(super) fn duration(
    what: &str,
    value: &shared_proto::well_known::Duration,
) -> Result<protobuf::Duration, Problem> {
    let seconds = u64::try_from(value.seconds);
    let nanos = u32::try_from(value.nanos);
    match (seconds, nanos) {
        (Ok(seconds), Ok(nanos)) if nanos < 1_000_000_000 => {
            Ok(proto::duration(std::time::Duration::new(seconds, nanos)))
        }
        _ => Err(Problem::new(
            Reason::InvalidValue,
            format!("{what} is negative"),
        )),
    }
}

/// Cluster of a destination. Its port is the one given, else the only port of the service, else
/// the port that the gateway listens on.
pub(super) fn cluster_name(context: Context<'_>, destination: &Destination) -> String {
    let given = destination
        .port
        .as_ref()
        .and_then(|port| u16::try_from(port.number).ok())
        .filter(|port| *port != 0);
    let port = given.unwrap_or_else(|| {
        let service = context
            .host
            .services
            .service(&destination.host, context.vs.namespace);
        match service.as_deref().map(|service| service.ports.as_slice()) {
            Some([only]) => only.number,
            _ => context.host.port,
        }
    });
    names::cluster_name(port, &destination.subset, &destination.host)
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
    let mut action = route::RouteAction {
        timeout: Some(timeout),
        max_stream_duration: Some(MaxStreamDuration {
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
    if all.iter().any(|entry| !entry.fallback_clusters.is_empty()) {
        report.add(Problem::new(
            Reason::Unsupported,
            "fallbackClusters are not served; they are left out",
        ));
    }
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

fn is_host(host: &str) -> bool {
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
    action.cluster_specifier = Some(ClusterSpecifier::Cluster(cluster_name(
        context,
        destination,
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
                name: cluster_name(context, destination),
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
