//! The servers of a host: HTTP always, HTTPS when one of its Ingresses has a certificate for it.

use shared_proto::networking::v1alpha3::server_tls_settings::TlSmode;
use shared_proto::networking::v1alpha3::{Gateway, Port, Server, ServerTlsSettings};
use shared_proto::{Config, Meta};

use super::annotations::table::AUTH_TLS_VERIFY_CLIENT;
use super::annotations::{Authority, Problem};
use super::passthrough::Passthrough;
use super::provenance;
use super::{Context, Diagnostics, Member, Source};
use crate::model::{Ingress, Reason};
use crate::translate::names;

/// The Gateway of a host with its sources, and the Ingresses whose routes have to be closed: they ask for certificates of clients, and
/// the host's HTTPS does not.
#[derive(Debug)]
pub(super) struct Servers<'a> {
    pub(super) gateway: Config,
    pub(super) closed: Vec<&'a Ingress>,
    pub(super) sources: Vec<Source>,
}

/// The certificate of a host.
struct Certificate<'a> {
    owner: &'a Ingress,
    /// Index of its entry in `spec.tls`.
    index: usize,
    secret: &'a str,
}

/// The servers that the Ingresses of a host add up to; `None` when there is no Ingress.
pub(super) fn translate<'a>(
    context: Context<'a>,
    members: &[&'a Member<'a>],
    passthrough: Option<&Passthrough<'a>>,
    diagnostics: &mut Diagnostics,
) -> Option<Servers<'a>> {
    members.first()?;
    let Context { scope, host, .. } = context;
    let mut servers = vec![server(context, ("HTTP", "http"), scope.gateway_http_port)];
    let mut sources = provenance::of_host(context, members);
    let mut closed = Vec::new();
    let certificate = match passthrough {
        Some(passthrough) => {
            servers.push(passing(context));
            sources.push(Source::new(passthrough.owner, passthrough.field()));
            None
        }
        None => certificate(context, members, diagnostics),
    };
    match &certificate {
        Some(certificate) => {
            let mode = mode(context, certificate, members, &mut closed, diagnostics);
            if let Some(mode) = mode {
                let mut https = server(context, ("HTTPS", "https"), scope.gateway_https_port);
                https.tls = Some(settings(context, certificate, members, mode));
                servers.push(https);
                let field = format!("spec.tls[{}]", certificate.index);
                sources.push(Source::new(certificate.owner, field));
            }
        }
        None if passthrough.is_some() => {}
        None => without_certificate(context, members, diagnostics),
    }
    let mut meta = Meta::new(scope.system_namespace.clone(), names::gateway(host));
    meta.annotations = [
        (names::CLUSTER_ID_ANNOTATION, scope.cluster_in_names()),
        (names::HOST_ANNOTATION, host),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let selector = scope.gateway_selector.iter().cloned().collect();
    Some(Servers {
        gateway: Config::new(meta, Gateway { servers, selector }),
        closed,
        sources,
    })
}

fn server(context: Context<'_>, (protocol, prefix): (&str, &str), port: u16) -> Server {
    Server {
        port: Some(Port {
            number: port.into(),
            protocol: protocol.to_owned(),
            name: names::server(context.scope, prefix, port),
            ..Port::default()
        }),
        hosts: vec![context.host.to_owned()],
        ..Server::default()
    }
}

/// The server whose connections are passed on.
fn passing(context: Context<'_>) -> Server {
    let mut server = server(context, ("TLS", "tls"), context.scope.gateway_https_port);
    server.tls = Some(ServerTlsSettings {
        mode: TlSmode::Passthrough.into(),
        ..ServerTlsSettings::default()
    });
    server
}

