//! Routes to what is shown in place of a backend's errors.
//!
//! The gateway asks for the page with two headers that only it sets, so these routes come first and disturb no other.

use shared_proto::networking::v1alpha3::string_match::MatchType;
use shared_proto::networking::v1alpha3::{
    HttpMatchRequest, HttpRoute, HttpRouteDestination, StringMatch,
};

use super::annotations::fallback::{FallbackService, ROUTE_NAME_HEADER, SERVICE_HEADER};
use super::annotations::table::CUSTOM_HTTP_ERRORS;
use super::path::PathMatch;
use super::route::{Part, Route};
use super::{Context, Diagnostics};
use crate::translate::names;

/// Adds a route for every Ingress whose errors are replaced.
pub(super) fn add<'a>(
    context: Context<'a>,
    routes: &mut Vec<Route<'a>>,
    diagnostics: &mut Diagnostics,
) {
    let mut pages: Vec<Route<'a>> = Vec::new();
    for route in routes.iter() {
        let (Some(fallback), Some(asked)) = (&route.settings.fallback, page_name(route)) else {
            continue;
        };
        let name = names::fallback_route(&route.http.name);
        // A canary shows the pages of its main route, which has a name of its own.
        if *asked != name || pages.iter().any(|page| page.http.name == name) {
            continue;
        }
        if let Some(service) = fallback.resolve(context, route.ingress, diagnostics) {
            pages.push(page(route, name, service));
        }
    }
    routes.splice(0..0, pages);
}

/// The route of the page that takes the place of errors.
fn page_name<'a>(route: &'a Route<'_>) -> Option<&'a String> {
    let redirect = route.http.internal_active_redirect.as_ref()?;
    let request = redirect.headers.as_ref()?.request.as_ref()?;
    request.add.get(ROUTE_NAME_HEADER)
}

/// The route's settings hold for its pages, but for those that concern its own path and backend.
fn page<'a>(route: &Route<'a>, name: String, service: FallbackService) -> Route<'a> {
    let exact = |text: &str| StringMatch {
        match_type: Some(MatchType::Exact(text.to_owned())),
    };
    let condition = HttpMatchRequest {
        uri: Some(exact("/")),
        headers: [
            (ROUTE_NAME_HEADER.to_owned(), exact(&name)),
            (SERVICE_HEADER.to_owned(), exact(&service.name)),
        ]
        .into(),
        ..HttpMatchRequest::default()
    };
    let http = HttpRoute {
        name,
        r#match: vec![condition],
        route: vec![HttpRouteDestination {
            destination: Some(service.destination),
            weight: 100,
            ..HttpRouteDestination::default()
        }],
        rewrite: None,
        mirror: None,
        mirror_percentage: None,
        internal_active_redirect: None,
        ..route.http.clone()
    };
    Route {
        ingress: route.ingress,
        settings: route.settings,
        part: Part::Annotation(CUSTOM_HTTP_ERRORS.nginx),
        path: PathMatch::special_root(),
        http,
        before: Vec::new(),
        shared_with: Vec::new(),
    }
}
