//! Requests that no path of a host takes, with ingress-nginx: they are answered with 404, and never by the rules of a wildcard host
//! above it.

use shared_proto::networking::v1alpha3::{HttpDirectResponse, HttpRoute};

use super::path::PathMatch;
use super::route::{Part, Route};
use super::{Context, Member};
use crate::model::{CATCH_ALL, Semantics};
use crate::translate::names;

const NOT_FOUND: u32 = 404;

/// Adds the route, if all Ingresses of the host have the semantics of ingress-nginx and something is left for it.
pub(super) fn add<'a>(context: Context<'a>, mains: &[&'a Member<'a>], routes: &mut Vec<Route<'a>>) {
    let nginx = |main: &&Member<'_>| main.settings.semantics == Semantics::IngressNginx;
    let complete = routes.iter().any(Route::is_catch_all);
    if context.rules_of == CATCH_ALL || complete || !mains.iter().all(nginx) {
        return;
    }
    let rule = |main: &&'a Member<'a>| {
        let (rule, _) = main.ingress.rules_of(context.rules_of).next()?;
        Some((*main, rule))
    };
    let Some((main, rule)) = mains.iter().find_map(rule) else {
        return;
    };
    let path = PathMatch::root();
    let mut http = HttpRoute {
        name: names::not_found_route(context.host),
        r#match: path.conditions(),
        direct_response: Some(HttpDirectResponse {
            status: NOT_FOUND,
            body: None,
        }),
        ..HttpRoute::default()
    };
    if let Some(redirect) = &main.settings.redirect {
        redirect.secure(&path.path, context.https(), &mut http);
    }
    routes.push(Route {
        ingress: main.ingress,
        settings: &main.settings,
        part: Part::Rule(rule),
        path,
        http,
        before: Vec::new(),
        shared_with: Vec::new(),
    });
}
