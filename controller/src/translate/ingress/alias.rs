//! Hosts without rules of their own: what annotations that ask for them come to.

use shared_proto::networking::v1alpha3::http_redirect::{RedirectPort, RedirectPortSelection};
use shared_proto::networking::v1alpha3::{HttpRedirect, HttpRoute};

use super::annotations::Problem;
use super::path::PathMatch;
use super::route::{Part, Route};
use super::{Context, Diagnostics, Member};
use crate::model::Reason;
use crate::resolve::{AliasKind, HostSources, Offer};
use crate::translate::names;

/// Keeps method and body, which a redirect between two names of one site must not lose.
const PERMANENT: u32 = 308;

/// Reports the annotations that ask for the host to no effect.
pub(super) fn report(host: &str, sources: &HostSources<'_>, diagnostics: &mut Diagnostics) {
    for Offer { ingress, alias } in sources.refused.iter().copied() {
        let because = match sources.alias {
            None => "has rules of its own, which are used".to_owned(),
            Some(used) => format!(
                "{} {} because of Ingress {}/{}, which is older (or asks with server-alias)",
                match used.alias.kind {
                    AliasKind::Same => "is served as",
                    AliasKind::Redirect => "is redirected to",
                },
                used.alias.of,
                used.ingress.namespace,
                used.ingress.name
            ),
        };
        let problem = Problem {
            key: alias.key.to_owned(),
            reason: Reason::IneffectiveAnnotation,
            message: format!("has no effect on {host}, which {because}; remove one"),
        };
        diagnostics.once(problem.diagnostic(ingress));
    }
}

/// The only route of a host whose clients are sent to another one.
pub(super) fn redirect<'a>(
    context: Context<'a>,
    offer: &Offer,
    mains: &[&'a Member<'a>],
) -> Option<Route<'a>> {
    let asks = |member: &&&Member<'_>| member.ingress.age() == offer.ingress.age();
    let member = *mains.iter().find(asks)?;
    let matched = PathMatch::root();
    let with_port = member.settings.redirect.as_ref();
    let with_port = with_port.is_some_and(|redirect| redirect.with_port);
    let derived = RedirectPortSelection::FromRequestPort.into();
    let http = HttpRoute {
        name: names::www_route(context.host),
        r#match: matched.conditions(),
        redirect: Some(HttpRedirect {
            authority: offer.alias.of.to_string(),
            redirect_code: PERMANENT,
            redirect_port: with_port.then_some(RedirectPort::DerivePort(derived)),
            ..HttpRedirect::default()
        }),
        ..HttpRoute::default()
    };
    Some(Route {
        ingress: member.ingress,
        settings: &member.settings,
        part: Part::Annotation(offer.alias.key),
        path: matched,
        http,
        before: Vec::new(),
        shared_with: Vec::new(),
    })
}
