//! Nouns of the controller: user's objects in trimmed form, who they are, and what is wrong with them.

mod diagnostics;
mod host;
mod ingress;
mod object_ref;
mod reports;
mod scope;
mod secret;
mod semantics;
mod service;
mod upstream;

pub use diagnostics::{Diagnostic, Reason, Severity, cap_per_object};
pub use host::{CATCH_ALL, HostError, parse_host};
pub use ingress::{Backend, BackendPort, Ingress, IngressPath, IngressRule, IngressTls, PathType};
pub use object_ref::{ObjectKind, ObjectRef, Place};
pub use reports::{ReportSource, Reports};
pub use scope::Scope;
pub use secret::Secret;
pub use semantics::{IngressClass, SEMANTICS_ANNOTATION, Semantics, UnknownSemantics};
pub use service::{Service, ServicePort};
pub use upstream::Upstream;
