//! References to users' objects.

use std::fmt;
use std::sync::Arc;

/// Kinds of objects that the controller reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// `networking.k8s.io` Ingress.
    Ingress,
    /// Core Service.
    Service,
    /// `networking.k8s.io` IngressClass.
    IngressClass,
    /// Core Secret.
    Secret,
}

impl ObjectKind {
    /// The kind as manifests spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ingress => "Ingress",
            Self::Service => "Service",
            Self::IngressClass => "IngressClass",
            Self::Secret => "Secret",
        }
    }
}

/// Identity of a user's object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its namespace; empty for kinds without namespaces.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.as_str();
        if self.namespace.is_empty() {
            return write!(f, "{kind} {}", self.name);
        }
        write!(f, "{kind} {}/{}", self.namespace, self.name)
    }
}

/// Where an object stands outside of the API server: a file and a line from 1 (0 = the whole file).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// File, as its user named it.
    pub file: Arc<str>,
    /// Line of the document.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}
