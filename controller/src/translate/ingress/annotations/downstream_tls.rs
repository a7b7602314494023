//! TLS with clients: versions, ciphers, and certificates of clients.
//!
//! A demand for certificates that cannot be met is kept: the host gets no HTTPS rather than HTTPS for everybody.

use std::sync::Arc;

use shared_proto::networking::v1alpha3::server_tls_settings::{TlSmode, TlsProtocol};
use shared_proto::networking::v1alpha3::{HttpRoute, ServerTlsSettings};

use super::table::{
    AUTH_TLS_PASS_CERTIFICATE, AUTH_TLS_SECRET, AUTH_TLS_VERIFY_CLIENT, SSL_CIPHER, SSL_CIPHERS,
    SSL_PASSTHROUGH, TLS_MAX_PROTOCOL_VERSION, TLS_MIN_PROTOCOL_VERSION,
};
use super::value::{self, NamespacedName, Value, ValueError};
use super::{Annotations, Problems};
use crate::model::{Ingress, Reason};

/// Header with the certificate of the client.
const CERTIFICATE_HEADER: &str = "ssl-client-cert";
/// What the gateway puts in its place.
const CERTIFICATE: &str = "%DOWNSTREAM_PEER_CERT%";
/// Suffix of the Secret that holds the authority of the Secret without it.
const AUTHORITY_SUFFIX: &str = "-cacert";
/// Ciphers of Envoy's TLS library, by their OpenSSL names.
const CIPHERS: [&str; 15] = [
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-RSA-AES256-SHA",
    "AES128-GCM-SHA256",
    "AES256-GCM-SHA384",
    "AES128-SHA",
    "AES256-SHA",
    "DES-CBC3-SHA",
];

/// What an Ingress asks of TLS with clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DownstreamTls {
    /// Certificates of clients are asked for.
    pub(crate) authority: Option<Authority>,
    ciphers: Vec<String>,
    versions: Option<(TlsProtocol, TlsProtocol)>,
}

/// Who signs certificates of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authority {
    /// The full key that says so.
    pub(crate) key: &'static str,
    /// The Secret; `None` = it cannot be told.
    secret: Option<(Option<Arc<str>>, Arc<str>)>,
    /// Clients without a certificate are served too.
    pub(crate) optional: bool,
}

/// Whether clients need a certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verify {
    On,
    Off,
    Optional,
    /// Optional, and nobody has to vouch for it.
    Unverified,
}

/// Reads what is asked.
pub(crate) fn parse(
    annotations: &Annotations<'_>,
    problems: &mut Problems,
) -> Option<DownstreamTls> {
    let mut tls = DownstreamTls {
        authority: authority(annotations, problems),
        ..DownstreamTls::default()
    };
    let ciphers = annotations.find(&SSL_CIPHER, value::line, problems);
    let others = annotations.find(&SSL_CIPHERS, value::line, problems);
    if let (Some(_), Some(loser)) = (&ciphers, &others) {
        let message = format!("{} takes precedence; remove one", SSL_CIPHER.name);
        problems.add(loser.key, Reason::IneffectiveAnnotation, message);
    }
    if let Some(found) = ciphers.or(others) {
        for name in found.value.split(':') {
            if CIPHERS.contains(&name) {
                tls.ciphers.push(name.to_owned());
            } else {
                let why = "is not a cipher of this gateway and is left out; write names such as ECDHE-RSA-AES128-GCM-SHA256, separated by `:`";
                problems.invalid(found.key, &ValueError::new(name, why));
            }
        }
    }
    let least = annotations.find(&TLS_MIN_PROTOCOL_VERSION, version, problems);
    let most = annotations.find(&TLS_MAX_PROTOCOL_VERSION, version, problems);
    tls.versions = match (least, most) {
        (None, None) => None,
        (Some(least), Some(most)) if least.value > most.value => {
            let message = format!("is above {}; both are left out", most.key);
            problems.add(least.key, Reason::InvalidAnnotation, message);
            None
        }
        (least, most) => {
            let or_auto = |found: Option<super::Found<TlsProtocol>>| {
                found.map_or(TlsProtocol::TlsAuto, |found| found.value)
            };
            Some((or_auto(least), or_auto(most)))
        }
    };
    (tls != DownstreamTls::default()).then_some(tls)
}

