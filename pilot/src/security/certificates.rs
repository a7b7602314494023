//! The task that owns the certificate of the secure port: makes it or reads it, and replaces it in time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, version};
use tokio::sync::watch;
use tracing::{info, warn};

use super::authority::{Authority, CertificateError, Leaf, certificates, is_due};
use super::shared_ca::{SharedCa, SharedCaError};
use crate::metrics::Metrics;

/// How often files are read.
const FILES_INTERVAL: Duration = Duration::from_secs(2);
/// How often the shared authority is looked at.
const SHARED_INTERVAL: Duration = Duration::from_secs(60);
/// How soon it is tried again after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Where the certificate comes from.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one in a process")]
pub enum Provider {
    /// From files in PEM.
    Files {
        /// Certificate chain, leaf first.
        certificate: PathBuf,
        /// Key of the leaf.
        key: PathBuf,
    },
    /// Made here, signed by the authority of all replicas.
    Shared {
        /// Where the authority is.
        ca: SharedCa,
        /// Names and addresses of the pilot.
        names: Vec<String>,
    },
}

/// Why there is no new certificate.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// What was read cannot be used.
    #[error("{what}: {source}")]
    Content {
        /// Where it is from.
        what: String,
        /// What is wrong with it.
        source: CertificateError,
    },
    /// The shared authority cannot be used.
    #[error(transparent)]
    Shared(#[from] SharedCaError),
}

/// What a certificate is made from.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one in a process")]
enum Origin {
    Files { chain: Vec<u8>, key: Vec<u8> },
    Authority(Authority),
}

impl Origin {
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Files { chain, key }, Self::Files { chain: c, key: k }) => {
                chain == c && key == k
            }
            (Self::Authority(one), Self::Authority(other)) => {
                one.certificate() == other.certificate()
            }
            _ => false,
        }
    }
}

#[derive(Debug)]
struct InUse {
    origin: Origin,
    client_ca: Vec<u8>,
    /// End of the certificate, in seconds since the Unix epoch.
    not_after: i64,
}

/// The owner of the certificate.
#[derive(Debug)]
pub struct Certificates {
    provider: Provider,
    client_ca: Option<PathBuf>,
    in_use: Option<InUse>,
    /// The failure of the last turn, and whether it was told.
    failure: Option<(String, bool)>,
    metrics: Metrics,
}

/// The TLS settings in use, `None` before there is a certificate.
pub type CurrentTls = watch::Receiver<Option<Arc<ServerConfig>>>;

impl Certificates {
    /// Takes certificates from `provider`. With a file `client_ca` clients are asked for a certificate that it vouches for.
    pub fn new(provider: Provider, client_ca: Option<PathBuf>, metrics: Metrics) -> Self {
        Self {
            provider,
            client_ca,
            in_use: None,
            failure: None,
            metrics,
        }
    }

