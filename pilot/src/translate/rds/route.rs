//! The Envoy routes of one VirtualService: one per match of each of its HTTP routes.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::route::v3 as envoy_route;
use envoy_types::pb::google::protobuf;
use shared_proto::networking::v1alpha3::{HttpMatchRequest, HttpRoute};

use super::report::{Problem, Report};
use super::{
    HostRoutes, RouteVs, access, cors, destination, direct_response, fault, headers,
    internal_redirect, matches, rate_limit, redirect, wire,
};
use crate::translate::issue::{Issue, Origin, Reason};
use crate::translate::{names, proto};

/// What a route is made from.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) host: &'a HostRoutes<'a>,
    pub(super) vs: &'a RouteVs<'a>,
    pub(super) route: &'a HttpRoute,
}

/// Routes in order; what follows a route that takes everything is left out, it would never serve.
pub(super) fn routes(
    host: &HostRoutes<'_>,
    vs: &RouteVs<'_>,
    issues: &mut Vec<Issue>,
) -> Vec<wire::Route> {
    let origin = Origin {
        namespace: vs.namespace.to_owned(),
        name: vs.name.to_owned(),
    };
    let mut result: Vec<wire::Route> = Vec::new();
    for route in &vs.spec.http {
        let name = route_name(vs, route);
        let context = Context { host, vs, route };
        let mut report = Report {
            issues,
            origin: &origin,
            at: &name,
        };
        result.extend(http_route(context, &name, &mut report));
        if result.last().is_some_and(is_catch_all) {
            break;
        }
    }
    result
}

/// True for a route that takes every request.
pub(super) fn is_catch_all(row: &wire::Route) -> bool {
    use envoy_route::route_match::PathSpecifier;
    let Some(condition) = &row.r#match else {
        return false;
    };
    let every_path = match &condition.path_specifier {
        Some(PathSpecifier::Prefix(prefix)) => prefix == "/",
        Some(PathSpecifier::SafeRegex(regex)) => regex.regex == ".*",
        _ => false,
    };
    every_path && condition.headers.is_empty() && condition.query_parameters.is_empty()
}

/// A route always has a name: the scope filter takes a request without one as unmatched.
fn route_name(vs: &RouteVs<'_>, route: &HttpRoute) -> String {
    if route.name.is_empty() {
        format!("{}/{}", vs.namespace, vs.name)
    } else {
        route.name.clone()
    }
}

fn http_route(context: Context<'_>, name: &str, report: &mut Report<'_>) -> Vec<wire::Route> {
    let mut rows = Vec::new();
    let mut built: Option<wire::Route> = None;
    let always = HttpMatchRequest::default();
    let conditions: Vec<&HttpMatchRequest> = if context.route.r#match.is_empty() {
        vec![&always]
    } else {
        context.route.r#match.iter().collect()
    };
    for condition in conditions {
        if !matches::applies(context, condition) {
            continue;
        }
        let matched = match matches::route_match(context, condition) {
            Ok(matched) => matched,
            Err(problem) => {
                report.add(problem.and("the route is left out"));
                continue;
            }
        };
        let template = built.get_or_insert_with(|| template(context, report));
        rows.push(wire::Route {
            name: full_name(name, condition),
            r#match: Some(matched),
            stat_prefix: condition.stat_prefix.clone(),
            ..template.clone()
        });
        if rows.last().is_some_and(is_catch_all) {
            break;
        }
    }
    rows
}

fn full_name(name: &str, condition: &HttpMatchRequest) -> String {
    if condition.name.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{}", condition.name)
    }
}

/// Everything that the matches of a route share.
fn template(context: Context<'_>, report: &mut Report<'_>) -> wire::Route {
    let path = names::origin_path("virtual-service", context.vs.namespace, context.vs.name);
    let mut row = wire::Route {
        metadata: Some(proto::origin_metadata(path)),
        ..Default::default()
    };
    headers::apply(context.route.headers.as_ref(), &mut row, report);
    row.typed_per_filter_config = filter_settings(context, report);
    let action = action(context, &mut row, report).unwrap_or_else(|problem| {
        report.add(problem.and("requests are answered with 500"));
        direct_response::status(500)
    });
    row.action = Some(action);
    row
}

/// Of several actions the one that leads no request to a backend has precedence.
fn action(
    context: Context<'_>,
    row: &mut wire::Route,
    report: &mut Report<'_>,
) -> Result<wire::Action, Problem> {
    let route = context.route;
    if let Some(redirect) = &route.redirect
        && !(context.host.https && redirect::is_https_only(redirect, context.host.port))
    {
        return redirect::action(context, redirect);
    }
    if let Some(response) = &route.direct_response {
        return direct_response::action(response);
    }
    if route.route.is_empty() {
        let what = if route.delegate.is_some() {
            Problem::new(Reason::Unsupported, "delegate was not resolved")
        } else {
            Problem::new(Reason::NoAction, "route has no destination")
        };
        return Err(what);
    }
    destination::action(context, row, report)
}

fn filter_settings(
    context: Context<'_>,
    report: &mut Report<'_>,
) -> BTreeMap<String, protobuf::Any> {
    let route = context.route;
    let mut settings = BTreeMap::new();
    if let Some(policy) = &route.cors_policy {
        cors::apply(policy, &mut settings, report);
    }
    if let Some(injection) = &route.fault {
        fault::apply(injection, &mut settings, report);
    }
    let vs_filters = &context.vs.spec.host_http_filters;
    access::apply(context, &mut settings, report);
    rate_limit::apply(vs_filters, &route.route_http_filters, &mut settings, report);
    if let Some(redirect) = &route.internal_active_redirect {
        internal_redirect::apply(context, redirect, &mut settings, report);
    }
    settings
}
