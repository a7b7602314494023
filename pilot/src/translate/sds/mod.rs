//! SDS: certificates with their keys, and trust anchors.

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls;

use crate::model::secret::TlsSecret;

/// Certificate and key under the name they were asked for. `None` when the Secret has none.
#[must_use]
pub fn secret(name: &str, secret: &TlsSecret) -> Option<tls::Secret> {
    if secret.cert_chain.is_empty() || secret.private_key.is_empty() {
        return None;
    }
    let certificate = tls::TlsCertificate {
        certificate_chain: Some(inline(&secret.cert_chain)),
        private_key: Some(inline(&secret.private_key)),
        ..Default::default()
    };
    Some(tls::Secret {
        name: name.to_owned(),
        r#type: Some(tls::secret::Type::TlsCertificate(certificate)),
    })
}

/// Trust anchors under the name they were asked for (`...-cacert`). `None` when the Secret has
/// none: without anchors a peer must not be let in.
#[must_use]
pub fn validation_context(name: &str, secret: &TlsSecret) -> Option<tls::Secret> {
    let anchors = secret.ca.as_ref().filter(|pem| !pem.is_empty())?;
    let context = tls::CertificateValidationContext {
        trusted_ca: Some(inline(anchors)),
        ..Default::default()
    };
    Some(tls::Secret {
        name: name.to_owned(),
        r#type: Some(tls::secret::Type::ValidationContext(context)),
    })
}

fn inline(pem: &Bytes) -> core::DataSource {
    core::DataSource {
        specifier: Some(core::data_source::Specifier::InlineBytes(pem.to_vec())),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_served_only_when_present() {
        let only_ca = TlsSecret {
            ca: Some("anchors".into()),
            ..TlsSecret::default()
        };
        assert!(secret("n", &only_ca).is_none());
        assert!(validation_context("n-cacert", &only_ca).is_some());

        let pair = TlsSecret {
            cert_chain: "chain".into(),
            private_key: "key".into(),
            ca: None,
        };
        assert_eq!(secret("n", &pair).unwrap().name, "n");
        assert!(validation_context("n-cacert", &pair).is_none());
    }
}
