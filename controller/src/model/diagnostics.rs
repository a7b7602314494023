//! Users' mistakes as data: what is wrong, where, and how to mend it.

use std::collections::BTreeMap;
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
    /// The object has more mistakes than are shown.
    MoreMistakes => Warning,
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

/// Most mistakes of one object that are shown at once.
const MOST_PER_OBJECT: usize = 100;

/// Leaves out what is too much to read: of each object's mistakes, the first ones stay, errors before warnings, and one
/// that says how many there are beside them. The order stays.
pub fn cap_per_object(list: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut totals: BTreeMap<Option<ObjectRef>, [usize; 2]> = BTreeMap::new();
    for diagnostic in &list {
        let [errors, all] = totals.entry(diagnostic.object.clone()).or_default();
        *errors += usize::from(diagnostic.severity() == Severity::Error);
        *all += 1;
    }
    totals.retain(|object, [_, all]| object.is_some() && *all > MOST_PER_OBJECT);
    if totals.is_empty() {
        return list;
    }
    // Of each object with too many: how many errors and how many warnings may still be shown.
    let mut left: BTreeMap<Option<ObjectRef>, [usize; 2]> = totals
        .iter()
        .map(|(object, [errors, _])| {
            let errors = (*errors).min(MOST_PER_OBJECT);
            (object.clone(), [errors, MOST_PER_OBJECT - errors])
        })
        .collect();
    let mut shown = Vec::new();
    for diagnostic in list {
        let Some(rooms) = left.get_mut(&diagnostic.object) else {
            shown.push(diagnostic);
            continue;
        };
        let [errors, warnings] = rooms;
        let is_error = diagnostic.severity() == Severity::Error;
        let room = if is_error { errors } else { warnings };
        if *room == 0 {
            continue;
        }
        *room -= 1;
        if *rooms == [0, 0] {
            let total = totals.get(&diagnostic.object).map_or(0, |[_, all]| *all);
            let more = more(&diagnostic, total - MOST_PER_OBJECT);
            shown.extend([diagnostic, more]);
        } else {
            shown.push(diagnostic);
        }
    }
    shown
}

fn more(last: &Diagnostic, count: usize) -> Diagnostic {
    Diagnostic {
        object: last.object.clone(),
        place: last.place.clone(),
        field: String::new(),
        reason: Reason::MoreMistakes,
        message: format!("and {count} more, which are not shown; mend these first"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectKind;
    use std::sync::Arc;

    fn diagnostic(name: &str, number: usize, reason: Reason) -> Diagnostic {
        Diagnostic {
            object: Some(ObjectRef {
                kind: ObjectKind::Ingress,
                namespace: Arc::from("n"),
                name: Arc::from(name),
            }),
            place: None,
            field: number.to_string(),
            reason,
            message: String::new(),
        }
    }

    fn fields(list: &[Diagnostic]) -> Vec<&str> {
        list.iter().map(|d| d.field.as_str()).collect()
    }

    #[test]
    fn few_are_shown_as_they_are() {
        let of = |name| (0..100).map(move |n| diagnostic(name, n, Reason::InvalidPath));
        let list: Vec<_> = of("a").chain(of("b")).collect();
        assert_eq!(cap_per_object(list.clone()), list);
        let nobodys = Diagnostic {
            object: None,
            ..diagnostic("", 0, Reason::Unreadable)
        };
        let list = vec![nobodys; 200];
        assert_eq!(cap_per_object(list.clone()), list);
    }

    #[test]
    fn many_are_cut_errors_first_and_counted() {
        let warnings = (0..150).map(|n| diagnostic("a", n, Reason::DuplicateRoute));
        let errors = (150..153).map(|n| diagnostic("a", n, Reason::InvalidPath));
        let other = diagnostic("b", 7, Reason::DuplicateRoute);
        let list = warnings.chain(errors).chain([other.clone()]).collect();
        let shown = cap_per_object(list);
        assert_eq!(shown.len(), 102);
        let last = shown.last_chunk::<5>().unwrap();
        assert_eq!(fields(last), ["150", "151", "152", "", "7"]);
        assert_eq!(last[3].reason, Reason::MoreMistakes);
        assert!(last[3].message.starts_with("and 53 more"), "{}", last[3]);
        assert_eq!(last[4], other);
        assert_eq!(fields(&shown[..97]).last(), Some(&"96"));
    }
}
