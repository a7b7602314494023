//! Rules of a host to routes, the oldest claim on a path winning.

use std::collections::HashMap;

use shared_proto::networking::v1alpha3::HttpRoute;

use super::annotations::{self, Identity};
use super::path::{PathKind, PathMatch};
use super::route::{Part, Route};
use super::{Context, Diagnostics, Member, backend};
use crate::model::{Ingress, Reason};
use crate::translate::names;

/// Routes in order of age.
pub(super) fn translate<'a>(context: Context<'a>, diagnostics: &mut Diagnostics) -> Vec<Route<'a>> {
    let mut routes: Vec<Route<'a>> = Vec::new();
    let mut claims: HashMap<(PathMatch, Identity), &'a Ingress> = HashMap::new();
    for member in context.members {
        let ingress = member.ingress;
        if !member.settings.is_served() {
            continue;
        }
        let identity = member.settings.identity();
        for (rule, object) in ingress.rules_of(context.host) {
            for (index, path) in object.paths.iter().enumerate() {
                let part = Part::Path {
                    rule,
                    path: index,
                    object: path,
                };
                let matched = match PathMatch::parse(path, &member.settings) {
                    Ok(matched) => matched,
                    Err((below, reason, message)) => {
                        diagnostics.add(ingress, part.field() + below, reason, message);
                        continue;
                    }
                };
                let claim = (matched.clone(), identity.clone());
                if let Some(owner) = claims.get(&claim) {
                    let message = taken(context.host, &matched, owner, ingress);
                    diagnostics.add(ingress, part.field(), Reason::DuplicateRoute, message);
                    continue;
                }
                // A path belongs to its owner even while its backend cannot be told.
                claims.insert(claim, ingress);
                routes.push(route(context, member, (part, matched), diagnostics));
            }
        }
    }
    routes
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
        backend::set(
            context,
            ingress,
            (field, &object.backend),
            &mut http,
            diagnostics,
        );
    }
    let mut route = Route {
        ingress,
        settings: &member.settings,
        part,
        path,
        http,
    };
    annotations::apply(&mut route, diagnostics);
    route
}

fn taken(host: &str, path: &PathMatch, owner: &Ingress, loser: &Ingress) -> String {
    let kind = match path.kind {
        PathKind::Exact => "exact path",
        PathKind::Prefix => "prefix",
        PathKind::PrefixRegex | PathKind::FullRegex => "regular expression",
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
