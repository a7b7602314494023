//! Rules of a host to routes, the oldest claim on a path winning.

use std::collections::{HashMap, HashSet};

use shared_proto::networking::v1alpha3::{HttpRedirect, HttpRoute};

use super::annotations::{self, Identity, traffic};
use super::canary::{self, Offer};
use super::path::{PathKind, PathMatch};
use super::route::{Part, Route};
use super::{Context, Diagnostics, Member, backend};
use crate::model::{Ingress, Reason, Semantics};
use crate::translate::names;

const MOVED: u32 = 301;

/// What tells the routes of a host apart.
type Claim = (PathMatch, Identity);

/// Routes of a host's rules.
#[derive(Debug, Default)]
pub(super) struct Rules<'a> {
    /// The routes in order of age.
    pub(super) routes: Vec<Route<'a>>,
    /// The members that serve the host, oldest first: all but canaries of others.
    pub(super) mains: Vec<&'a Member<'a>>,
}

/// A path as it stands in an Ingress.
#[derive(Clone)]
struct Stated<'a> {
    member: &'a Member<'a>,
    part: Part<'a>,
    claim: Claim,
}

/// Routes of the rules, with their canaries.
pub(super) fn translate<'a>(context: Context<'a>, diagnostics: &mut Diagnostics) -> Rules<'a> {
    let mut builder = Builder {
        context,
        rules: Rules::default(),
        claims: HashMap::new(),
    };
    let mut canaries = Vec::new();
    for member in context.members {
        let is_canary = member.settings.canary.is_some();
        if !is_canary {
            builder.rules.mains.push(member);
        }
        for stated in stated(context, member, diagnostics) {
            if is_canary {
                canaries.push(stated);
            } else {
                builder.add(&stated, diagnostics);
            }
        }
    }
    let offers = builder.offers(canaries, diagnostics);
    builder.add_slashes();
    let mut rules = builder.rules;
    canary::attach(context, &mut rules.routes, offers, diagnostics);
    rules
}

/// The paths of an Ingress that can be served.
fn stated<'a>(
    context: Context<'a>,
    member: &'a Member<'a>,
    diagnostics: &mut Diagnostics,
) -> Vec<Stated<'a>> {
    let mut all = Vec::new();
    if !member.settings.is_served() {
        return all;
    }
    for (rule, object) in member.ingress.rules_of(context.rules_of) {
        for (index, path) in object.paths.iter().enumerate() {
            let part = Part::Path {
                rule,
                path: index,
                object: path,
            };
            match PathMatch::parse(path, &member.settings, context.regex_host) {
                Ok(matched) => all.push(Stated {
                    member,
                    part,
                    claim: (matched, member.settings.identity()),
                }),
                Err((below, reason, message)) => {
                    diagnostics.add(member.ingress, part.field() + below, reason, message);
                }
            }
        }
    }
    all
}

struct Builder<'a> {
    context: Context<'a>,
    rules: Rules<'a>,
    /// Claim -> index of its route.
    claims: HashMap<Claim, usize>,
}

impl<'a> Builder<'a> {
    /// Adds a route, unless its path is taken.
    fn add(&mut self, stated: &Stated<'a>, diagnostics: &mut Diagnostics) {
        let Stated {
            member,
            part,
            claim,
        } = stated;
        let owner = self.claims.get(claim);
        if let Some(owner) = owner.and_then(|index| self.rules.routes.get(*index)) {
            let message = taken(self.context.host, &claim.0, owner.ingress, member.ingress);
            diagnostics.add(
                member.ingress,
                part.field(),
                Reason::DuplicateRoute,
                message,
            );
            return;
        }
        // A path belongs to its owner even while its backend cannot be told.
        self.claims.insert(claim.clone(), self.rules.routes.len());
        let path = claim.0.clone();
        let route = route(self.context, member, (*part, path), diagnostics);
        self.rules.routes.push(route);
    }

    /// ingress-nginx sends clients that leave out the slash at the end of a path there, when nothing else has that path.
    fn add_slashes(&mut self) {
        let nginx = |route: &&Route<'a>| route.settings.semantics == Semantics::IngressNginx;
        let routes = self.rules.routes.iter().filter(nginx);
        let asked = routes.filter_map(|route| Some((route, route.path.without_slash()?)));
        let asked: Vec<_> = asked.collect();
        if asked.is_empty() {
            return;
        }
        let taken: HashSet<&PathMatch> = self.claims.keys().map(|claim| &claim.0).collect();
        let free = |path: &PathMatch| {
            let prefix = PathMatch::prefix(path.path.clone());
            !taken.contains(path) && !taken.contains(&prefix)
        };
        let redirects = asked.into_iter().filter(|(_, path)| free(path));
        let redirects = redirects.map(|(route, path)| slash_redirect(route, path));
        let redirects: Vec<_> = redirects.collect();
        self.rules.routes.extend(redirects);
    }