/// Reads who vouches for clients. What cannot be read asks for more, never for less.
fn authority(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<Authority> {
    let verify = annotations.find(&AUTH_TLS_VERIFY_CLIENT, verify, problems);
    let off = verify.as_ref().is_some_and(|v| v.value == Verify::Off);
    if !annotations.has(&AUTH_TLS_SECRET) {
        if let Some(found) = verify.filter(|_| !off) {
            let message = "has no effect without auth-tls-secret; name the Secret there";
            problems.add(found.key, Reason::IneffectiveAnnotation, message);
        }
        return None;
    }
    if off {
        return None;
    }
    if let Some(found) = verify.as_ref().filter(|v| v.value == Verify::Unverified) {
        let message = "optional_no_ca would let in certificates that nobody vouches for, which is not supported: clients need one of auth-tls-secret; write optional or on";
        problems.add(found.key, Reason::UnsupportedAnnotation, message);
    }
    let optional = verify.is_some_and(|v| v.value == Verify::Optional);
    let first = AUTH_TLS_SECRET.full().next();
    let secret = annotations.find(&AUTH_TLS_SECRET, value::namespaced_name, problems);
    let (key, secret) = match secret {
        Some(found) => {
            let NamespacedName { namespace, name } = found.value;
            let secret = (namespace.map(Arc::from), Arc::from(name));
            (found.key, Some(secret))
        }
        None => (first.unwrap_or(AUTH_TLS_SECRET.higress), None),
    };
    Some(Authority {
        key,
        secret,
        optional,
    })
}

fn verify(text: &str) -> Value<Verify> {
    Ok(match value::line(text)?.as_str() {
        "on" => Verify::On,
        "off" => Verify::Off,
        "optional" => Verify::Optional,
        "optional_no_ca" => Verify::Unverified,
        other => {
            let why = "cannot be read, clients need a certificate; write on, off or optional";
            return Err(ValueError::new(other, why));
        }
    })
}

/// Whether backends are shown the certificates of clients.
pub(crate) fn parse_pass(annotations: &Annotations<'_>, problems: &mut Problems) -> bool {
    let found = annotations.find(&AUTH_TLS_PASS_CERTIFICATE, value::boolean, problems);
    let Some(found) = found.filter(|found| found.value) else {
        return false;
    };
    if !annotations.has(&AUTH_TLS_SECRET) {
        let message = "has no effect without auth-tls-secret, clients are not asked for certificates; name the Secret there";
        problems.add(found.key, Reason::IneffectiveAnnotation, message);
    }
    true
}

/// Whether TLS is passed on to the backend: the key that says so.
pub(crate) fn parse_passthrough(
    annotations: &Annotations<'_>,
    problems: &mut Problems,
) -> Option<&'static str> {
    let found = annotations.find(&SSL_PASSTHROUGH, value::boolean, problems)?;
    found.value.then_some(found.key)
}

/// Shows the backends of a route the certificate of the client. What a client says in that header itself never gets through.
pub(crate) fn pass(http: &mut HttpRoute) {
    let headers = http.headers.get_or_insert_default();
    let request = headers.request.get_or_insert_default();
    request.remove.push(CERTIFICATE_HEADER.to_owned());
    let value = CERTIFICATE.to_owned();
    request.set.insert(CERTIFICATE_HEADER.to_owned(), value);
}

fn version(text: &str) -> Value<TlsProtocol> {
    Ok(match value::line(text)?.as_str() {
        "TLSv1.0" => TlsProtocol::Tlsv10,
        "TLSv1.1" => TlsProtocol::Tlsv11,
        "TLSv1.2" => TlsProtocol::Tlsv12,
        "TLSv1.3" => TlsProtocol::Tlsv13,
        other => {
            let why = "is not a version; write TLSv1.0, TLSv1.1, TLSv1.2 or TLSv1.3";
            return Err(ValueError::new(other, why));
        }
    })
}

impl DownstreamTls {
    /// Sets versions and ciphers.
    pub(crate) fn apply(&self, settings: &mut ServerTlsSettings) {
        settings.cipher_suites.clone_from(&self.ciphers);
        if let Some((least, most)) = self.versions {
            settings.min_protocol_version = least.into();
            settings.max_protocol_version = most.into();
        }
    }
}

impl Authority {
    /// The mode of servers that meets the demand.
    pub(crate) fn mode(&self) -> TlSmode {
        if self.optional {
            TlSmode::OptionalMutual
        } else {
            TlSmode::Mutual
        }
    }

    /// Whether servers in this mode meet the demand; more than is asked for does, and no server at all.
    pub(crate) fn is_met(&self, mode: Option<TlSmode>) -> bool {
        mode.is_none_or(|mode| mode == TlSmode::Mutual || mode == self.mode())
    }

