//! Families that restrict requests, limit them, or bring in further Services.

use super::super::route::Route;
use super::super::{Context, Diagnostics};

/// Puts them into effect, in Higress's order, after those that shape requests.
pub(crate) fn apply(context: Context<'_>, route: &mut Route<'_>, diagnostics: &mut Diagnostics) {
    let Route {
        ingress,
        settings,
        http,
        ..
    } = route;
    restrict(settings, http);
    if let Some(limit) = &settings.rate_limit {
        limit.apply(http);
    }
    if let Some(fallback) = &settings.fallback {
        fallback.apply(context, ingress, http, diagnostics);
    }
    if let Some(mirror) = &settings.mirror {
        mirror.apply(context, ingress, http, diagnostics);
    }
}

/// Lets in only those who may; the one part that holds for default backends too.
pub(crate) fn restrict(
    settings: &super::Settings,
    http: &mut shared_proto::networking::v1alpha3::HttpRoute,
) {
    if let Some(range) = &settings.source_range {
        range.apply(http);
    }
}
