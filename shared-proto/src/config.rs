//! A configuration object: identity, metadata and spec, and its Kubernetes manifest form.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat};
use serde_json::{Map, Value, json};

use crate::kinds::{Kind, Spec};

/// Labels or annotations.
pub type StringMap = BTreeMap<String, String>;

/// What identifies a config.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigKey {
    /// Kind of the object.
    pub kind: Kind,
    /// Namespace of the object.
    pub namespace: Arc<str>,
    /// Name within the namespace.
    pub name: Arc<str>,
}

impl ConfigKey {
    /// Builds a key.
    pub fn new(kind: Kind, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ConfigKey {
    /// `Kind namespace/name`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Metadata of a config; the kind is that of its spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Namespace of the object.
    pub namespace: Arc<str>,
    /// Name within the namespace.
    pub name: Arc<str>,
    /// Labels of the object.
    pub labels: StringMap,
    /// Annotations of the object.
    pub annotations: StringMap,
    /// Creation time in seconds since the Unix epoch; `None` for objects that were derived, not created.
    pub created: Option<i64>,
    /// Data outside of the published envelope (JSON), for peers that know it. Not part of a manifest.
    pub extra: Option<Bytes>,
}

impl Meta {
    /// Metadata with a name only.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            labels: StringMap::new(),
            annotations: StringMap::new(),
            created: None,
            extra: None,
        }
    }
}

/// A configuration object as the controller produces and the pilot consumes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Who it is.
    pub meta: Meta,
    /// What it says.
    pub spec: Spec,
}

/// Why a manifest is no config.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The text is no YAML.
    #[error("invalid YAML: {0}")]
    Yaml(#[from] serde_yaml::Error),
    /// A field is missing or of the wrong type.
    #[error("{field}: want {want}")]
    Field {
        /// Path of the field.
        field: &'static str,
        /// What belongs there.
        want: &'static str,
    },
    /// No kind of the table.
    #[error("unknown kind {kind:?} in apiVersion {api_version:?}")]
    UnknownKind {
        /// `apiVersion` of the manifest.
        api_version: String,
        /// `kind` of the manifest.
        kind: String,
    },
    /// The spec does not fit its kind.
    #[error("spec{}: {}", path(.source), .source.inner())]
    Spec {
        /// Where and what.
        source: serde_path_to_error::Error<serde_json::Error>,
    },
}

/// `.a.b[0]`, or nothing at the top.
fn path(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    match error.path().to_string() {
        top if top == "." => String::new(),
        inner => format!(".{inner}"),
    }
}

impl Config {
    /// Builds a config.
    pub fn new(meta: Meta, spec: impl Into<Spec>) -> Self {
        Self {
            meta,
            spec: spec.into(),
        }
    }

    /// Kind of the object.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.spec.kind()
    }

    /// Identity of the object.
    #[must_use]
    pub fn key(&self) -> ConfigKey {
        ConfigKey {
            kind: self.kind(),
            namespace: Arc::clone(&self.meta.namespace),
            name: Arc::clone(&self.meta.name),
        }
    }

    /// The object as a Kubernetes manifest.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut metadata = Map::new();
        metadata.insert("name".into(), json!(*self.meta.name));
        if !self.meta.namespace.is_empty() {
            metadata.insert("namespace".into(), json!(*self.meta.namespace));
        }
        for (field, map) in [
            ("labels", &self.meta.labels),
            ("annotations", &self.meta.annotations),
        ] {
            if !map.is_empty() {
                metadata.insert(field.into(), json!(map));
            }
        }
        if let Some(time) = self
            .meta
            .created
            .and_then(|seconds| DateTime::from_timestamp(seconds, 0))
        {
            let text = time.to_rfc3339_opts(SecondsFormat::Secs, true);
            metadata.insert("creationTimestamp".into(), Value::String(text));
        }
        json!({
            "apiVersion": self.kind().api_version(),
            "kind": self.kind().name(),
            "metadata": metadata,
            "spec": self.spec.to_json(),
        })
    }

    /// The object as a YAML manifest.
    ///
    /// # Errors
    /// When the object cannot be printed, which does not happen for values that came from a message.
    pub fn to_yaml(&self) -> Result<String, ConfigError> {
        Ok(serde_yaml::to_string(&self.to_json())?)
    }

    /// Reads a manifest. A missing namespace reads as empty.
    ///
    /// # Errors
    /// When the manifest is of no known kind or its content does not fit the kind.
    pub fn from_json(manifest: &Value) -> Result<Self, ConfigError> {
        let kind = manifest_kind(manifest)?;
        let metadata = &manifest["metadata"];
        let name = metadata["name"].as_str().filter(|name| !name.is_empty());
        let name = name.ok_or(ConfigError::Field {
            field: "metadata.name",
            want: "a string",
        })?;
        let namespace =
            optional(&metadata["namespace"], Value::as_str).ok_or(ConfigError::Field {
                field: "metadata.namespace",
                want: "a string",
            })?;
        let meta = Meta {
            namespace: namespace.unwrap_or_default().into(),
            name: name.into(),
            labels: string_map(&metadata["labels"], "metadata.labels")?,
            annotations: string_map(&metadata["annotations"], "metadata.annotations")?,
            created: timestamp(&metadata["creationTimestamp"])?,
            extra: None,
        };
        let spec = Spec::from_json(kind, &manifest["spec"])?;
        Ok(Self { meta, spec })
    }

    /// Reads a manifest in YAML (one document).
    ///
    /// # Errors
    /// As [`Config::from_json`], and when the text is no YAML.
    pub fn from_yaml(text: &str) -> Result<Self, ConfigError> {
        Self::from_json(&serde_yaml::from_str(text)?)
    }
}

