//! The authority that all replicas of the pilot share, in a Secret; its certificate, for gateways, in a ConfigMap.
//!
//! Whoever finds the Secret empty fills it; of several at once the API server lets one win, and the others read what it
//! wrote. The chart creates both objects empty, so that `get` and `update` on these two names are all the rights that it takes.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::info;

use super::authority::{Authority, CertificateError};

/// Keys of the Secret. They are not those of a TLS Secret, so that no Gateway can name this one for its servers.
const CERTIFICATE: &str = "ca-cert.pem";
const KEY: &str = "ca-key.pem";
/// Key of the ConfigMap.
pub const ROOT: &str = "root-cert.pem";
/// How often others may be faster before it is left for the next look.
const ATTEMPTS: usize = 5;
/// How long the API server may take for an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Why there is no shared authority.
#[derive(Debug, thiserror::Error)]
pub enum SharedCaError {
    /// The API server does not do it.
    #[error("{object}: {reason}")]
    Api {
        /// Kind, namespace and name.
        object: String,
        /// What it says, and what to do.
        reason: String,
    },
    /// The Secret holds something else.
    #[error(
        "{object}: {source}; remove what is in it, and a new authority is made, or put in the authority that gateways trust"
    )]
    Content {
        /// Kind, namespace and name.
        object: String,
        /// What is wrong.
        source: CertificateError,
    },
    /// No authority can be made.
    #[error("no authority can be made: {0}")]
    Make(CertificateError),
    /// Others keep being faster.
    #[error("{0} keeps changing; trying again")]
    Busy(String),
}

/// The two objects.
#[derive(Clone)]
pub struct SharedCa {
    secrets: Api<Secret>,
    secret: String,
    configs: Api<ConfigMap>,
    config: String,
    namespace: String,
}

impl fmt::Debug for SharedCa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCa")
            .field("namespace", &self.namespace)
            .field("secret", &self.secret)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Outcome of a write.
enum Written {
    Done,
    /// Somebody else wrote first.
    Lost,
}

impl SharedCa {
    /// The Secret and the ConfigMap of these names in `namespace`.
    pub fn new(client: &Client, namespace: &str, secret: &str, config: &str) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), namespace),
            secret: secret.to_owned(),
            configs: Api::namespaced(client.clone(), namespace),
            config: config.to_owned(),
            namespace: namespace.to_owned(),
        }
    }

    /// The authority that everybody uses, published to gateways. `held` is put back when the Secret was emptied: gateways
    /// trust it already.
    ///
    /// # Errors
    /// The objects cannot be read or written; the message says what to do.
    pub async fn agree(
        &self,
        held: Option<&Authority>,
        now: SystemTime,
    ) -> Result<Authority, SharedCaError> {
        let authority = self.authority(held, now).await?;
        self.publish(&authority).await?;
        Ok(authority)
    }

    async fn authority(
        &self,
        held: Option<&Authority>,
        now: SystemTime,
    ) -> Result<Authority, SharedCaError> {
        let name = &self.secret;
        for _ in 0..ATTEMPTS {
            let found = self.read(&self.secrets, "Secret", name).await?;
            let kept = found.as_ref().map_or(Ok(None), |secret| {
                kept(secret, now).map_err(|source| SharedCaError::Content {
                    object: self.object("Secret", name),
                    source,
                })
            })?;
            if let Some(authority) = kept {
                return Ok(authority);
            }
            let (certificate, key) = match held.filter(|held| !held.has_expired(now)) {
                Some(held) => (held.certificate().to_owned(), held.key().to_owned()),
                None => {
                    let made = Authority::make(now).map_err(SharedCaError::Make)?;
                    (made.certificate().to_owned(), made.key().to_owned())
                }
            };
            let mut secret = found.clone().unwrap_or_default();
            secret.data = Some(BTreeMap::from([
                (CERTIFICATE.to_owned(), ByteString(certificate.into_bytes())),
                (KEY.to_owned(), ByteString(key.into_bytes())),
            ]));
            let written = self.write(&self.secrets, "Secret", name, found.is_some(), secret);
            if let Written::Done = written.await? {
                info!(
                    secret = name,
                    namespace = self.namespace,
                    "the authority for xDS was written"
                );
            }
            // Read again in any case: what is there now is what counts.
        }
        Err(SharedCaError::Busy(self.object("Secret", name)))
    }

    async fn publish(&self, authority: &Authority) -> Result<(), SharedCaError> {
        let name = &self.config;
        for _ in 0..ATTEMPTS {
            let found = self.read(&self.configs, "ConfigMap", name).await?;
            let data = found.as_ref().and_then(|config| config.data.as_ref());
            let root = data.and_then(|data| data.get(ROOT));
            if root.is_some_and(|root| root == authority.certificate()) {
                return Ok(());
            }
            let mut config = found.clone().unwrap_or_default();
            let data = config.data.get_or_insert_default();
            data.insert(ROOT.to_owned(), authority.certificate().to_owned());
            let written = self.write(&self.configs, "ConfigMap", name, found.is_some(), config);
            if let Written::Done = written.await? {
                return Ok(());
            }
        }
        Err(SharedCaError::Busy(self.object("ConfigMap", name)))
    }

    fn object(&self, kind: &str, name: &str) -> String {
        format!("{kind} {}/{name}", self.namespace)
    }

    async fn read<K>(
        &self,
        api: &Api<K>,
        kind: &str,
        name: &str,
    ) -> Result<Option<K>, SharedCaError>
    where
        K: Clone + DeserializeOwned + fmt::Debug,
    {
        let answer = answered(api.get_opt(name)).await;
        answer.map_err(|fault| self.failed(kind, name, "get", &fault))
    }

    /// Writes over exactly the version that was read, or creates the object.
    async fn write<K>(
        &self,
        api: &Api<K>,
        kind: &str,
        name: &str,
        exists: bool,
        mut object: K,
    ) -> Result<Written, SharedCaError>
    where
        K: Resource<Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Serialize
            + fmt::Debug,
    {
        let parameters = PostParams::default();
        let (verb, answer) = if exists {
            let replaced = api.replace(name, &parameters, &object);
            ("update", answered(replaced).await)
        } else {
            *object.meta_mut() = ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(self.namespace.clone()),
                ..ObjectMeta::default()
            };
            let created = api.create(&parameters, &object);
            ("create", answered(created).await)
        };
        match answer {
            Ok(_) => Ok(Written::Done),
            Err(Fault::Api(409, _)) => Ok(Written::Lost),
            Err(fault) => Err(self.failed(kind, name, verb, &fault)),
        }
    }

    fn failed(&self, kind: &str, name: &str, verb: &str, fault: &Fault) -> SharedCaError {
        let object = self.object(kind, name);
        let reason = match fault {
            Fault::Api(403, _) if verb == "create" => format!(
                "does not exist, and this pilot may not create it; create it empty, with the rights to get and update \
                 it: kubectl -n {} create {} {name}",
                self.namespace,
                if kind == "Secret" {
                    "secret generic"
                } else {
                    "configmap"
                }
            ),
            Fault::Api(403, _) => {
                format!("may not {verb} it; grant this pilot get and update on it")
            }
            Fault::Api(code, message) => format!("cannot {verb} it: {message} ({code})"),
            Fault::Away(message) => format!("cannot {verb} it: {message}"),
        };
        SharedCaError::Api { object, reason }
    }
}

