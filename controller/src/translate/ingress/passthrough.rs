//! `ssl-passthrough`: TLS connections to a host go to the backend of its path `/` as they are.
//!
//! Nothing can be asked of what is inside of them, so a host with restrictions of access does not pass TLS on.

use shared_proto::networking::v1alpha3::{
    Destination, RouteDestination, TlsMatchAttributes, TlsRoute,
};

use super::annotations::Problem;
use super::route::Part;
use super::{Context, Diagnostics, Member, backend};
use crate::model::{Backend, CATCH_ALL, Ingress, Reason};
use crate::resolve::AliasKind;
use crate::translate::names;

/// Path whose backend gets the connections.
const ROOT: &str = "/";

/// The Ingress that asks for it, and where connections go.
#[derive(Debug)]
pub(super) struct Passthrough<'a> {
    pub(super) owner: &'a Ingress,
    pub(super) key: &'static str,
    pub(super) route: TlsRoute,
}

/// What a host passes on; the oldest Ingress that asks for it decides. What stands against it is reported.
pub(super) fn find<'a>(
    context: Context<'a>,
    mains: &[&'a Member<'a>],
    diagnostics: &mut Diagnostics,
) -> Option<Passthrough<'a>> {
    let redirected = context
        .alias
        .is_some_and(|offer| offer.alias.kind == AliasKind::Redirect);
    if redirected {
        return None;
    }
    let asks = |member: &&&'a Member<'a>| member.settings.passthrough.is_some();
    let member = *mains.iter().find(asks)?;
    let key = member.settings.passthrough?;
    let owner = member.ingress;
    let found = against(context, member, mains).map_or_else(
        || destination(context, member),
        |(reason, message)| Err((reason, message)),
    );
    match found {
        Ok(destination) => {
            unused_certificates(context, mains, diagnostics);
            let route = route(context, destination);
            Some(Passthrough { owner, key, route })
        }
        Err((reason, message)) => {
            let problem = Problem {
                key: key.to_owned(),
                reason,
                message: format!("TLS of {} is not passed on: {message}", context.host),
            };
            diagnostics.once(problem.diagnostic(owner));
            None
        }
    }
}

/// Why TLS has to end here.
fn against(
    context: Context<'_>,
    asking: &Member<'_>,
    mains: &[&Member<'_>],
) -> Option<(Reason, String)> {
    if context.host == CATCH_ALL {
        let message = "connections are told apart by the name of their host; give the rule a host";
        return Some((Reason::IneffectiveAnnotation, message.to_owned()));
    }
    let name = |member: &Member<'_>| {
        let Ingress {
            namespace, name, ..
        } = member.ingress;
        format!("Ingress {namespace}/{name}")
    };
    let restricts = |member: &&&Member<'_>| member.settings.restricts_access();
    if let Some(member) = mains.iter().find(restricts) {
        let message = format!(
            "{} restricts access, which cannot be done inside of it; remove one",
            name(member)
        );
        return Some((Reason::AccessDenied, message));
    }
    let older = |member: &&&Member<'_>| {
        let older = member.ingress.age() < asking.ingress.age();
        older && member.has_certificate(context.host)
    };
    let member = mains.iter().find(older)?;
    let message = format!(
        "the host has a certificate from {}, which is older (or first by name at equal age); remove one",
        name(member)
    );
    Some((Reason::DuplicateTls, message))
}

/// The backend of the root, which has to be a Service.
fn destination(context: Context<'_>, member: &Member<'_>) -> Result<Destination, (Reason, String)> {
    let rules = member.ingress.rules_of(context.rules_of);
    let mut paths = rules.flat_map(|(_, rule)| &rule.paths);
    let root = paths.find(|path| matches!(&*path.path, "" | ROOT));
    let backend = root.map(|path| &path.backend);
    let Some(backend) = backend.or(member.ingress.default_backend.as_ref()) else {
        let message = "it goes to the backend of path `/`, and there is none; add it".to_owned();
        return Err((Reason::IneffectiveAnnotation, message));
    };
    if !matches!(backend, Backend::Service { .. }) {
        let message = "the backend of path `/` is no Service; name one".to_owned();
        return Err((Reason::UnsupportedBackend, message));
    }
    let all = backend::destinations(context, member, backend);
    let all = all.map_err(|(_, reason, message)| (reason, message))?;
    let mut all = all.into_iter().filter_map(|to| to.destination);
    let first = all.next().map(|destination| Destination {
        subset: names::PASSTHROUGH_SUBSET.to_owned(),
        ..destination
    });
    let message = || "the backend of path `/` has no destination; name one".to_owned();
    first.ok_or_else(|| (Reason::InvalidBackend, message()))
}

fn route(context: Context<'_>, destination: Destination) -> TlsRoute {
    TlsRoute {
        r#match: vec![TlsMatchAttributes {
            sni_hosts: vec![context.host.to_owned()],
            port: context.scope.gateway_https_port.into(),
            ..TlsMatchAttributes::default()
        }],
        route: vec![RouteDestination {
            destination: Some(destination),
            weight: 0,
        }],
    }
}

/// Reports certificates that nobody is shown.
fn unused_certificates(context: Context<'_>, mains: &[&Member<'_>], diagnostics: &mut Diagnostics) {
    for member in mains.iter().filter(|m| m.has_certificate(context.host)) {
        if let Some((index, _)) = member.ingress.tls_of(context.host) {
            let message = format!(
                "TLS of {} is passed on to the backend, so that this certificate is not used; remove it, or ssl-passthrough",
                context.host
            );
            let field = format!("spec.tls[{index}]");
            diagnostics.add(member.ingress, field, Reason::DuplicateTls, message);
        }
    }
}

impl Passthrough<'_> {
    /// The field that asks for it.
    pub(super) fn field(&self) -> String {
        Part::Annotation(self.key).field()
    }
}
