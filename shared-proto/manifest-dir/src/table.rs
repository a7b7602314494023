//! The caller's table of kinds: which documents are decoded, and into what.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::document::named;
use crate::object::{ObjectKey, Reason};
use crate::split::Format;

/// Whether objects of a kind live in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// An absent namespace means `default`.
    Namespaced,
    /// A namespace is ignored.
    Cluster,
}

/// What a document looks like when its decoder gets it.
pub(crate) enum Source<'a> {
    Text(Format, &'a str),
    Value(serde_json::Value),
}

/// Why a document did not decode: the line inside its text (from 1) and the reason.
pub(crate) struct DecodeError {
    pub(crate) line: Option<u32>,
    pub(crate) message: String,
}

/// A decoded document, before its name is checked.
pub(crate) struct Decoded<T> {
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) value: T,
}

type Decoder<T> = Box<dyn Fn(Source<'_>) -> Result<Decoded<T>, DecodeError> + Send + Sync>;

pub(crate) struct Row<T> {
    pub(crate) kind: &'static str,
    pub(crate) scope: Scope,
    pub(crate) decode: Decoder<T>,
}

/// Kinds that are decoded; documents of other kinds are ignored.
pub struct KindTable<T> {
    rows: BTreeMap<(&'static str, &'static str), Row<T>>,
}

impl<T> fmt::Debug for KindTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.rows.keys()).finish()
    }
}

impl<T> Default for KindTable<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> KindTable<T> {
    /// An empty table.
    pub fn new() -> Self {
        Self {
            rows: BTreeMap::new(),
        }
    }

    /// Adds a kind: documents of this `apiVersion` and `kind` are decoded as `K` and handed over as `convert(K)`.
    #[must_use]
    pub fn with<K>(
        mut self,
        api_version: &'static str,
        kind: &'static str,
        scope: Scope,
        convert: impl Fn(K) -> T + Send + Sync + 'static,
    ) -> Self
    where
        K: DeserializeOwned + Metadata<Ty = ObjectMeta>,
    {
        let decode: Decoder<T> = Box::new(move |source| {
            let mut object: K = decode(source)?;
            let meta = object.metadata_mut();
            let (namespace, name) = (meta.namespace.clone(), meta.name.clone());
            Ok(Decoded {
                namespace,
                name,
                value: convert(object),
            })
        });
        self.rows.insert(
            (kind, api_version),
            Row {
                kind,
                scope,
                decode,
            },
        );
        self
    }

    /// The kinds: `apiVersion`, `kind` and scope of each.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str, Scope)> {
        self.rows
            .iter()
            .map(|((kind, version), row)| (*version, *kind, row.scope))
    }

    /// Decodes one object of a kind of this table, as an API server tells it.
    ///
    /// # Errors
    /// The kind is not in the table, or the object has not the shape or the name that it should: why, in words.
    pub fn decode(
        &self,
        api_version: &str,
        kind: &str,
        object: serde_json::Value,
    ) -> Result<(ObjectKey, T), (Reason, String)> {
        let Some(row) = self.row(api_version, kind) else {
            let message = format!("{kind} of version {api_version} is not read");
            return Err((Reason::UnsupportedVersion, message));
        };
        let decoded = (row.decode)(Source::Value(object))
            .map_err(|error| (Reason::InvalidObject, error.message))?;
        named(row, decoded).map_err(|message| (Reason::InvalidName, message))
    }

    pub(crate) fn row(&self, api_version: &str, kind: &str) -> Option<&Row<T>> {
        self.of_kind(kind)
            .find(|(version, _)| *version == api_version)
            .map(|(_, row)| row)
    }

    /// All versions of a kind.
    pub(crate) fn of_kind(&self, kind: &str) -> impl Iterator<Item = (&'static str, &Row<T>)> {
        self.rows
            .iter()
            .filter(move |((k, _), _)| *k == kind)
            .map(|((_, version), row)| (*version, row))
    }
}

fn decode<K: DeserializeOwned>(source: Source<'_>) -> Result<K, DecodeError> {
    match source {
        Source::Text(format, text) => from_text(format, text),
        Source::Value(value) => K::deserialize(value).map_err(|e| DecodeError {
            line: None,
            message: e.to_string(),
        }),
    }
}

/// Decodes text of either format.
pub(crate) fn from_text<'a, K: Deserialize<'a>>(
    format: Format,
    text: &'a str,
) -> Result<K, DecodeError> {
    match format {
        Format::Yaml => serde_yaml::from_str(text).map_err(|error| {
            let line = error.location().map(|l| l.line());
            located(error.to_string(), line)
        }),
        Format::Json => serde_json::from_str(text).map_err(|error| {
            let line = error.line();
            located(error.to_string(), Some(line))
        }),
    }
}

/// Takes places out of the message: they count from the document, their reader counts from the file.
fn located(message: String, line: Option<usize>) -> DecodeError {
    let mut clean = String::with_capacity(message.len());
    for (index, part) in message.split(" at line ").enumerate() {
        let rest = match index {
            0 => part,
            _ => part.trim_start_matches(|c: char| c.is_ascii_digit()),
        };
        let rest = match rest.strip_prefix(" column ") {
            Some(after) if index > 0 => after.trim_start_matches(|c: char| c.is_ascii_digit()),
            _ => rest,
        };
        clean.push_str(rest);
    }
    DecodeError {
        line: line.and_then(|line| u32::try_from(line).ok()),
        message: clean,
    }
}
