//! Nouns of the crate: objects, where they stand, and what is wrong with those that could not be read.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// Identity of a Kubernetes object inside one source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Kind as the caller's table names it, e.g. `Ingress`.
    pub kind: &'static str,
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// The place of a document: a file and a line counted from 1 (0 = the file as a whole).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Path as found below the directory given by the caller; empty for an object that stands in no file.
    pub path: Arc<Path>,
    /// First line of the document, or the line of an error inside it.
    pub line: u32,
}

impl Origin {
    /// Of an object that stands in no file: it came from an API server, where its key says all.
    pub fn no_file() -> Self {
        static NONE: LazyLock<Arc<Path>> = LazyLock::new(|| Arc::from(Path::new("")));
        Self {
            path: NONE.clone(),
            line: 0,
        }
    }

    /// False for [`Origin::no_file`].
    pub fn is_file(&self) -> bool {
        !self.path.as_os_str().is_empty()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}", self.path.display())
        } else {
            write!(f, "{}:{}", self.path.display(), self.line)
        }
    }
}

/// One decoded object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object<T> {
    /// Who it is.
    pub key: ObjectKey,
    /// Where its document begins.
    pub origin: Origin,
    /// What the caller's table made of it.
    pub value: T,
}

/// Why a file or a document was not (completely) used. A bounded set, fit for a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The document is not YAML (or JSON).
    InvalidSyntax,
    /// The document is not UTF-8 text.
    InvalidEncoding,
    /// The document has no `kind` or no `apiVersion`.
    MissingKind,
    /// The kind is known, its version is not.
    UnsupportedVersion,
    /// The document does not have the shape of its kind.
    InvalidObject,
    /// `metadata.name` or `metadata.namespace` is missing or not a Kubernetes name.
    InvalidName,
    /// Another document, earlier in path order, has the same identity.
    DuplicateObject,
    /// A file or folder cannot be read.
    Unreadable,
    /// The file is larger than what is accepted.
    TooLarge,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 9] = [
        Self::InvalidSyntax,
        Self::InvalidEncoding,
        Self::MissingKind,
        Self::UnsupportedVersion,
        Self::InvalidObject,
        Self::InvalidName,
        Self::DuplicateObject,
        Self::Unreadable,
        Self::TooLarge,
    ];

    /// Stable upper-camel name, as in a Kubernetes condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidSyntax => "InvalidSyntax",
            Self::InvalidEncoding => "InvalidEncoding",
            Self::MissingKind => "MissingKind",
            Self::UnsupportedVersion => "UnsupportedVersion",
            Self::InvalidObject => "InvalidObject",
            Self::InvalidName => "InvalidName",
            Self::DuplicateObject => "DuplicateObject",
            Self::Unreadable => "Unreadable",
            Self::TooLarge => "TooLarge",
        }
    }
}

/// Something that could not be used, in words for its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub origin: Origin,
    /// What sort of mistake.
    pub reason: Reason,
    /// The mistake in words, without the place.
    pub message: String,
    /// The object concerned, as far as it could be told.
    pub object: Option<ObjectKey>,
    /// True when the last good version of the object stays in use meanwhile.
    pub kept: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.origin.is_file() {
            write!(f, "{}: ", self.origin)?;
        }
        if let Some(key) = &self.object {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.message)?;
        if self.kept {
            f.write_str(" (its last good version stays in use)")?;
        }
        Ok(())
    }
}

/// All that a path held.
#[derive(Clone, Debug)]
pub struct Loaded<T> {
    /// Objects in path order, then in the order of the file.
    pub objects: Vec<Object<T>>,
    /// Problems in the same order.
    pub problems: Vec<Problem>,
}

/// The complete list of problems of one file; an empty list clears what was reported before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblems {
    /// The file (or folder); the object as text when it stands in no file.
    pub path: Arc<Path>,
    /// Its problems in order of line.
    pub problems: Vec<Problem>,
}

/// What differs from the state reported before.
#[derive(Clone, Debug)]
pub struct Change<T> {
    /// New objects and new versions of known ones.
    pub upserts: Vec<Object<T>>,
    /// Unchanged objects that now stand elsewhere.
    pub moved: Vec<(ObjectKey, Origin)>,
    /// Objects that are gone.
    pub removed: Vec<ObjectKey>,
    /// Files whose problems may have changed.
    pub problems: Vec<FileProblems>,
}

impl<T> Change<T> {
    /// True when there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.upserts.is_empty()
            && self.moved.is_empty()
            && self.removed.is_empty()
            && self.problems.is_empty()
    }
}

impl<T> Default for Change<T> {
    fn default() -> Self {
        Self {
            upserts: Vec::new(),
            moved: Vec::new(),
            removed: Vec::new(),
            problems: Vec::new(),
        }
    }
}
