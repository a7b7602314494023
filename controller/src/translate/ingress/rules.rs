//! Rules of a host to routes, the oldest claim on a path winning.

use std::collections::HashMap;

use shared_proto::networking::v1alpha3::HttpRoute;

use super::path::{PathKind, PathMatch};
use super::route::{Part, Route};
use super::{Diagnostics, HostInputs, backend};
use crate::model::{Ingress, Reason};
use crate::translate::names;

/// Routes in order of age.
pub(super) fn translate<'a>(
    inputs: &HostInputs<'a>,
    diagnostics: &mut Diagnostics,
) -> Vec<Route<'a>> {
    let mut routes: Vec<Route<'a>> = Vec::new();
    let mut claims: HashMap<PathMatch, &'a Ingress> = HashMap::new();
    for ingress in inputs.ingresses {
        for (rule, object) in ingress.rules_of(inputs.host) {
            for (index, path) in object.paths.iter().enumerate() {
                let part = Part::Path {
                    rule,
                    path: index,
                    object: path,
                };
                let matched = match PathMatch::parse(path) {
                    Ok(matched) => matched,
                    Err((below, reason, message)) => {
                        diagnostics.add(ingress, part.field() + below, reason, message);
                        continue;
                    }
                };
                if let Some(owner) = claims.get(&matched) {
                    let message = taken(inputs.host, &matched, owner, ingress);
                    diagnostics.add(ingress, part.field(), Reason::DuplicateRoute, message);
                    continue;
                }
                // A path belongs to its owner even while its backend cannot be told.
                claims.insert(matched.clone(), ingress);
                routes.push(route(inputs, ingress, (part, matched), diagnostics));
            }
        }
    }
    routes
}

fn route<'a>(
    inputs: &HostInputs<'a>,
    ingress: &'a Ingress,
    (part, path): (Part<'a>, PathMatch),
    diagnostics: &mut Diagnostics,
) -> Route<'a> {
    let mut http = HttpRoute {
        name: names::route(inputs.scope, ingress),
        r#match: path.conditions(),
        ..HttpRoute::default()
    };
    if let Part::Path { object, .. } = part {
        let field = format!("{}.backend", part.field());
        backend::set(
            inputs,
            ingress,
            (field, &object.backend),
            &mut http,
            diagnostics,
        );
    }
    Route {
        ingress,
        part,
        path,
        http,
    }
}

fn taken(host: &str, path: &PathMatch, owner: &Ingress, loser: &Ingress) -> String {
    let kind = match path.kind {
        PathKind::Exact => "exact path",
        PathKind::Prefix => "prefix",
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
