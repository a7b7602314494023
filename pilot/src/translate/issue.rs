//! What a generator found wrong in a user's object: data, not errors.
//!
//! A generator always gives a resource that Envoy accepts. What it had to leave out or to replace
//! is listed as [`Issue`]s, for the log, the metrics and the owner of the object.

use std::fmt;

/// A resource and what was found wrong on the way to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated<T> {
    /// Valid for Envoy, whatever the input was.
    pub resource: T,
    /// Sorted as the input was.
    pub issues: Vec<Issue>,
}

/// The object that an issue belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Namespace of the object.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Issue {
    /// Whose mistake it is; `None` when no single object can be named.
    pub origin: Option<Origin>,
    /// Route name, field or host it was found at.
    pub at: String,
    /// Kind of mistake; bounded, fit for a metric label.
    pub reason: Reason,
    /// What is wrong and what was done instead.
    pub message: String,
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{}/{}: ", origin.namespace, origin.name)?;
        }
        write!(f, "{}: {}", self.at, self.message)
    }
}

/// Kinds of mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A regular expression that Envoy's engine (RE2) refuses.
    InvalidRegex,
    /// A header name or value outside of RFC 9110.
    InvalidHeader,
    /// A host name or domain that cannot be matched.
    InvalidHost,
    /// A path, prefix or rewrite that cannot be used.
    InvalidPath,
    /// A status code, weight, percentage, duration or count out of range.
    InvalidValue,
    /// An address or CIDR block that does not parse.
    InvalidAddress,
    /// A route without action, or with an empty one.
    NoAction,
    /// Something that was defined before by another object or server.
    Duplicate,
    /// A Secret that is not there, or may not be used.
    MissingSecret,
    /// A patch of an EnvoyFilter that does not fit what it is for.
    InvalidPatch,
    /// A valid setting that this version does not serve.
    Unsupported,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 11] = [
        Self::InvalidRegex,
        Self::InvalidHeader,
        Self::InvalidHost,
        Self::InvalidPath,
        Self::InvalidValue,
        Self::InvalidAddress,
        Self::NoAction,
        Self::Duplicate,
        Self::MissingSecret,
        Self::InvalidPatch,
        Self::Unsupported,
    ];

    /// Stable lower-case name, for metrics and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRegex => "invalid_regex",
            Self::InvalidHeader => "invalid_header",
            Self::InvalidHost => "invalid_host",
            Self::InvalidPath => "invalid_path",
            Self::InvalidValue => "invalid_value",
            Self::InvalidAddress => "invalid_address",
            Self::NoAction => "no_action",
            Self::Duplicate => "duplicate",
            Self::MissingSecret => "missing_secret",
            Self::InvalidPatch => "invalid_patch",
            Self::Unsupported => "unsupported",
        }
    }
}