/// A request that was not done.
enum Fault {
    Api(u16, String),
    Away(String),
}

async fn answered<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Fault> {
    match tokio::time::timeout(ANSWER_LIMIT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => Err(Fault::Api(status.code, status.message.clone())),
        Ok(Err(error)) => Err(Fault::Away(error.to_string())),
        Err(_) => Err(Fault::Away("the API server does not answer".to_owned())),
    }
}

/// The authority in the Secret; `None` = there is none, or one that is past its end.
fn kept(secret: &Secret, now: SystemTime) -> Result<Option<Authority>, CertificateError> {
    let field = |name: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(name));
        bytes.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
    };
    match (field(CERTIFICATE), field(KEY)) {
        (None, None) => Ok(None),
        (certificate, key) => {
            let authority =
                Authority::read(&certificate.unwrap_or_default(), &key.unwrap_or_default())?;
            if authority.has_expired(now) {
                return Ok(None);
            }
            Ok(Some(authority))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(fields: &[(&str, &str)]) -> Secret {
        let one = |(name, text): &(&str, &str)| {
            ((*name).to_owned(), ByteString(text.as_bytes().to_vec()))
        };
        Secret {
            data: Some(fields.iter().map(one).collect()),
            ..Secret::default()
        }
    }

    #[test]
    fn only_an_empty_secret_is_filled() {
        let now = SystemTime::now();
        let authority = Authority::make(now).unwrap();
        let pair = [
            (CERTIFICATE, authority.certificate()),
            (KEY, authority.key()),
        ];
        assert!(matches!(kept(&secret(&[]), now), Ok(None)));
        assert!(matches!(kept(&secret(&pair), now), Ok(Some(_))));
        let years_later = now + Duration::from_secs(11 * 365 * 24 * 3600);
        assert!(matches!(kept(&secret(&pair), years_later), Ok(None)));
        // Half of a pair is somebody's mistake, and theirs to mend.
        assert!(kept(&secret(&pair[..1]), now).is_err());
        assert!(kept(&secret(&[(CERTIFICATE, ""), (KEY, "")]), now).is_err());
    }
}
