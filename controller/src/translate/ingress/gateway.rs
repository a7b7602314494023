//! The servers of a host: HTTP always, HTTPS when one of its Ingresses has a certificate for it.

use shared_proto::networking::v1alpha3::server_tls_settings::TlSmode;
use shared_proto::networking::v1alpha3::{Gateway, Port, Server, ServerTlsSettings};
use shared_proto::{Config, Meta};

use super::{Context, Diagnostics, Member};
use crate::model::{Ingress, Reason};
use crate::translate::names;

/// The Gateway of a host.
pub(super) fn translate(context: Context<'_>, diagnostics: &mut Diagnostics) -> Config {
    let Context { scope, host, .. } = context;
    let mut servers = vec![server(context, ("HTTP", "http"), scope.gateway_http_port)];
    if let Some(credential) = credential(context, diagnostics) {
        let mut https = server(context, ("HTTPS", "https"), scope.gateway_https_port);
        https.tls = Some(ServerTlsSettings {
            mode: TlSmode::Simple.into(),
            credential_name: credential,
            ..ServerTlsSettings::default()
        });
        servers.push(https);
    }
    let mut meta = Meta::new(scope.system_namespace.clone(), names::gateway(host));
    meta.annotations = [
        (names::CLUSTER_ID_ANNOTATION, scope.cluster_in_names()),
        (names::HOST_ANNOTATION, host),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let selector = scope.gateway_selector.iter().cloned().collect();
    Config::new(meta, Gateway { servers, selector })
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

/// Name of the certificate: that of the oldest Ingress with a TLS entry for exactly this host.
fn credential(context: Context<'_>, diagnostics: &mut Diagnostics) -> Option<String> {
    let mut first: Option<(&Ingress, String)> = None;
    for Member { ingress, .. } in context.members {
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
        let name = names::credential(context.scope, &ingress.namespace, &tls.secret);
        match &first {
            None => first = Some((ingress, name)),
            Some((_, used)) if *used == name => {}
            Some((owner, used)) => {
                let message = format!(
                    "host {} has its certificate from Ingress {}/{} ({used}), which is older (or first by name at equal age)",
                    context.host, owner.namespace, owner.name
                );
                diagnostics.add(ingress, field, Reason::DuplicateTls, message);
            }
        }
    }
    first.map(|(_, name)| name)
}
