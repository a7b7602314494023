//! Kubernetes Secret -> [`TlsSecret`], checked so that Envoy takes it.
//!
//! Error texts name the Secret and the field, never what is in it.

use bytes::Bytes;
use k8s_openapi::api::core::v1 as k8s;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::model::change::NamespacedName;
use crate::model::secret::TlsSecret;

/// Names of the same three things: Istio's generic form first, it wins when both are there.
const PAIRS: [(&str, &str); 2] = [("cert", "key"), ("tls.crt", "tls.key")];
const ANCHORS: [&str; 2] = ["cacert", "ca.crt"];
/// Type of Secrets that must have a certificate and its key.
const TLS_TYPE: &str = "kubernetes.io/tls";
/// Smallest RSA key that Envoy accepts.
const MIN_RSA_BITS: usize = 2048;

/// A usable Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The key material.
    pub secret: TlsSecret,
    /// When the leaf certificate ends, in seconds since the Unix epoch; `None` without one.
    pub not_after: Option<i64>,
}

/// Why a Secret cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Secret {name}: data[{field}]: {fault}")]
pub struct SecretError {
    /// The Secret.
    pub name: NamespacedName,
    /// Name of the field in its data.
    pub field: &'static str,
    /// What is wrong with the field.
    pub fault: Fault,
}

/// What is wrong with one field of a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Absent or empty.
    #[error("missing or empty")]
    Missing,
    /// No PEM block of the wanted kind.
    #[error("not PEM, or PEM without a {0}")]
    NotPem(&'static str),
    /// A PEM block that is no X.509 certificate.
    #[error("certificate {0} (from 1) cannot be parsed")]
    BadCertificate(usize),
    /// RSA key below the limit.
    #[error("RSA key of {0} bits, at least {MIN_RSA_BITS} are needed")]
    WeakKey(usize),
    /// Encrypted, or of a kind that is not supported.
    #[error("unsupported private key: want unencrypted RSA, ECDSA P-256 or P-384, or Ed25519")]
    UnsupportedKey,
    /// The key belongs to another certificate.
    #[error("the key does not fit the first certificate of the chain")]
    Mismatch,
}

/// Reads a Secret; `None` when it is not about TLS.
///
/// # Errors
/// When a certificate, key or trust anchor in it cannot be used.
pub fn tls_secret(object: &k8s::Secret) -> Result<Option<Checked>, SecretError> {
    let failed = |(field, fault)| SecretError {
        name: super::name_of(&object.metadata),
        field,
        fault,
    };
    let field = |name: &str| field(object, name);
    let pair = PAIRS
        .into_iter()
        .find(|(cert, key)| !field(cert).is_empty() && !field(key).is_empty())
        .or_else(|| {
            PAIRS
                .into_iter()
                .find(|(cert, key)| !field(cert).is_empty() || !field(key).is_empty())
        })
        .or_else(|| (object.type_.as_deref() == Some(TLS_TYPE)).then_some(PAIRS[1]));
    let anchors = ANCHORS.into_iter().find(|name| !field(name).is_empty());
    let mut checked = Checked {
        secret: TlsSecret::default(),
        not_after: None,
    };
    if let Some((cert_field, key_field)) = pair {
        let (chain, key) = (field(cert_field), field(key_field));
        checked.not_after =
            Some(check_pair((cert_field, chain), (key_field, key)).map_err(failed)?);
        checked.secret.cert_chain = Bytes::copy_from_slice(chain);
        checked.secret.private_key = Bytes::copy_from_slice(key);
    }
    if let Some(name) = anchors {
        let pem = field(name);
        certificates(pem).map_err(|fault| failed((name, fault)))?;
        checked.secret.ca = Some(Bytes::copy_from_slice(pem));
    }
    Ok((pair.is_some() || anchors.is_some()).then_some(checked))
}

/// `stringData` wins over `data`, as in the API server.
fn field<'a>(object: &'a k8s::Secret, name: &str) -> &'a [u8] {
    let text = object.string_data.as_ref().and_then(|data| data.get(name));
    let binary = object.data.as_ref().and_then(|data| data.get(name));
    text.map(String::as_bytes)
        .or(binary.map(|bytes| bytes.0.as_slice()))
        .unwrap_or_default()
}

type Field<'a> = (&'static str, &'a [u8]);

/// Checks a chain and its key; returns the end of the leaf's validity.
fn check_pair(
    (cert_field, chain): Field<'_>,
    (key_field, key): Field<'_>,
) -> Result<i64, (&'static str, Fault)> {
    let in_chain = |fault| (cert_field, fault);
    let in_key = |fault| (key_field, fault);
    if chain.is_empty() {
        return Err(in_chain(Fault::Missing));
    }
    if key.is_empty() {
        return Err(in_key(Fault::Missing));
    }
    let chain = certificates(chain).map_err(in_chain)?;
    let leaf = chain
        .first()
        .ok_or((cert_field, Fault::NotPem("certificate")))?;
    let (_, leaf) = x509_parser::parse_x509_certificate(leaf)
        .map_err(|_| in_chain(Fault::BadCertificate(1)))?;
    if let Ok(PublicKey::RSA(rsa)) = leaf.public_key().parsed()
        && rsa.key_size() < MIN_RSA_BITS
    {
        return Err(in_chain(Fault::WeakKey(rsa.key_size())));
    }
    check_key(key, leaf.public_key()).map_err(in_key)?;
    Ok(leaf.validity().not_after.timestamp())
}

fn check_key(pem: &[u8], leaf: &SubjectPublicKeyInfo<'_>) -> Result<(), Fault> {
    let key = match PrivateKeyDer::from_pem_slice(pem) {
        Ok(key) => key,
        Err(_) if is_encrypted(pem) => return Err(Fault::UnsupportedKey),
        Err(_) => return Err(Fault::NotPem("private key")),
    };
    let key = any_supported_type(&key).map_err(|_| Fault::UnsupportedKey)?;
    let public = key.public_key().ok_or(Fault::UnsupportedKey)?;
    let (_, public) = SubjectPublicKeyInfo::from_der(&public).map_err(|_| Fault::UnsupportedKey)?;
    if public.subject_public_key.data != leaf.subject_public_key.data {
        return Err(Fault::Mismatch);
    }
    Ok(())
}

fn is_encrypted(pem: &[u8]) -> bool {
    const MARK: &[u8] = b"ENCRYPTED PRIVATE KEY";
    pem.windows(MARK.len()).any(|window| window == MARK)
}

/// All certificates of a PEM text, each parsed; at least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|_| Fault::NotPem("certificate"))?;
    if certificates.is_empty() {
        return Err(Fault::NotPem("certificate"));
    }
    for (index, certificate) in certificates.iter().enumerate() {
        match x509_parser::parse_x509_certificate(certificate) {
            Ok(([], _)) => {}
            _ => return Err(Fault::BadCertificate(index + 1)),
        }
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests;
