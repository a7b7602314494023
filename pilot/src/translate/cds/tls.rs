//! TLS to endpoints.
//!
//! What cannot be done as written is not done at all: the cluster is closed, so that nothing leaves the gateway in
//! plain text or to an endpoint that was not verified although it should have been. A cluster is closed too while a
//! Secret is missing; a cluster that waited for one would hold up the start of Envoy.

use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3 as cluster;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher;
use shared_proto::networking::v1alpha3::ClientTlsSettings;
use shared_proto::networking::v1alpha3::client_tls_settings::TlSmode;

use super::connection_pool::Upstream;
use crate::translate::issue::Reason;
use crate::translate::report::Problem;
use crate::translate::{names, proto};

/// Tells which Secrets are there and may be used.
pub trait SecretLookup {
    /// A certificate with its key under this SDS name.
    fn certificate(&self, name: &str) -> bool;
    /// Trust anchors under this SDS name (`...-cacert`).
    fn anchors(&self, name: &str) -> bool;
}

/// SDS names that a setting may need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The gateway's own certificate.
    pub certificate: Option<Arc<str>>,
    /// What endpoints are verified with (`...-cacert`).
    pub anchors: Option<Arc<str>>,
}

/// What a setting needs; `None` when there is no TLS, or none that can be served.
#[must_use]
pub fn credentials(settings: &ClientTlsSettings) -> Option<Credentials> {
    plan(settings).ok().flatten()
}

/// `None` for no TLS.
fn plan(settings: &ClientTlsSettings) -> Result<Option<Credentials>, Problem> {
    let mode = TlSmode::try_from(settings.mode);
    let name = |name: &str| -> Option<Arc<str>> {
        let scheme = if name.contains("://") {
            ""
        } else {
            "kubernetes://"
        };
        (!name.is_empty()).then(|| format!("{scheme}{name}").into())
    };
    let certificate = match mode {
        Ok(TlSmode::Disable) => return Ok(None),
        Ok(TlSmode::Simple) => None,
        Ok(TlSmode::Mutual) => Some(name(&settings.credential_name).ok_or_else(|| {
            let message = "tls mode MUTUAL needs credentialName";
            Problem::new(Reason::InvalidValue, message)
        })?),
        Ok(TlSmode::IstioMutual) | Err(_) => {
            let message = "tls mode ISTIO_MUTUAL is not served";
            return Err(Problem::new(Reason::Unsupported, message));
        }
    };
    let skip = skips_verification(settings) == Some(true);
    if !settings.ca_certificates.is_empty() && !skip {
        let message = "tls caCertificates names a file; use credentialName";
        return Err(Problem::new(Reason::Unsupported, message));
    }
    let anchors = [&settings.ca_cert_credential_name, &settings.credential_name];
    let anchors = anchors.into_iter().find_map(|text| name(text));
    let anchors = anchors.filter(|_| !skip);
    if anchors.is_none() && !skip && !settings.subject_alt_names.is_empty() {
        let message = "tls subjectAltNames needs credentialName with trust anchors";
        return Err(Problem::new(Reason::InvalidValue, message));
    }
    Ok(Some(Credentials {
        certificate,
        anchors: anchors.map(|anchors| names::ca_secret_name(&anchors).into()),
    }))
}

fn skips_verification(settings: &ClientTlsSettings) -> Option<bool> {
    Some(settings.insecure_skip_verify.as_ref()?.value)
}

/// Sets TLS.
///
/// # Errors
/// When the cluster has to be closed.
pub(super) fn apply(
    settings: &ClientTlsSettings,
    secrets: &dyn SecretLookup,
    result: &mut cluster::Cluster,
    upstream: &mut Upstream,
) -> Result<(), Problem> {
    let Some(Credentials {
        certificate,
        anchors,
    }) = plan(settings)?
    else {
        return Ok(());
    };
    if let Some(name) = &certificate
        && !secrets.certificate(name)
    {
        return Err(missing(name));
    }
    let anchors = match anchors {
        Some(name) if secrets.anchors(&name) => Some(name),
        // Without anchors in the Secret an explicit `false` means "do not verify" (Higress, `proxy-ssl-verify: off`).
        Some(_) if certificate.is_some() && skips_verification(settings) == Some(false) => None,
        Some(name) => return Err(missing(&name)),
        None => None,
    };
    let protocols = if upstream.http2 {
        vec!["h2".to_owned()]
    } else {
        Vec::new()
    };
    let context = tls::UpstreamTlsContext {
        common_tls_context: Some(tls::CommonTlsContext {
            tls_params: Some(versions()),
            tls_certificate_sds_secret_configs: certificate.iter().map(|name| sds(name)).collect(),
            validation_context_type: anchors.map(|name| verification(settings, &name)),
            alpn_protocols: protocols,
            ..Default::default()
        }),
        sni: settings.sni.clone(),
        ..Default::default()
    };
    upstream.auto_sni = settings.sni.is_empty();
    result.transport_socket = Some(core::TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(core::transport_socket::ConfigType::TypedConfig(proto::any(
            &context,
        ))),
    });
    Ok(())
}

fn missing(name: &str) -> Problem {
    Problem::new(
        Reason::MissingSecret,
        format!("tls: there is no usable Secret for {name}"),
    )
}

fn versions() -> tls::TlsParameters {
    use tls::tls_parameters::TlsProtocol;
    tls::TlsParameters {
        tls_minimum_protocol_version: TlsProtocol::TlSv12.into(),
        tls_maximum_protocol_version: TlsProtocol::TlSv13.into(),
        ..Default::default()
    }
}

fn verification(
    settings: &ClientTlsSettings,
    anchors: &str,
) -> tls::common_tls_context::ValidationContextType {
    use tls::common_tls_context::{CombinedCertificateValidationContext, ValidationContextType};
    use tls::subject_alt_name_matcher::SanType;
    let typed = |name: &String, kind: SanType| tls::SubjectAltNameMatcher {
        san_type: kind.into(),
        matcher: Some(proto::string_match(
            matcher::string_matcher::MatchPattern::Exact(name.clone()),
        )),
        ..Default::default()
    };
    let names = settings.subject_alt_names.iter();
    let names = names.flat_map(|name| {
        [SanType::Dns, SanType::Uri, SanType::IpAddress].map(|kind| typed(name, kind))
    });
    ValidationContextType::CombinedValidationContext(CombinedCertificateValidationContext {
        default_validation_context: Some(tls::CertificateValidationContext {
            match_typed_subject_alt_names: names.collect(),
            ..Default::default()
        }),
        validation_context_sds_secret_config: Some(sds(anchors)),
        ..Default::default()
    })
}

fn sds(name: &str) -> tls::SdsSecretConfig {
    tls::SdsSecretConfig {
        name: name.to_owned(),
        sds_config: Some(proto::ads_with_timeout()),
    }
}
