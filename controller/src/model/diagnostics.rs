//! Users' mistakes as data: what is wrong, where, and how to mend it.

use std::fmt;

use crate::model::{ObjectRef, Place};

/// How much a mistake costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Something that was asked for is not served.
    Error,
    /// Something is served otherwise than its author may think.
    Warning,
}

impl Severity {
    /// Lower-case name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident => $severity:ident,)*) => {
        /// Kinds of mistakes; a bounded set, used as a metric label.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $($(#[$doc])* $name,)* }

        impl Reason {
            /// All reasons.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Stable upper-camel name.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// How much this sort of mistake costs.
            pub fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity,)* }
            }
        }
    };
}

reasons! {
    /// A document is not YAML or JSON.
    InvalidSyntax => Error,
    /// A document is not UTF-8 text.
    InvalidEncoding => Error,
    /// A document has no kind or apiVersion.
    MissingKind => Error,
    /// A known kind in a version that is not read.
    UnsupportedVersion => Error,
    /// A document does not have the shape of its kind.
    InvalidObject => Error,
    /// The object's name or namespace is not a Kubernetes name.
    InvalidName => Error,
    /// Another document has the same identity.
    DuplicateObject => Error,
    /// A file or folder cannot be read.
    Unreadable => Error,
    /// A file is too large.
    TooLarge => Error,
    /// An Ingress has neither rules nor a default backend.
    EmptyIngress => Error,
    /// A rule's host can never be requested.
    InvalidHost => Error,
    /// A path does not begin with `/`.
    InvalidPath => Error,
    /// A path type that does not exist.
    InvalidPathType => Error,
    /// A backend without service, or with a port that is none.
    InvalidBackend => Error,
    /// A backend of a kind that is not served.
    UnsupportedBackend => Error,
    /// A port name that the Service does not have, or whose Service does not exist.
    UnresolvedPortName => Error,
    /// The same host and path were claimed before.
    DuplicateRoute => Warning,
    /// The host already has a certificate from another Ingress.
    DuplicateTls => Warning,
    /// Another default backend is used.
    DuplicateDefaultBackend => Warning,
    /// A TLS entry without a Secret.
    MissingTlsSecret => Warning,
    /// An annotation's value cannot be used; its feature is left out.
    InvalidAnnotation => Error,
    /// A condition or path is a regular expression that cannot be used; the route is not served.
    InvalidRegex => Error,
    /// Access should be restricted in a way that cannot be put into effect; nobody has access.
    AccessDenied => Error,
    /// An annotation that is known and does nothing here.
    UnsupportedAnnotation => Warning,
    /// An annotation that nobody knows.
    UnknownAnnotation => Warning,
    /// An annotation that has no effect beside the others.
    IneffectiveAnnotation => Warning,
    /// An annotation names a Service that does not exist, or has no port.
    UnresolvedService => Error,
    /// An older Ingress decides about the same port of a Service.
    DuplicatePolicy => Warning,
    /// A canary for a host and path that no other Ingress has.
    CanaryWithoutMain => Warning,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The object that has to be mended; `None` when it could not be told.
    pub object: Option<ObjectRef>,
    /// Where the mistake stands, if that is known better than by the object.
    pub place: Option<Place>,
    /// Path of the field, such as `spec.rules[0].host`; empty for the whole object.
    pub field: String,
    /// Sort of mistake.
    pub reason: Reason,
    /// What is wrong and how to mend it.
    pub message: String,
}

impl Diagnostic {
    /// How much it costs.
    pub fn severity(&self) -> Severity {
        self.reason.severity()
    }
}

impl fmt::Display for Diagnostic {
    /// `error: file:line: Kind ns/name: field: message (Reason)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.severity().as_str())?;
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        if let Some(object) = &self.object {
            write!(f, "{object}: ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{} ({})", self.message, self.reason.as_str())
    }
}
