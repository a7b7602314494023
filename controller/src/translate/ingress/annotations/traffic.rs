//! Families that restrict requests, limit them, or bring in further Services.

use shared_proto::networking::v1alpha3::{HttpDirectResponse, HttpRoute};

use super::super::route::Route;
use super::super::{Context, Diagnostics};
use super::Settings;

/// Answer to clients that may not come in.
const FORBIDDEN: u32 = 403;

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

/// Lets in only those who may.
pub(crate) fn restrict(settings: &Settings, http: &mut HttpRoute) {
    // Where an address is one of two ways in, the filter of the other one looks at it.
    let only = settings.auth.as_ref().is_none_or(|auth| !auth.or_address);
    if let (Some(range), true) = (&settings.source_range, only) {
        range.apply(http);
    }
}

/// Lets nobody in.
pub(crate) fn forbid(http: &mut HttpRoute) {
    *http = HttpRoute {
        name: std::mem::take(&mut http.name),
        r#match: std::mem::take(&mut http.r#match),
        direct_response: Some(HttpDirectResponse {
            status: FORBIDDEN,
            body: None,
        }),
        ..HttpRoute::default()
    };
}
