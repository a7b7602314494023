//! `app-root`: requests for the root of a host are redirected. The newest Ingress of the host decides.

use shared_proto::networking::v1alpha3::{HttpRedirect, HttpRoute};

use super::annotations::Problem;
use super::path::{PathKind, PathMatch};
use super::route::{Part, Route};
use super::{Context, Diagnostics, Member};
use crate::model::Reason;
use crate::translate::names;

const FOUND: u32 = 302;

/// Adds the route, if there is one to add. It comes first of those that are equal in order.
pub(super) fn add<'a>(
    context: Context<'a>,
    routes: &mut Vec<Route<'a>>,
    diagnostics: &mut Diagnostics,
) {
    let mut offers = context.members.iter().rev().filter_map(|member| {
        // An Ingress that is closed, or only lends its backend to hosts without rules, sends nobody anywhere.
        let serves = member.ingress.rules_of(context.host).next().is_some();
        if member.settings.denied || member.settings.canary.is_some() || !serves {
            return None;
        }
        let found = member.settings.redirect.as_ref()?.app_root.as_ref()?;
        Some((member, found.key, &found.value))
    });
    let Some((member, key, path)) = offers.next() else {
        return;
    };
    let mut report = |member: &Member<'_>, key: &str, message: String| {
        let problem = Problem {
            key: key.to_owned(),
            reason: Reason::IneffectiveAnnotation,
            message,
        };
        diagnostics.0.push(problem.diagnostic(member.ingress));
    };
    let winner = member.ingress;
    for (loser, key, _) in offers {
        let message = format!(
            "host {} has its root redirected by Ingress {}/{}, which is newer; remove one",
            context.host, winner.namespace, winner.name
        );
        report(loser, key, message);
    }
    let taken = routes
        .iter()
        .find(|route| route.path.kind == PathKind::Exact && route.path.path == "/");
    if let Some(route) = taken {
        let message = format!(
            "the Exact path / of Ingress {}/{} is tried before; remove one",
            route.ingress.namespace, route.ingress.name
        );
        report(member, key, message);
    }
    let matched = PathMatch::special_root();
    let http = HttpRoute {
        name: names::app_root_route(context.host),
        r#match: matched.conditions(),
        redirect: Some(HttpRedirect {
            uri: path.clone(),
            redirect_code: FOUND,
            ..HttpRedirect::default()
        }),
        ..HttpRoute::default()
    };
    let route = Route {
        ingress: winner,
        settings: &member.settings,
        part: Part::Annotation(key),
        path: matched,
        http,
        before: Vec::new(),
        shared_with: Vec::new(),
    };
    routes.insert(0, route);
}