    /// Keeps `current` up to date for ever.
    pub async fn run(mut self, current: watch::Sender<Option<Arc<ServerConfig>>>) {
        loop {
            let wait = match self.turn(SystemTime::now()).await {
                Ok(new) => {
                    self.failure = None;
                    if let Some(config) = new {
                        current.send_replace(Some(Arc::new(config)));
                    }
                    self.interval()
                }
                Err(error) => {
                    self.failed(error.to_string());
                    RETRY_INTERVAL
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    fn interval(&self) -> Duration {
        match self.provider {
            Provider::Files { .. } => FILES_INTERVAL,
            Provider::Shared { .. } => SHARED_INTERVAL,
        }
    }

    /// Tells of a failure once. While there is something to serve, it is told when it comes a second time: two files are
    /// not replaced at once.
    fn failed(&mut self, reason: String) {
        let again = self.failure.take().filter(|(before, _)| *before == reason);
        let told = again.as_ref().is_some_and(|(_, told)| *told);
        let tell = !told && (self.in_use.is_none() || again.is_some());
        if tell {
            self.metrics.certificate_failures.inc();
            if self.in_use.is_some() {
                warn!(
                    reason,
                    "there is no new certificate for xDS over TLS, the old one stays"
                );
            } else {
                warn!(
                    reason,
                    "there is no certificate for xDS over TLS, so gateways cannot connect to the secure port"
                );
            }
        }
        self.failure = Some((reason, told || tell));
    }

    /// New settings, if something changed or is due.
    async fn turn(&mut self, now: SystemTime) -> Result<Option<ServerConfig>, TurnError> {
        let client_ca = match &self.client_ca {
            Some(path) => read(path)?,
            None => Vec::new(),
        };
        let origin = self.origin(now).await?;
        if let Some(in_use) = &self.in_use
            && in_use.origin.same(&origin)
            && in_use.client_ca == client_ca
            && !(matches!(origin, Origin::Authority(_)) && is_due(in_use.not_after, now))
        {
            return Ok(None);
        }
        let leaf = self.leaf(&origin, now)?;
        let not_after = leaf.not_after;
        let config = server_config(leaf, &client_ca);
        let config = config.map_err(|source| self.content(source))?;
        self.metrics.certificate_not_after.set(not_after);
        info!(
            not_after,
            from = self.what(),
            "certificate for xDS over TLS in use"
        );
        self.in_use = Some(InUse {
            origin,
            client_ca,
            not_after,
        });
        Ok(Some(config))
    }

    async fn origin(&self, now: SystemTime) -> Result<Origin, TurnError> {
        match &self.provider {
            Provider::Files { certificate, key } => Ok(Origin::Files {
                chain: read(certificate)?,
                key: read(key)?,
            }),
            Provider::Shared { ca, .. } => {
                let held = self
                    .in_use
                    .as_ref()
                    .and_then(|in_use| match &in_use.origin {
                        Origin::Authority(held) => Some(held),
                        Origin::Files { .. } => None,
                    });
                Ok(Origin::Authority(ca.agree(held, now).await?))
            }
        }
    }

    fn leaf(&self, origin: &Origin, now: SystemTime) -> Result<Leaf, TurnError> {
        let names = match &self.provider {
            Provider::Shared { names, .. } => names.as_slice(),
            Provider::Files { .. } => &[],
        };
        let leaf = match origin {
            Origin::Files { chain, key } => Leaf::read(chain, key, now),
            Origin::Authority(authority) => authority.leaf(names, now),
        };
        leaf.map_err(|source| self.content(source))
    }

    fn what(&self) -> String {
        match &self.provider {
            Provider::Files { certificate, key } => {
                format!("{} and {}", certificate.display(), key.display())
            }
            Provider::Shared { names, .. } => {
                format!("the shared authority, for {}", names.join(", "))
            }
        }
    }

    fn content(&self, source: CertificateError) -> TurnError {
        let mut what = self.what();
        if let Some(client_ca) = &self.client_ca {
            what = format!("{what}, clients verified by {}", client_ca.display());
        }
        TurnError::Content { what, source }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TurnError> {
    std::fs::read(path).map_err(|source| TurnError::Read {
        path: path.display().to_string(),
        source,
    })
}

/// TLS 1.2 and 1.3 for HTTP/2. With certificates in `client_ca` (PEM) a client may show one of its own; without one it has
/// to prove in another way who it is.
fn server_config(leaf: Leaf, client_ca: &[u8]) -> Result<ServerConfig, CertificateError> {
    let refused = |error: &dyn std::fmt::Display| CertificateError::Refused(error.to_string());
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(|error| refused(&error))?;
    let builder = if client_ca.is_empty() {
        builder.with_no_client_auth()
    } else {
        let mut roots = RootCertStore::empty();
        for root in certificates(client_ca)? {
            roots.add(root).map_err(|error| refused(&error))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
            .allow_unauthenticated()
            .build()
            .map_err(|error| refused(&error))?;
        builder.with_client_cert_verifier(verifier)
    };
    let mut config =
        builder
            .with_single_cert(leaf.chain, leaf.key)
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => CertificateError::Mismatch,
                error => refused(&error),
            })?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Files {
        dir: tempfile::TempDir,
        certificates: Certificates,
    }

    impl Files {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let provider = Provider::Files {
                certificate: dir.path().join("tls.crt"),
                key: dir.path().join("tls.key"),
            };
            Self {
                dir,
                certificates: Certificates::new(provider, None, Metrics::new().0),
            }
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.dir.path().join(name), text).unwrap();
        }

        async fn turn(&mut self) -> Result<bool, String> {
            let turn = self.certificates.turn(SystemTime::now()).await;
            turn.map(|new| new.is_some())
                .map_err(|error| error.to_string())
        }
    }

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["pilot.test".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[tokio::test]
    async fn files_are_followed_and_a_broken_pair_changes_nothing() {
        let mut files = Files::new();
        let missing = files.turn().await.unwrap_err();
        assert!(missing.contains("cannot read"), "{missing}");
        let ((first, first_key), (second, second_key)) = (pair(), pair());
        files.write("tls.crt", &first);
        files.write("tls.key", &first_key);
        assert_eq!(files.turn().await, Ok(true));
        assert_eq!(files.turn().await, Ok(false));
        files.write("tls.crt", &second);
        let broken = files.turn().await.unwrap_err();
        assert!(
            broken.contains("does not fit") && broken.contains("tls.crt"),
            "{broken}"
        );
        // Back to the old pair: it is still in use.
        files.write("tls.crt", &first);
        assert_eq!(files.turn().await, Ok(false));
        files.write("tls.crt", &second);
        files.write("tls.key", &second_key);
        assert_eq!(files.turn().await, Ok(true));
    }

    #[tokio::test]
    async fn a_failure_is_counted_once_and_a_passing_one_not_at_all() {
        let mut files = Files::new();
        let count = |files: &Files| files.certificates.metrics.certificate_failures.get();
        files.certificates.failed("nothing there".to_owned());
        files.certificates.failed("nothing there".to_owned());
        assert_eq!(count(&files), 1);
        let (chain, key) = pair();
        files.write("tls.crt", &chain);
        files.write("tls.key", &key);
        files.turn().await.unwrap();
        files.certificates.failure = None;
        files.certificates.failed("half replaced".to_owned());
        assert_eq!(count(&files), 1);
        for _ in 0..2 {
            files.certificates.failed("still broken".to_owned());
        }
        assert_eq!(count(&files), 2);
    }

    #[tokio::test]
    async fn the_authority_of_clients_is_followed_too() {
        let mut files = Files::new();
        let (chain, key) = pair();
        files.write("tls.crt", &chain);
        files.write("tls.key", &key);
        files.certificates.client_ca = Some(files.dir.path().join("clients.pem"));
        files.write("clients.pem", "nonsense");
        let broken = files.turn().await.unwrap_err();
        assert!(broken.contains("clients.pem"), "{broken}");
        files.write("clients.pem", &pair().0);
        assert_eq!(files.turn().await, Ok(true));
        files.write("clients.pem", &pair().0);
        assert_eq!(files.turn().await, Ok(true));
    }
}
