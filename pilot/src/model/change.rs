//! What the sources tell: one fact each, always the whole new state of one object.

use std::fmt;
use std::sync::Arc;

use shared_proto::config::ConfigKey;

use super::config::StoredConfig;
use super::diagnostic::{DiagnosticList, ObjectRef};
use super::endpoint::Endpoints;
use super::secret::TlsSecret;
use super::service::Service;

/// Namespace and name of a Kubernetes object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl NamespacedName {
    /// Builds a name.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// State of a Secret as far as TLS is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretState {
    /// Usable.
    Valid(Arc<TlsSecret>),
    /// There, but not usable; why. What was usable before stays in use.
    Invalid(Arc<str>),
    /// Not there.
    Absent,
}

/// One changed object.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A config of the controller; `None` when it was removed.
    Config(ConfigKey, Option<Arc<StoredConfig>>),
    /// A service by its host name.
    Service(Arc<str>, Option<Arc<Service>>),
    /// The endpoints of a service by its host name.
    Endpoints(Arc<str>, Arc<Endpoints>),
    /// A Secret.
    Secret(NamespacedName, SecretState),
    /// All that is wrong with an object as far as its source can tell; changes nothing that is served.
    Mistakes(ObjectRef, DiagnosticList),
}