    /// True when the Secret is that of the host's certificate (namespace, name), or the one beside it.
    pub(crate) fn fits(&self, ingress: &Ingress, certificate: (&str, &str)) -> bool {
        let Some((namespace, name)) = &self.secret else {
            return false;
        };
        let namespace = namespace.as_ref().unwrap_or(&ingress.namespace);
        let base = name.strip_suffix(AUTHORITY_SUFFIX);
        &**namespace == certificate.0 && (&**name == certificate.1 || base == Some(certificate.1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::parsed;
    use super::*;
    use rstest::rstest;

    const SECRET: &str = "nginx.ingress.kubernetes.io/auth-tls-secret";
    const CIPHER: &str = "nginx.ingress.kubernetes.io/ssl-cipher";
    const MIN: &str = "nginx.ingress.kubernetes.io/tls-min-protocol-version";
    const MAX: &str = "higress.io/tls-max-protocol-version";

    #[rstest]
    #[case(&[(MIN, "TLSv1.2"), (MAX, "TLSv1.3")], Some((3, 4)), 0)]
    #[case(&[(MIN, "TLSv1.3")], Some((4, 0)), 0)]
    #[case::crossed(&[(MIN, "TLSv1.3"), (MAX, "TLSv1.2")], None, 1)]
    #[case::unknown(&[(MIN, "TLSv1"), (MAX, "1.2")], None, 2)]
    fn versions(
        #[case] annotations: &[(&str, &str)],
        #[case] expected: Option<(i32, i32)>,
        #[case] problems: usize,
    ) {
        let (tls, found) = parsed(annotations, parse);
        let mut settings = ServerTlsSettings::default();
        if let Some(tls) = &tls {
            tls.apply(&mut settings);
        }
        let versions = (settings.min_protocol_version, settings.max_protocol_version);
        assert_eq!(tls.map(|_| versions), expected);
        assert_eq!(found.len(), problems, "{found:?}");
    }

    #[rstest]
    #[case("AES128-SHA:ECDHE-RSA-AES128-SHA", &["AES128-SHA", "ECDHE-RSA-AES128-SHA"], 0)]
    #[case("AES128-SHA,AES256-SHA", &[], 1)]
    #[case("AES128-SHA:nope:", &["AES128-SHA"], 2)]
    #[case("HIGH:!aNULL", &[], 2)]
    fn ciphers(#[case] value: &str, #[case] expected: &[&str], #[case] problems: usize) {
        let plural = CIPHER.replace("cipher", "ciphers");
        assert_eq!(
            parsed(&[(&plural, value)], parse).0,
            parsed(&[(CIPHER, value)], parse).0
        );
        let (tls, found) = parsed(&[(CIPHER, value)], parse);
        assert_eq!(tls.unwrap_or_default().ciphers, expected);
        assert_eq!(found.len(), problems, "{found:?}");
    }

    const VERIFY: &str = "nginx.ingress.kubernetes.io/auth-tls-verify-client";

    #[rstest]
    #[case(&[(SECRET, "s")], Some(TlSmode::Mutual), 0)]
    #[case(&[(SECRET, "s"), (VERIFY, "on")], Some(TlSmode::Mutual), 0)]
    #[case(&[(SECRET, "s"), (VERIFY, "optional")], Some(TlSmode::OptionalMutual), 0)]
    #[case(&[(SECRET, "s"), (VERIFY, "off")], None, 0)]
    #[case::closed(&[(SECRET, "s"), (VERIFY, "of")], Some(TlSmode::Mutual), 1)]
    #[case::no_authority(&[(SECRET, "s"), (VERIFY, "optional_no_ca")], Some(TlSmode::Mutual), 1)]
    #[case::bad_secret(&[(SECRET, ""), (VERIFY, "optional")], Some(TlSmode::OptionalMutual), 1)]
    #[case::alone(&[(VERIFY, "on")], None, 1)]
    #[case::off_alone(&[(VERIFY, "off")], None, 0)]
    fn demands(
        #[case] annotations: &[(&str, &str)],
        #[case] expected: Option<TlSmode>,
        #[case] problems: usize,
    ) {
        let (tls, found) = parsed(annotations, parse);
        let authority = tls.and_then(|tls| tls.authority);
        assert_eq!(authority.map(|a| a.mode()), expected);
        assert_eq!(found.len(), problems, "{found:?}");
    }

    #[test]
    fn what_clients_say_of_their_certificate_is_removed() {
        let mut http = HttpRoute::default();
        pass(&mut http);
        let request = http.headers.unwrap().request.unwrap();
        assert_eq!(request.remove, [CERTIFICATE_HEADER]);
        assert_eq!(request.set[CERTIFICATE_HEADER], CERTIFICATE);
    }

    #[rstest]
    #[case("cert", true)]
    #[case("n/cert", true)]
    #[case("n/cert-cacert", true)]
    #[case("n/other", false)]
    #[case("m/cert", false)]
    #[case("", false)]
    #[case("a/b/c", false)]
    fn authorities(#[case] value: &str, #[case] fits: bool) {
        let (tls, _) = parsed(&[(SECRET, value)], parse);
        let ingress = Ingress::new(Arc::from("n"), Arc::from("i"));
        let authority = tls.unwrap().authority.unwrap();
        assert_eq!(authority.fits(&ingress, ("n", "cert")), fits);
    }
}
