//! The order in which the routes of a host are tried.

use std::cmp::Reverse;

use shared_proto::networking::v1alpha3::string_match::MatchType;

use super::path::PathKind;
use super::route::Route;

/// Puts the routes for some of another's requests before it.
pub(super) fn flatten(routes: Vec<Route<'_>>) -> Vec<Route<'_>> {
    let mut all = Vec::with_capacity(routes.len());
    for mut route in routes {
        all.append(&mut route.before);
        all.push(route);
    }
    all
}

/// Stable sort: Exact before Prefix before regular expressions, longer before shorter, more conditions before fewer, then the order in which they
/// came (oldest Ingress first). What takes everything comes last, and a default backend after that.
pub(super) fn sort(routes: &mut [Route<'_>]) {
    routes.sort_by_cached_key(|route| {
        let first = route.http.r#match.first();
        let method = first
            .and_then(|m| m.method.as_ref())
            .map(|m| match &m.match_type {
                Some(MatchType::Exact(text) | MatchType::Prefix(text) | MatchType::Regex(text)) => {
                    text.len()
                }
                None => 0,
            });
        (
            route.is_default_backend(),
            route.is_catch_all(),
            route.path.kind.rank(),
            Reverse(route.path.path.len()),
            Reverse(among_equals(route)),
            method.is_none(),
            method,
            Reverse(first.map_or(0, |m| m.headers.len())),
            Reverse(first.map_or(0, |m| m.query_params.len())),
        )
    });
}

/// ingress-nginx tries expressions of the same length in reverse alphabetical order.
fn among_equals(route: &Route<'_>) -> Option<String> {
    let nginx = matches!(route.path.kind, PathKind::AnyCaseRegex { .. });
    nginx.then(|| route.path.path.clone())
}
