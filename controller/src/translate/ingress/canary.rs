//! Canary Ingresses on the routes of the Ingresses that they belong to.
//!
//! A canary belongs to the route of the same host, path and conditions. It never makes a host or a path of its own, with one
//! exception: when several canaries agree on a path that no other Ingress has, the oldest of them is taken for the main one.

use std::collections::BTreeMap;

use shared_proto::networking::v1alpha3::string_match::MatchType;
use shared_proto::networking::v1alpha3::{Headers, HttpRoute, HttpRouteDestination, StringMatch};

use super::annotations::canary::{Decision, HeaderValue};
use super::route::{Part, Route};
use super::{Context, Diagnostics, Member, backend, weights};
use crate::model::{Ingress, Reason, Semantics};
use crate::translate::names;

/// A path of a canary, and the index of the route that it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Offer<'a> {
    pub(super) member: &'a Member<'a>,
    pub(super) part: Part<'a>,
    pub(super) main: usize,
}

/// Puts canaries into effect, oldest first.
pub(super) fn attach<'a>(
    context: Context<'a>,
    routes: &mut [Route<'a>],
    offers: Vec<Offer<'a>>,
    diagnostics: &mut Diagnostics,
) {
    let mut shares: BTreeMap<usize, Vec<(u64, Vec<HttpRouteDestination>)>> = BTreeMap::new();
    let mut first: BTreeMap<usize, &'a Ingress> = BTreeMap::new();
    for offer in offers {
        let member = offer.member;
        let canary = &member.settings.canary;
        let (Some(canary), Some(main)) = (canary, routes.get_mut(offer.main)) else {
            continue;
        };
        let owner = *first.entry(offer.main).or_insert(offer.member.ingress);
        let is_second = owner.age() != offer.member.ingress.age();
        if is_second && main.settings.semantics == Semantics::IngressNginx {
            second(&offer, owner, diagnostics);
            continue;
        }
        let Some(destinations) = destinations(context, &offer, main, diagnostics) else {
            continue;
        };
        let control = member.settings.header_control.as_ref();
        let headers = control.map(|control| control.headers(context, member.ingress, diagnostics));
        for decision in &canary.decisions {
            match decision {
                Decision::Share(share) => {
                    let all = shares.entry(offer.main).or_default();
                    all.push((*share, with_headers(destinations.clone(), headers.clone())));
                    main.shared_with.push((offer.member.ingress, offer.part));
                }
                Decision::Header { name, value, taken } => {
                    let mut copy = match taken {
                        true => copy(context, &offer, main, destinations.clone(), headers.clone()),
                        false => stay(main),
                    };
                    require(&mut copy.http, name, value);
                    main.before.push(copy);
                }
            }
        }
    }
    for (main, canaries) in shares {
        if let Some(main) = routes.get_mut(main) {
            share(&mut main.http, canaries);
        }
    }
}

/// The canary's destinations; the main one stands in for them. Nothing when the canary or the main route gets no traffic.
fn destinations(
    context: Context<'_>,
    offer: &Offer<'_>,
    main: &Route<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<HttpRouteDestination>> {
    let Part::Path { object, .. } = offer.part else {
        return None;
    };
    let settings = &offer.member.settings;
    if settings.denied {
        return None;
    }
    if settings.source_range.is_some() && settings.source_range != main.settings.source_range {
        let message = "source ranges of the main Ingress hold for its canaries, so this canary gets no requests; give both the same ones";
        let ingress = offer.member.ingress;
        let field = offer.part.field();
        diagnostics.add(ingress, field, Reason::AccessDenied, message.to_owned());
        return None;
    }
    if settings.auth.is_some() && settings.auth != main.settings.auth {
        let message = "whom the main Ingress lets in its canaries let in, so this canary gets no requests; give both the same authentication";
        let ingress = offer.member.ingress;
        let field = offer.part.field();
        diagnostics.add(ingress, field, Reason::AccessDenied, message.to_owned());
        return None;
    }
    let mut all = match backend::destinations(context, offer.member, &object.backend) {
        Ok(all) => all,
        Err((below, reason, message)) => {
            let field = format!("{}.backend{below}", offer.part.field());
            let message = format!("{message}; the canary gets no requests");
            diagnostics.add(offer.member.ingress, field, reason, message);
            return None;
        }
    };
    let first = main.http.route.first()?;
    for destination in &mut all {
        let fallbacks = first.destination.iter().chain(&first.fallback_clusters);
        destination.fallback_clusters = fallbacks.cloned().collect();
    }
    Some(all)
}

/// Reports a canary that gets nothing because ingress-nginx knows one for a path, the oldest.
fn second(offer: &Offer<'_>, owner: &Ingress, diagnostics: &mut Diagnostics) {
    let message = format!(
        "the path has the canary {}/{} already, which is older (or first by name at equal age), and ingress-nginx knows one for a path; this one gets no requests, remove one",
        owner.namespace, owner.name
    );
    let field = offer.part.field();
    diagnostics.add(offer.member.ingress, field, Reason::DuplicateRoute, message);
}

/// The main route again, for requests that stay there whatever later decisions say.
fn stay<'a>(main: &Route<'a>) -> Route<'a> {
    Route {
        before: Vec::new(),
        shared_with: Vec::new(),
        ..main.clone()
    }
}

/// Restricts a route to requests with a header.
fn require(http: &mut HttpRoute, name: &str, value: &HeaderValue) {
    let match_type = match value {
        HeaderValue::Exact(text) => MatchType::Exact(text.clone()),
        HeaderValue::Regex(text) => MatchType::Regex(text.clone()),
    };
    for condition in &mut http.r#match {
        let value = StringMatch {
            match_type: Some(match_type.clone()),
        };
        condition.headers.entry(name.to_owned()).or_insert(value);
    }
}

/// The main route with another backend.
fn copy<'a>(
    context: Context<'a>,
    offer: &Offer<'a>,
    main: &Route<'a>,
    destinations: Vec<HttpRouteDestination>,
    headers: Option<Headers>,
) -> Route<'a> {
    let ingress = offer.member.ingress;
    let mut http = HttpRoute {
        name: names::route(context.scope, ingress),
        route: destinations,
        headers,
        ..main.http.clone()
    };
    for condition in &mut http.r#match {
        // Conditions on other headers do not hold for the canary; those on host and path do.
        condition.headers.retain(|name, _| name.starts_with(':'));
    }
    Route {
        ingress,
        // Who may use the main route may use this one.
        settings: main.settings,
        part: offer.part,
        path: main.path.clone(),
        http,
        before: Vec::new(),
        shared_with: Vec::new(),
    }
}

/// Shares the requests of a route with canaries.
fn share(http: &mut HttpRoute, canaries: Vec<(u64, Vec<HttpRouteDestination>)>) {
    let main = std::mem::take(&mut http.route);
    // The canaries have headers of their own.
    let main = with_headers(main, http.headers.take());
    http.route = weights::split(main, canaries);
}

fn with_headers(
    mut destinations: Vec<HttpRouteDestination>,
    headers: Option<Headers>,
) -> Vec<HttpRouteDestination> {
    for destination in &mut destinations {
        destination.headers.clone_from(&headers);
    }
    destinations
}
