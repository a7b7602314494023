//! Protocol and TLS with backends.

use std::sync::Arc;

use shared_proto::networking::v1alpha3::ClientTlsSettings;
use shared_proto::networking::v1alpha3::client_tls_settings::TlSmode;
use shared_proto::networking::v1alpha3::connection_pool_settings::http_settings::H2UpgradePolicy;
use shared_proto::networking::v1alpha3::traffic_policy::PortTrafficPolicy;
use shared_proto::well_known::BoolValue;

use super::table::{
    BACKEND_PROTOCOL, PROXY_SSL_NAME, PROXY_SSL_SECRET, PROXY_SSL_SERVER_NAME, PROXY_SSL_VERIFY,
};
use super::text;
use super::value::{self, Value, ValueError};
use super::{Annotations, Found, Problems};
use crate::model::{Reason, Scope};
use crate::translate::names;

/// A protocol other than plain HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http,
    Http2,
    Https,
    Grpc,
    Grpcs,
    /// HTTP or HTTPS, whichever the backend speaks.
    Auto,
    FastCgi,
}

/// How backends are spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpstreamTls {
    http2: bool,
    tls: Option<Tls>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Tls {
    /// Secret (namespace, name) with our certificate.
    secret: Option<(Arc<str>, String)>,
    verify: bool,
    server_name: Option<String>,
}

/// Reads how backends are spoken to; `None` for plain HTTP.
pub(crate) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<UpstreamTls> {
    let protocol = annotations.find(&BACKEND_PROTOCOL, protocol, problems);
    let protocol = match &protocol {
        None => Protocol::Http,
        Some(found) => served(found, problems)?,
    };
    let http2 = matches!(protocol, Protocol::Http2 | Protocol::Grpc | Protocol::Grpcs);
    let encrypted = matches!(protocol, Protocol::Https | Protocol::Grpcs);
    let secret = annotations.find(&PROXY_SSL_SECRET, value::namespaced_name, problems);
    if protocol == Protocol::Http {
        if let Some(found) = secret {
            let message = "has no effect without backend-protocol; write HTTPS or GRPCS there";
            problems.add(found.key, Reason::IneffectiveAnnotation, message);
        }
        return None;
    }
    let own = &annotations.ingress.namespace;
    let secret = match secret {
        Some(found) => {
            let namespace = found.value.namespace.as_deref().unwrap_or(own);
            if namespace != &**own {
                let message = format!(
                    "Secret {namespace}/{} is of another namespace and may not be used; copy it to {own}",
                    found.value.name
                );
                problems.deny(found.key, &message);
                return None;
            }
            Some((own.clone(), found.value.name))
        }
        None if annotations.has(&PROXY_SSL_SECRET) => {
            let key = PROXY_SSL_SECRET
                .full()
                .find(|full| annotations.raw(full).is_some());
            problems.deny(
                key.unwrap_or(PROXY_SSL_SECRET.name),
                "no Secret can be read from the value",
            );
            return None;
        }
        None => None,
    };
    let tls = (encrypted || secret.is_some()).then(|| tls(annotations, secret, problems));
    Some(UpstreamTls { http2, tls })
}

fn tls(
    annotations: &Annotations<'_>,
    secret: Option<(Arc<str>, String)>,
    problems: &mut Problems,
) -> Tls {
    let verify = annotations.find(&PROXY_SSL_VERIFY, value::on_off, problems);
    if let Some(found) = verify
        .as_ref()
        .filter(|found| found.value && secret.is_none())
    {
        let message = "there is no authority to verify with, so the backend is not verified; name a Secret with ca.crt in proxy-ssl-secret";
        problems.add(found.key, Reason::IneffectiveAnnotation, message);
    }
    let name = annotations.get(&PROXY_SSL_NAME, server_name, problems);
    let is_sent = annotations.get(&PROXY_SSL_SERVER_NAME, value::on_off, problems);
    Tls {
        secret,
        verify: verify.is_some_and(|found| found.value),
        server_name: name.filter(|_| is_sent == Some(true)),
    }
}

/// The protocol that is spoken, if it can be.
fn served(found: &Found<Protocol>, problems: &mut Problems) -> Option<Protocol> {
    match found.value {
        Protocol::FastCgi => {
            let message =
                "FastCGI is not spoken; put a web server that speaks HTTP in front of the backend";
            problems.refuse(found.key, Reason::UnsupportedBackend, message);
            None
        }
        Protocol::Auto => {
            let message = "AUTO_HTTP is read as HTTP; write HTTPS if the backend speaks TLS";
            problems.add(found.key, Reason::UnsupportedAnnotation, message);
            Some(Protocol::Http)
        }
        protocol => Some(protocol),
    }
}

fn protocol(text: &str) -> Value<Protocol> {
    let line = value::line(text)?;
    Ok(match line.to_ascii_uppercase().as_str() {
        "HTTP" => Protocol::Http,
        "HTTP2" => Protocol::Http2,
        "HTTPS" => Protocol::Https,
        "GRPC" => Protocol::Grpc,
        "GRPCS" => Protocol::Grpcs,
        "AUTO_HTTP" => Protocol::Auto,
        "FCGI" => Protocol::FastCgi,
        _ => {
            let why = "is not a protocol, HTTP is spoken; write HTTP, HTTP2, HTTPS, GRPC or GRPCS";
            return Err(ValueError::new(&line, why));
        }
    })
}

