//! Users' mistakes in what the pilot reads, as data: which object, where, what is wrong and how to mend it.

use std::fmt;
use std::sync::Arc;

use super::change::NamespacedName;

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
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Kinds of mistakes; a bounded set, used as a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiagnosticReason {
    /// An address or port of an EndpointSlice that nobody can connect to.
    InvalidEndpoint,
    /// A Gateway names a Secret that is not there.
    MissingSecret,
    /// A Gateway names a Secret that cannot be used.
    InvalidSecret,
    /// A Gateway names a Secret whose newest version cannot be used; an older one is.
    OutdatedSecret,
    /// A patch of an EnvoyFilter that cannot be used.
    InvalidPatch,
}

impl DiagnosticReason {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::InvalidEndpoint,
        Self::MissingSecret,
        Self::InvalidSecret,
        Self::OutdatedSecret,
        Self::InvalidPatch,
    ];

    /// Stable upper-camel name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidEndpoint => "InvalidEndpoint",
            Self::MissingSecret => "MissingSecret",
            Self::InvalidSecret => "InvalidSecret",
            Self::OutdatedSecret => "OutdatedSecret",
            Self::InvalidPatch => "InvalidPatch",
        }
    }

    /// How much this sort of mistake costs.
    #[must_use]
    pub fn severity(self) -> Severity {
        match self {
            Self::OutdatedSecret => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

/// Identity of a user's object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Its kind as manifests spell it.
    pub kind: &'static str,
    /// Its namespace and name.
    pub name: NamespacedName,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// One mistake of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// Path of the field, such as `endpoints[0].addresses[1]`.
    pub field: String,
    /// Sort of mistake.
    pub reason: DiagnosticReason,
    /// What is wrong and how to mend it.
    pub message: String,
}

/// All mistakes of an object.
pub type DiagnosticList = Arc<[Diagnostic]>;

/// The start of a text, for logs and messages: at most `most` characters of it.
#[must_use]
pub fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
