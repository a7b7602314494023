//! The certificates that the pilot makes for itself: an authority that all replicas share, and a leaf for each of them.
//!
//! Pure but for the randomness of keys; the time is given.

use std::fmt;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer as _, X509Certificate};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Life of an authority: gateways read its certificate only at their start.
const AUTHORITY_LIFE: Duration = DAY.saturating_mul(3650);
/// Life of a leaf; it is renewed after half of it.
const LEAF_LIFE: Duration = DAY.saturating_mul(30);
/// Certificates are valid from before they are made, for peers whose clock is late.
const CLOCK_SKEW: Duration = Duration::from_secs(3600);

/// Why a certificate cannot be made or used. Never holds key material.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CertificateError {
    /// No certificate in PEM.
    #[error("there is no certificate in PEM in it")]
    NoCertificate,
    /// No key in PEM.
    #[error("there is no unencrypted private key in PEM in it")]
    NoKey,
    /// A certificate that cannot be parsed.
    #[error("the certificate cannot be parsed")]
    Unreadable,
    /// A certificate that may not sign others.
    #[error("the certificate is not that of an authority (CA)")]
    NotAuthority,
    /// A key of another certificate.
    #[error("the key does not fit the certificate")]
    Mismatch,
    /// A certificate past its end.
    #[error("the certificate has expired")]
    Expired,
    /// Refused by the library.
    #[error("{0}")]
    Refused(String),
}

impl From<rcgen::Error> for CertificateError {
    fn from(error: rcgen::Error) -> Self {
        Self::Refused(error.to_string())
    }
}

/// A certificate chain with its key, for a server.
pub struct Leaf {
    /// The chain, leaf first.
    pub chain: Vec<CertificateDer<'static>>,
    /// Key of the leaf.
    pub key: PrivateKeyDer<'static>,
    /// End of the leaf's validity, in seconds since the Unix epoch.
    pub not_after: i64,
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaf")
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

impl Leaf {
    /// Reads a chain and a key in PEM. That they fit each other is checked where they are used.
    ///
    /// # Errors
    /// One of them is not there, or the leaf is past its end at `now`.
    pub fn read(chain: &[u8], key: &[u8], now: SystemTime) -> Result<Self, CertificateError> {
        let chain = certificates(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| CertificateError::NoKey)?;
        let not_after = parse(chain.first().ok_or(CertificateError::NoCertificate)?)?
            .validity()
            .not_after
            .timestamp();
        if not_after <= seconds(now) {
            return Err(CertificateError::Expired);
        }
        Ok(Self {
            chain,
            key,
            not_after,
        })
    }
}

/// Whether a leaf that the pilot made, and that ends at `not_after`, is due for another one.
pub fn is_due(not_after: i64, now: SystemTime) -> bool {
    let half = i64::try_from(LEAF_LIFE.as_secs() / 2).unwrap_or(i64::MAX);
    not_after.saturating_sub(seconds(now)) < half
}

/// All certificates of a PEM text.
///
/// # Errors
/// There is none, or one is damaged.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|_| CertificateError::NoCertificate)?;
    if all.is_empty() {
        return Err(CertificateError::NoCertificate);
    }
    Ok(all)
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, CertificateError> {
    let parsed = X509Certificate::from_der(der).map_err(|_| CertificateError::Unreadable)?;
    Ok(parsed.1)
}

/// An authority that signs the pilots' certificates.
pub struct Authority {
    certificate: String,
    key: String,
    not_after: i64,
    issuer: Issuer<'static, KeyPair>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

impl Authority {
    /// Makes a new one.
    ///
    /// # Errors
    /// The system gives no randomness.
    pub fn make(now: SystemTime) -> Result<Self, CertificateError> {
        let key = KeyPair::generate()?;
        let mut params = params(Vec::new(), now, AUTHORITY_LIFE)?;
        params
            .distinguished_name
            .push(DnType::CommonName, "Isthmus xDS authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?.pem();
        Self::read(&certificate, &key.serialize_pem())
    }

    /// Reads one that was kept.
    ///
    /// # Errors
    /// Certificate and key are not those of an authority.
    pub fn read(certificate: &str, key: &str) -> Result<Self, CertificateError> {
        let pair = KeyPair::from_pem(key).map_err(|_| CertificateError::NoKey)?;
        let chain = certificates(certificate.as_bytes())?;
        let der = chain.first().ok_or(CertificateError::NoCertificate)?;
        let parsed = parse(der)?;
        if !parsed.is_ca() {
            return Err(CertificateError::NotAuthority);
        }
        if parsed.public_key().subject_public_key.data != pair.public_key_raw() {
            return Err(CertificateError::Mismatch);
        }
        Ok(Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            not_after: parsed.validity().not_after.timestamp(),
            issuer: Issuer::from_ca_cert_der(der, pair)?,
        })
    }

    /// The certificate, PEM: what gateways trust.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The key, PEM.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether it is past its end.
    pub fn has_expired(&self, now: SystemTime) -> bool {
        self.not_after <= seconds(now)
    }