fn server_name(raw: &str) -> Value<String> {
    let line = value::line(raw)?;
    if text::is_authority(&line) && line.len() <= 253 && !line.contains(':') {
        return Ok(line);
    }
    Err(ValueError::new(
        &line,
        "is not a server name; write a host name",
    ))
}

impl UpstreamTls {
    /// Sets protocol and TLS of a port.
    pub(crate) fn apply(&self, scope: &Scope, policy: &mut PortTrafficPolicy) {
        if self.http2 {
            let pool = policy.connection_pool.get_or_insert_default();
            let http = pool.http.get_or_insert_default();
            http.set_h2_upgrade_policy(H2UpgradePolicy::Upgrade);
        }
        let Some(tls) = &self.tls else { return };
        let mut settings = ClientTlsSettings {
            sni: tls.server_name.clone().unwrap_or_default(),
            ..ClientTlsSettings::default()
        };
        match &tls.secret {
            Some((namespace, name)) => {
                settings.set_mode(TlSmode::Mutual);
                settings.credential_name = names::credential(scope, namespace, name);
                settings.insecure_skip_verify = (!tls.verify).then_some(BoolValue { value: false });
            }
            None => {
                settings.set_mode(TlSmode::Simple);
                settings.insecure_skip_verify = Some(BoolValue { value: true });
            }
        }
        policy.tls = Some(settings);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::parsed;
    use super::*;
    use rstest::rstest;

    const PROTOCOL: &str = "nginx.ingress.kubernetes.io/backend-protocol";
    const SECRET: &str = "nginx.ingress.kubernetes.io/proxy-ssl-secret";
    const VERIFY: &str = "nginx.ingress.kubernetes.io/proxy-ssl-verify";
    const NAME: &str = "nginx.ingress.kubernetes.io/proxy-ssl-name";
    const SEND: &str = "nginx.ingress.kubernetes.io/proxy-ssl-server-name";

    fn shown(upstream: Option<UpstreamTls>) -> String {
        let Some(upstream) = upstream else {
            return String::new();
        };
        let mut policy = PortTrafficPolicy::default();
        upstream.apply(&Scope::default(), &mut policy);
        let mut words = Vec::new();
        if policy.connection_pool.is_some() {
            words.push("h2".to_owned());
        }
        if let Some(tls) = policy.tls {
            let skip = tls.insecure_skip_verify.as_ref().map(|skip| skip.value);
            words.push(tls.mode().as_str_name().to_owned());
            words.push(format!("skip={skip:?}"));
            words.extend(
                [tls.credential_name, tls.sni]
                    .into_iter()
                    .filter(|s| !s.is_empty()),
            );
        }
        words.join(" ")
    }

    #[rstest]
    #[case(&[], "", 0)]
    #[case(&[(PROTOCOL, "http")], "", 0)]
    #[case(&[(PROTOCOL, " https ")], "SIMPLE skip=Some(true)", 0)]
    #[case(&[(PROTOCOL, "HTTP2")], "h2", 0)]
    #[case(&[(PROTOCOL, "GRPC")], "h2", 0)]
    #[case(&[(PROTOCOL, "grpcs"), (NAME, "in.example"), (SEND, "on")], "h2 SIMPLE skip=Some(true) in.example", 0)]
    #[case::name_not_sent(&[(PROTOCOL, "HTTPS"), (NAME, "in.example")], "SIMPLE skip=Some(true)", 0)]
    #[case::bad_name(&[(PROTOCOL, "HTTPS"), (NAME, "in example"), (SEND, "on")], "SIMPLE skip=Some(true)", 1)]
    #[case::mutual(&[(PROTOCOL, "HTTPS"), (SECRET, "s"), (VERIFY, "on")], "MUTUAL skip=None kubernetes-ingress://Kubernetes/n/s", 0)]
    #[case::mutual_unverified(&[(PROTOCOL, "GRPC"), (SECRET, "n/s")], "h2 MUTUAL skip=Some(false) kubernetes-ingress://Kubernetes/n/s", 0)]
    #[case::verified_with_nothing(&[(PROTOCOL, "HTTPS"), (VERIFY, "on")], "SIMPLE skip=Some(true)", 1)]
    #[case::secret_alone(&[(SECRET, "s")], "", 1)]
    #[case::other_namespace(&[(PROTOCOL, "HTTPS"), (SECRET, "m/s")], "", 1)]
    #[case::empty_secret(&[(PROTOCOL, "HTTPS"), (SECRET, "")], "", 2)]
    #[case::unknown(&[(PROTOCOL, "DUBBO")], "", 1)]
    #[case::auto(&[(PROTOCOL, "AUTO_HTTP")], "", 1)]
    #[case::fast_cgi(&[(PROTOCOL, "FCGI")], "", 1)]
    fn protocols(
        #[case] annotations: &[(&str, &str)],
        #[case] expected: &str,
        #[case] problems: usize,
    ) {
        let (upstream, found) = parsed(annotations, parse);
        assert_eq!(shown(upstream), expected);
        assert_eq!(found.len(), problems, "{found:?}");
    }
}