    /// Finds the routes that canaries belong to. Where there is none, the oldest of several canaries becomes it.
    fn offers(
        &mut self,
        canaries: Vec<Stated<'a>>,
        diagnostics: &mut Diagnostics,
    ) -> Vec<Offer<'a>> {
        let shared = shared(&canaries);
        let mut seen: HashSet<(usize, *const Member<'a>)> = HashSet::new();
        let mut offers = Vec::new();
        for stated in &canaries {
            let member = stated.member;
            let Some(&main) = self.claims.get(&stated.claim) else {
                self.without_main(stated, shared.contains(&stated.claim), diagnostics);
                continue;
            };
            let owner = self.rules.routes.get(main).map(|route| route.ingress.age());
            if owner == Some(member.ingress.age()) || !seen.insert((main, member)) {
                let message = taken(
                    self.context.host,
                    &stated.claim.0,
                    member.ingress,
                    member.ingress,
                );
                let field = stated.part.field();
                diagnostics.add(member.ingress, field, Reason::DuplicateRoute, message);
                continue;
            }
            offers.push(Offer {
                member,
                part: stated.part,
                main,
            });
        }
        offers
    }

    /// A canary that belongs to no route: the oldest of several becomes the main one, a single one serves nothing.
    fn without_main(
        &mut self,
        stated: &Stated<'a>,
        is_shared: bool,
        diagnostics: &mut Diagnostics,
    ) {
        let (host, path) = (self.context.host, &stated.claim.0.path);
        let ingress = stated.member.ingress;
        let message = if is_shared {
            format!(
                "host {host} has canaries only for path {path}; this one, the oldest, is taken for the main Ingress; remove its annotation canary"
            )
        } else {
            format!(
                "no other Ingress has path {path} on host {host} with the same conditions, so this canary gets no requests; add the main Ingress, or remove the annotation canary"
            )
        };
        let field = stated.part.field();
        diagnostics.add(ingress, field, Reason::CanaryWithoutMain, message);
        if !is_shared {
            return;
        }
        self.add(stated, diagnostics);
        let mains = &mut self.rules.mains;
        let at = mains.partition_point(|member| member.ingress.age() < ingress.age());
        let known = mains.get(at);
        if known.is_none_or(|member| member.ingress.age() != ingress.age()) {
            mains.insert(at, stated.member);
        }
    }
}

/// The claims that more than one Ingress makes.
fn shared(all: &[Stated<'_>]) -> HashSet<Claim> {
    let mut first: HashMap<&Claim, *const Ingress> = HashMap::new();
    let mut shared = HashSet::new();
    for Stated { member, claim, .. } in all {
        let ingress: *const Ingress = member.ingress;
        if *first.entry(claim).or_insert(ingress) != ingress {
            shared.insert(claim.clone());
        }
    }
    shared
}

fn route<'a>(
    context: Context<'a>,
    member: &'a Member<'a>,
    (part, path): (Part<'a>, PathMatch),
    diagnostics: &mut Diagnostics,
) -> Route<'a> {
    let ingress = member.ingress;
    let mut http = HttpRoute {
        name: names::route(context.scope, ingress),
        r#match: path.conditions(),
        ..HttpRoute::default()
    };
    if let Part::Path { object, .. } = part {
        let field = format!("{}.backend", part.field());
        let backend = (field, &object.backend);
        backend::set(context, member, backend, &mut http, diagnostics);
    }
    let mut route = Route {
        ingress,
        settings: &member.settings,
        part,
        path,
        http,
        before: Vec::new(),
        shared_with: Vec::new(),
    };
    annotations::apply(context, &mut route, diagnostics);
    traffic::apply(context, &mut route, diagnostics);
    route
}

/// The redirect from a path without its slash to that of `route`.
fn slash_redirect<'a>(route: &Route<'a>, path: PathMatch) -> Route<'a> {
    let http = HttpRoute {
        name: route.http.name.clone(),
        r#match: path.conditions(),
        redirect: Some(HttpRedirect {
            uri: route.path.path.clone(),
            redirect_code: MOVED,
            ..HttpRedirect::default()
        }),
        ..HttpRoute::default()
    };
    Route {
        path,
        http,
        before: Vec::new(),
        shared_with: Vec::new(),
        ..route.clone()
    }
}

fn taken(host: &str, path: &PathMatch, owner: &Ingress, loser: &Ingress) -> String {
    let kind = match path.kind {
        PathKind::Exact => "exact path",
        PathKind::Prefix | PathKind::Below => "prefix",
        PathKind::PrefixRegex | PathKind::FullRegex | PathKind::AnyCaseRegex { .. } => {
            "regular expression"
        }
        PathKind::Special => "path",
    };
    let path = &path.path;
    if owner.age() == loser.age() {
        return format!(
            "{kind} {path} of host {host} is given twice, the first one is used; remove one"
        );
    }
    format!(
        "{kind} {path} of host {host} belongs to Ingress {}/{}, which is older (or first by name at equal age); remove one",
        owner.namespace, owner.name
    )
}