    /// A certificate for a server with these names or addresses.
    ///
    /// # Errors
    /// A name can be that of no host.
    pub fn leaf(&self, names: &[String], now: SystemTime) -> Result<Leaf, CertificateError> {
        let key = KeyPair::generate()?;
        let left = u64::try_from(self.not_after.saturating_sub(seconds(now))).unwrap_or(0);
        let life = LEAF_LIFE.min(Duration::from_secs(left));
        let mut params = params(names.to_vec(), now, life)?;
        params
            .distinguished_name
            .push(DnType::CommonName, "Isthmus pilot");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::try_from(key.serialize_der())
            .map_err(|error| CertificateError::Refused(error.to_owned()))?;
        Ok(Leaf {
            chain: vec![certificate.der().clone()],
            key,
            not_after: seconds(now + life),
        })
    }
}

fn params(
    names: Vec<String>,
    now: SystemTime,
    life: Duration,
) -> Result<CertificateParams, CertificateError> {
    let mut params = CertificateParams::new(names)?;
    let date = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(since.unwrap_or_default().as_secs())
    };
    params.not_before = date(now - CLOCK_SKEW);
    params.not_after = date(now + life);
    params.distinguished_name = rcgen::DistinguishedName::new();
    Ok(params)
}

/// Seconds since the Unix epoch.
fn seconds(time: SystemTime) -> i64 {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::crypto::ring;
    use rustls::pki_types::{ServerName, UnixTime};

    use super::*;

    /// Whether a client that trusts the authority takes the leaf for `name` at `time`.
    fn trusted(authority: &Authority, leaf: &Leaf, name: &str, time: SystemTime) -> bool {
        let mut roots = RootCertStore::empty();
        for root in certificates(authority.certificate().as_bytes()).unwrap() {
            roots.add(root).unwrap();
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider)
            .build()
            .unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let time = UnixTime::since_unix_epoch(time.duration_since(SystemTime::UNIX_EPOCH).unwrap());
        verifier
            .verify_server_cert(&leaf.chain[0], &[], &name, &[], time)
            .is_ok()
    }

    #[test]
    fn a_leaf_is_trusted_for_its_names_and_time() {
        let now = SystemTime::now();
        let authority = Authority::make(now).unwrap();
        let names = ["pilot.sys.svc".to_owned(), "10.0.0.1".to_owned()];
        let leaf = authority.leaf(&names, now).unwrap();
        assert!(trusted(&authority, &leaf, "pilot.sys.svc", now));
        assert!(trusted(&authority, &leaf, "10.0.0.1", now));
        assert!(trusted(
            &authority,
            &leaf,
            "pilot.sys.svc",
            now - CLOCK_SKEW / 2
        ));
        assert!(!trusted(&authority, &leaf, "other.sys.svc", now));
        assert!(!trusted(
            &authority,
            &leaf,
            "pilot.sys.svc",
            now + LEAF_LIFE + DAY
        ));
        let stranger = Authority::make(now).unwrap();
        assert!(!trusted(&stranger, &leaf, "pilot.sys.svc", now));
        assert!(!is_due(leaf.not_after, now));
        assert!(is_due(leaf.not_after, now + LEAF_LIFE / 2 + DAY));
    }

    #[test]
    fn a_kept_authority_signs_for_the_same_clients() {
        let now = SystemTime::now();
        let made = Authority::make(now).unwrap();
        let kept = Authority::read(made.certificate(), made.key()).unwrap();
        let leaf = kept.leaf(&["pilot.sys.svc".to_owned()], now).unwrap();
        assert!(trusted(&made, &leaf, "pilot.sys.svc", now));
        assert!(!kept.has_expired(now + DAY * 3600) && kept.has_expired(now + AUTHORITY_LIFE));
        // The last leaf ends with its authority.
        let late = now + AUTHORITY_LIFE - DAY;
        assert_eq!(kept.leaf(&[], late).unwrap().not_after, kept.not_after);
    }

    #[test]
    fn what_is_no_authority_is_refused() {
        let now = SystemTime::now();
        let (one, two) = (Authority::make(now).unwrap(), Authority::make(now).unwrap());
        let read = |certificate: &str, key: &str| Authority::read(certificate, key).unwrap_err();
        assert_eq!(
            read(one.certificate(), two.key()),
            CertificateError::Mismatch
        );
        assert_eq!(read("", one.key()), CertificateError::NoCertificate);
        assert_eq!(
            read(one.certificate(), "key of mine"),
            CertificateError::NoKey
        );
        let server = rcgen::generate_simple_self_signed(["a.b".to_owned()]).unwrap();
        assert_eq!(
            read(&server.cert.pem(), &server.signing_key.serialize_pem()),
            CertificateError::NotAuthority
        );
    }

    #[test]
    fn an_expired_pair_is_refused() {
        let now = SystemTime::now();
        let authority = Authority::make(now).unwrap();
        let (certificate, key) = (authority.certificate(), authority.key());
        let read = |now| Leaf::read(certificate.as_bytes(), key.as_bytes(), now);
        assert!(read(now).is_ok());
        let late = read(now + AUTHORITY_LIFE + DAY).unwrap_err();
        assert_eq!(late, CertificateError::Expired);
    }
}