impl Spec {
    /// The message in protobuf-JSON form.
    #[must_use]
    pub fn to_json(&self) -> Value {
        // Fails for an enum number without a name only; such a message came from a newer peer.
        self.serialize(serde_json::value::Serializer)
            .unwrap_or_else(|error| json!({ "error": error.to_string() }))
    }

    /// Reads the protobuf-JSON form; null reads as absent, unknown fields are skipped.
    ///
    /// # Errors
    /// When a field does not fit; the message names the path.
    pub fn from_json(kind: Kind, spec: &Value) -> Result<Self, ConfigError> {
        let spec = match spec {
            Value::Null => json!({}),
            other => without_nulls(other),
        };
        let mut track = serde_path_to_error::Track::new();
        let tracked = serde_path_to_error::Deserializer::new(spec, &mut track);
        Self::deserialize(kind, tracked).map_err(|error| ConfigError::Spec {
            source: serde_path_to_error::Error::new(track.path(), error),
        })
    }
}

fn manifest_kind(manifest: &Value) -> Result<Kind, ConfigError> {
    let text = |field: &'static str| {
        manifest[field].as_str().ok_or(ConfigError::Field {
            field,
            want: "a string",
        })
    };
    let (api_version, name) = (text("apiVersion")?, text("kind")?);
    api_version
        .split_once('/')
        .and_then(|(group, version)| Kind::from_gvk(group, version, name))
        .ok_or_else(|| ConfigError::UnknownKind {
            api_version: api_version.to_owned(),
            kind: name.to_owned(),
        })
}

/// `Some(None)` for null, `None` when `read` refuses the value.
fn optional<'a, T>(value: &'a Value, read: impl Fn(&'a Value) -> Option<T>) -> Option<Option<T>> {
    match value {
        Value::Null => Some(None),
        other => read(other).map(Some),
    }
}

fn string_map(value: &Value, field: &'static str) -> Result<StringMap, ConfigError> {
    let want = "a map of strings";
    let map = optional(value, Value::as_object).ok_or(ConfigError::Field { field, want })?;
    map.into_iter()
        .flatten()
        .map(|(key, value)| {
            let value = value.as_str().ok_or(ConfigError::Field { field, want })?;
            Ok((key.clone(), value.to_owned()))
        })
        .collect()
}

fn timestamp(value: &Value) -> Result<Option<i64>, ConfigError> {
    let parse = |value: &Value| {
        let time = DateTime::parse_from_rfc3339(value.as_str()?).ok()?;
        Some(time.timestamp())
    };
    optional(value, parse).ok_or(ConfigError::Field {
        field: "metadata.creationTimestamp",
        want: "an RFC 3339 time",
    })
}

/// Fields that hold free JSON, where null is a value of its own.
const FREE_JSON: [&str; 3] = ["value", "pluginConfig", "plugin_config"];

/// Protobuf-JSON reads null as "not set"; the generated codec wants such fields left out.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, member)| !member.is_null())
                .map(|(key, member)| {
                    let keep = FREE_JSON.contains(&key.as_str());
                    let member = if keep {
                        member.clone()
                    } else {
                        without_nulls(member)
                    };
                    (key.clone(), member)
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
