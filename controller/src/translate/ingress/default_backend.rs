//! `spec.defaultBackend`: the last route of a host.
//!
//! On a named host it comes from the oldest Ingress that has one and a rule for the host. On the catch-all host it comes from
//! the newest Ingress that has one. In both cases only when no rule takes all paths of the host already.

use shared_proto::networking::v1alpha3::HttpRoute;

use super::annotations::{self, traffic};
use super::path::PathMatch;
use super::route::{Part, Route};
use super::{Context, Diagnostics, Member, backend};
use crate::model::{Backend, CATCH_ALL, Reason, Semantics};
use crate::translate::names;

/// Adds the route, if there is one to add.
pub(super) fn add<'a>(
    context: Context<'a>,
    routes: &mut Vec<Route<'a>>,
    diagnostics: &mut Diagnostics,
) {
    let mut offers: Vec<(&'a Member<'a>, &'a Backend)> = context
        .members
        .iter()
        .filter(|member| member.settings.canary.is_none())
        .filter_map(|member| Some((member, member.ingress.default_backend.as_ref()?)))
        .collect();
    if context.rules_of == CATCH_ALL {
        offers.reverse();
    }
    let Some(((member, object), losers)) = offers.split_first() else {
        return;
    };
    let ingress = member.ingress;
    let field = Part::DefaultBackend.field();
    let by_rule = routes.iter().find(|route| route.is_catch_all());
    if context.rules_of == CATCH_ALL {
        for (loser, _) in losers {
            let message = format!(
                "the newer Ingress {}/{} has a default backend too, which is used for hosts without rules; remove one",
                ingress.namespace, ingress.name
            );
            diagnostics.add(
                loser.ingress,
                field.clone(),
                Reason::DuplicateDefaultBackend,
                message,
            );
        }
        if let Some(rule) = by_rule {
            let message = format!(
                "a rule without host of Ingress {}/{} takes all requests; this backend gets none",
                rule.ingress.namespace, rule.ingress.name
            );
            diagnostics.add(
                ingress,
                field.clone(),
                Reason::DuplicateDefaultBackend,
                message,
            );
        }
    }
    if by_rule.is_some() {
        return;
    }
    let mut http = HttpRoute {
        name: names::default_route(context.scope, ingress),
        ..HttpRoute::default()
    };
    backend::set(context, member, (field, object), &mut http, diagnostics);
    let mut route = Route {
        ingress,
        settings: &member.settings,
        part: Part::DefaultBackend,
        path: PathMatch::root(),
        http,
        before: Vec::new(),
        shared_with: Vec::new(),
    };
    match member.settings.semantics {
        // The one thing that annotations change here: who may not come in elsewhere may not come in by this way.
        Semantics::Higress => traffic::restrict(&member.settings, &mut route.http),
        Semantics::IngressNginx => {
            annotations::apply(context, &mut route, diagnostics);
            traffic::apply(context, &mut route, diagnostics);
        }
    }
    routes.push(route);
}