/// TLS of the host. Versions and ciphers are those of the oldest Ingress that says anything about TLS with clients.
fn settings(
    context: Context<'_>,
    certificate: &Certificate<'_>,
    members: &[&Member<'_>],
    mode: TlSmode,
) -> ServerTlsSettings {
    let (namespace, secret) = (&certificate.owner.namespace, certificate.secret);
    let mut settings = ServerTlsSettings {
        mode: mode.into(),
        credential_name: names::credential(context.scope, namespace, secret),
        ..ServerTlsSettings::default()
    };
    let oldest = members
        .iter()
        .find_map(|m| m.settings.downstream_tls.as_ref());
    if let Some(tls) = oldest {
        tls.apply(&mut settings);
    }
    settings
}

/// Whether clients need certificates; `None` when they do and cannot be told good from bad, so that there is no HTTPS.
///
/// Ingresses of the certificate's namespace decide, the oldest first. What others ask for closes their own routes only.
fn mode<'a>(
    context: Context<'a>,
    certificate: &Certificate<'a>,
    members: &[&'a Member<'a>],
    closed: &mut Vec<&'a Ingress>,
    diagnostics: &mut Diagnostics,
) -> Option<TlSmode> {
    let host = context.host;
    let owner = certificate.owner;
    let secret = (&*owner.namespace, certificate.secret);
    let demands: Vec<(&'a Ingress, &Authority)> = members
        .iter()
        .filter_map(|member| {
            let tls = member.settings.downstream_tls.as_ref()?;
            Some((member.ingress, tls.authority.as_ref()?))
        })
        .collect();
    let mut own = demands.iter();
    let decisive = own.find(|(ingress, _)| ingress.namespace == owner.namespace);
    let mode = match decisive {
        None => Some(TlSmode::Simple),
        Some((ingress, authority)) => {
            let fits = authority.fits(ingress, secret);
            fits.then_some(authority.mode())
        }
    };
    for (ingress, authority) in demands {
        let fits = authority.fits(ingress, secret);
        if fits && authority.is_met(mode) {
            continue;
        }
        if fits && mode == Some(TlSmode::OptionalMutual) {
            closed.push(ingress);
            let message = format!(
                "clients of {host} need no certificate, because an older Ingress says so, and those of this Ingress do, so its routes are answered with 403; give both the same {}",
                AUTH_TLS_VERIFY_CLIENT.name
            );
            let reason = Reason::AccessDenied;
            report(ingress, authority.key, reason, message, diagnostics);
            continue;
        }
        let consequence = match mode {
            None => "there is no HTTPS",
            Some(_) => {
                closed.push(ingress);
                "the routes of this Ingress are answered with 403"
            }
        };
        let message = format!(
            "clients of {host} cannot be verified with this, so {consequence}; in an Ingress of namespace {0}, name the Secret of the certificate, {0}/{1}, with ca.crt in it, or {1}-cacert",
            secret.0, secret.1
        );
        report(
            ingress,
            authority.key,
            Reason::AccessDenied,
            message,
            diagnostics,
        );
    }
    mode
}

/// Reports what cannot have an effect without HTTPS.
fn without_certificate(
    context: Context<'_>,
    members: &[&Member<'_>],
    diagnostics: &mut Diagnostics,
) {
    for Member {
        ingress, settings, ..
    } in members.iter().copied()
    {
        let tls = settings.downstream_tls.as_ref();
        if let Some(authority) = tls.and_then(|tls| tls.authority.as_ref()) {
            let message = format!(
                "host {} has no certificate, so there is no HTTPS in which clients could show theirs; add it to spec.tls",
                context.host
            );
            let reason = Reason::IneffectiveAnnotation;
            report(ingress, authority.key, reason, message, diagnostics);
        }
    }
}

fn report(
    ingress: &Ingress,
    key: &str,
    reason: Reason,
    message: String,
    diagnostics: &mut Diagnostics,
) {
    let problem = Problem {
        key: key.to_owned(),
        reason,
        message,
    };
    diagnostics.once(problem.diagnostic(ingress));
}

/// The certificate: that of the oldest Ingress with a TLS entry for exactly this host.
fn certificate<'a>(
    context: Context<'a>,
    members: &[&'a Member<'a>],
    diagnostics: &mut Diagnostics,
) -> Option<Certificate<'a>> {
    let mut first: Option<Certificate<'a>> = None;
    for Member { ingress, .. } in members.iter().copied() {
        let Some((index, tls)) = ingress.tls_of(context.host) else {
            continue;
        };
        let field = format!("spec.tls[{index}].secretName");
        if tls.secret.is_empty() {
            let message = format!(
                "no Secret is named, {} is served without TLS by it",
                context.host
            );
            diagnostics.add(ingress, field, Reason::MissingTlsSecret, message);
            continue;
        }
        match &first {
            None => {
                first = Some(Certificate {
                    owner: ingress,
                    index,
                    secret: &tls.secret,
                });
            }
            Some(Certificate { owner, secret, .. })
                if owner.namespace == ingress.namespace && **secret == *tls.secret => {}
            Some(Certificate { owner, secret, .. }) => {
                let used = names::credential(context.scope, &owner.namespace, secret);
                let message = format!(
                    "host {} has its certificate from Ingress {}/{} ({used}), which is older (or first by name at equal age)",
                    context.host, owner.namespace, owner.name
                );
                diagnostics.add(ingress, field, Reason::DuplicateTls, message);
            }
        }
    }
    first
}
