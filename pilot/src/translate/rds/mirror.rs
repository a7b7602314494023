//! Mirroring: a copy of each request, or of a share of them, goes to another service.

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::route::v3::route_action::RequestMirrorPolicy;
use shared_proto::networking::v1alpha3::{Destination, HttpRoute};

use super::destination::cluster_name;
use super::report::{Problem, Report};
use super::route::Context;
use crate::translate::issue::Reason;
use crate::translate::proto;

/// Policies of `mirror` and `mirrors`.
pub(super) fn policies(context: Context<'_>, report: &mut Report<'_>) -> Vec<RequestMirrorPolicy> {
    let route = context.route;
    let single = route
        .mirror
        .as_ref()
        .map(|destination| (destination, share(route)));
    let listed = route.mirrors.iter().filter_map(|mirror| {
        let share = mirror.percentage.as_ref().map(|percent| percent.value);
        Some((mirror.destination.as_ref()?, share))
    });
    single
        .into_iter()
        .chain(listed)
        .filter_map(|(destination, share)| {
            report
                .optional(policy(context, destination, share))
                .flatten()
        })
        .collect()
}

/// The percentage, `None` for all requests.
fn share(route: &HttpRoute) -> Option<f64> {
    if let Some(percentage) = &route.mirror_percentage {
        return Some(percentage.value);
    }
    route
        .mirror_percent
        .as_ref()
        .map(|percent| f64::from(percent.value))
}

fn policy(
    context: Context<'_>,
    destination: &Destination,
    share: Option<f64>,
) -> Result<Option<RequestMirrorPolicy>, Problem> {
    let share = share.unwrap_or(100.0);
    if !share.is_finite() {
        return Err(Problem::new(
            Reason::InvalidValue,
            "mirror percentage is no number",
        ));
    }
    if share <= 0.0 {
        return Ok(None);
    }
    if destination.host.is_empty() {
        return Err(Problem::new(Reason::InvalidHost, "mirror has no host"));
    }
    Ok(Some(RequestMirrorPolicy {
        cluster: cluster_name(context, destination),
        runtime_fraction: Some(core::RuntimeFractionalPercent {
            default_value: Some(proto::percent(share)),
            ..Default::default()
        }),
        trace_sampled: Some(proto::boolean(false)),
        ..Default::default()
    }))
}
