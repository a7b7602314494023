//! `app-root`: requests for the root of a host are redirected.
//!
//! In Higress the newest Ingress of the host decides, and an Exact path `/` is tried before. In ingress-nginx the Ingress with the
//! longest path decides, and nothing is tried before.

use shared_proto::networking::v1alpha3::{HttpRedirect, HttpRoute};

use super::annotations::Problem;
use super::annotations::ingress_nginx::redirect;
use super::path::{PathKind, PathMatch};
use super::route::{Part, Route};
use super::{Context, Diagnostics, Member};
use crate::model::{Reason, Semantics};
use crate::translate::names;

const FOUND: u32 = 302;

/// What an Ingress asks for.
#[derive(Clone, Copy)]
struct Offer<'a> {
    member: &'a Member<'a>,
    /// The full key of the annotation.
    key: &'static str,
    path: &'a str,
}

/// Adds the route, if there is one to add. It comes first of those that are equal in order.
pub(super) fn add<'a>(
    context: Context<'a>,
    routes: &mut Vec<Route<'a>>,
    diagnostics: &mut Diagnostics,
) {
    let offers: Vec<Offer<'a>> = context
        .members
        .iter()
        .rev()
        .filter_map(|member| {
            // An Ingress that is closed, or only lends its backend to hosts without rules, sends nobody anywhere.
            let serves = member.ingress.rules_of(context.rules_of).next().is_some();
            if member.settings.denied || member.settings.canary.is_some() || !serves {
                return None;
            }
            let found = member.settings.redirect.as_ref()?.app_root.as_ref()?;
            let (key, path) = (found.key, &found.value);
            Some(Offer { member, key, path })
        })
        .collect();
    let Some((winner, why)) = winner(context, &offers) else {
        return;
    };
    let Offer { member, key, path } = winner;
    let mut report = |member: &Member<'_>, key: &str, message: String| {
        let problem = Problem {
            key: key.to_owned(),
            reason: Reason::IneffectiveAnnotation,
            message,
        };
        diagnostics.0.push(problem.diagnostic(member.ingress));
    };
    let ingress = member.ingress;
    let losers = offers
        .iter()
        .filter(|offer| offer.member.ingress.age() != ingress.age());
    for loser in losers {
        let message = format!(
            "host {} has its root redirected by Ingress {}/{}, which {why}; remove one",
            context.host, ingress.namespace, ingress.name
        );
        report(loser.member, loser.key, message);
    }
    let nginx = member.settings.semantics == Semantics::IngressNginx;
    let is_root = |route: &&Route<'_>| route.path.kind == PathKind::Exact && route.path.path == "/";
    if let Some(route) = routes.iter().find(is_root).filter(|_| !nginx) {
        let message = format!(
            "the Exact path / of Ingress {}/{} is tried before; remove one",
            route.ingress.namespace, route.ingress.name
        );
        report(member, key, message);
    }
    let path_match = if nginx {
        PathMatch::exact_root()
    } else {
        PathMatch::special_root()
    };
    let mut http = HttpRoute {
        name: names::app_root_route(context.host),
        r#match: path_match.conditions(),
        ..HttpRoute::default()
    };
    match redirect::on_same_host(path).ok().filter(|_| nginx) {
        Some(location) => redirect::answer(&mut http, FOUND, &location),
        None => {
            http.redirect = Some(HttpRedirect {
                uri: path.to_owned(),
                redirect_code: FOUND,
                ..HttpRedirect::default()
            });
        }
    }
    let route = Route {
        ingress,
        settings: &member.settings,
        part: Part::Annotation(key),
        path: path_match,
        http,
        before: Vec::new(),
        shared_with: Vec::new(),
    };
    routes.insert(0, route);
}

/// The offer that counts, of offers from new to old, and why it does.
fn winner<'a>(context: Context<'a>, offers: &[Offer<'a>]) -> Option<(Offer<'a>, &'static str)> {
    let nginx = |offer: &&Offer<'a>| offer.member.settings.semantics == Semantics::IngressNginx;
    // The last one of equals is the oldest.
    let first = offers
        .iter()
        .filter(nginx)
        .max_by_key(|offer| longest_path(context, offer));
    match first {
        Some(offer) => Some((*offer, "has the longest path (or is older)")),
        None => Some((*offers.first()?, "is newer")),
    }
}

/// What ingress-nginx sorts locations by.
fn longest_path<'a>(context: Context<'a>, offer: &Offer<'a>) -> (usize, &'a str) {
    let rules = offer.member.ingress.rules_of(context.rules_of);
    let paths = rules.flat_map(|(_, rule)| rule.paths.iter().map(|path| &*path.path));
    paths
        .map(|path| (path.len(), path))
        .max()
        .unwrap_or_default()
}
