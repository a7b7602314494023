//! Sources of users' objects: bytes in, trimmed objects out.
//!
//! Whatever the source, the rest of the controller sees [`Change`]s. The first one is the complete state.

mod convert;
mod kubernetes;
mod manifests;

use crate::model::{Diagnostic, Ingress, IngressClass, ObjectRef, Place, Secret, Service};

pub use kubernetes::cluster;
pub use manifests::{Manifests, load, parse};

/// A user's object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// An Ingress.
    Ingress(Box<Ingress>),
    /// A Service.
    Service(Service),
    /// An IngressClass.
    IngressClass(IngressClass),
    /// A Secret.
    Secret(Secret),
}

/// What differs from before.
#[derive(Debug, Default)]
pub struct Change {
    /// New versions of objects, `None` = gone, in the order in which they came about.
    pub objects: Vec<(ObjectRef, Option<Object>)>,
    /// Where objects stand now.
    pub places: Vec<(ObjectRef, Place)>,
    /// Complete lists of what could not be read, by part of the source (a file).
    pub problems: Vec<(String, Vec<Diagnostic>)>,
}

impl Change {
    /// Adds a later change.
    pub fn merge(&mut self, later: Self) {
        self.objects.extend(later.objects);
        self.places.extend(later.places);
        self.problems.extend(later.problems);
    }
}

/// Something that objects come from.
pub trait ObjectSource: Send {
    /// The next change; the first one is the complete state. `None` when the source has ended, which is a failure.
    /// Must be cancel-safe: it is dropped and called again.
    fn next(&mut self) -> impl Future<Output = Option<Change>> + Send;
}
