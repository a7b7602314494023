//! The envelope of a config on the wire: `istio.mcp.v1alpha1.Resource`.
//!
//! Besides the published fields the envelope may carry free data in field 100, which Higress's peers write and read.

use std::sync::Arc;

use bytes::Bytes;
use pbjson_types::{Any, Timestamp};
use prost::{Message, Name};

pub use crate::istio::mcp::v1alpha1;

use crate::config::{Config, Meta, StringMap};
use crate::kinds::{Kind, Spec};

/// Type URL of the envelope inside a discovery response.
pub const RESOURCE_TYPE_URL: &str = "type.googleapis.com/istio.mcp.v1alpha1.Resource";

/// Seconds of Go's zero time, year 1: peers write it for objects without a creation time.
const NO_TIME: i64 = -62_135_596_800;

/// `istio.mcp.v1alpha1.Resource` with field 100.
#[derive(Clone, PartialEq, Message)]
pub struct Envelope {
    /// Identity; its name is `namespace/name`.
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<v1alpha1::Metadata>,
    /// The encoded spec with its type URL.
    #[prost(message, optional, tag = "2")]
    pub body: Option<Any>,
    /// Free data (JSON) outside of the published message.
    #[prost(bytes = "bytes", optional, tag = "100")]
    pub extra: Option<Bytes>,
}

impl Name for Envelope {
    const NAME: &'static str = "Resource";
    const PACKAGE: &'static str = "istio.mcp.v1alpha1";

    fn type_url() -> String {
        RESOURCE_TYPE_URL.to_owned()
    }
}

/// A config as it came over the wire, with the spec still encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpResource {
    /// Namespace of the object.
    pub namespace: Arc<str>,
    /// Name within the namespace.
    pub name: Arc<str>,
    /// Creation time in seconds since the Unix epoch, if known.
    pub created: Option<i64>,
    /// Version given by the sender; empty when it gives none.
    pub version: String,
    /// Labels of the object.
    pub labels: StringMap,
    /// Annotations of the object.
    pub annotations: StringMap,
    /// Type URL of `body`.
    pub body_type_url: String,
    /// The encoded spec.
    pub body: Bytes,
    /// Free data of field 100.
    pub extra: Option<Bytes>,
}

/// Why bytes are no usable envelope.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// The envelope or the spec is no protobuf message of its type.
    #[error("{what}: {source}")]
    Decode {
        /// Which part.
        what: &'static str,
        /// Why.
        source: prost::DecodeError,
    },
    /// A part is missing.
    #[error("no {0} in the envelope")]
    Missing(&'static str),
    /// The name is not `namespace/name`.
    #[error("resource name {0:?} is not namespace/name")]
    Name(String),
    /// The body is of a type that is no config.
    #[error("unknown body type {0:?}")]
    UnknownType(String),
}

/// Resource name of a config: `namespace/name`.
#[must_use]
pub fn resource_name(meta: &Meta) -> String {
    format!("{}/{}", meta.namespace, meta.name)
}

/// The envelope of a config, ready to be encoded.
#[must_use]
pub fn envelope(config: &Config) -> Envelope {
    let meta = &config.meta;
    Envelope {
        metadata: Some(v1alpha1::Metadata {
            name: resource_name(meta),
            create_time: Some(Timestamp {
                seconds: meta.created.unwrap_or(NO_TIME),
                nanos: 0,
            }),
            version: String::new(),
            labels: meta.labels.clone(),
            annotations: meta.annotations.clone(),
        }),
        body: Some(Any {
            type_url: config.kind().body_type_url(),
            value: config.spec.encode(),
        }),
        extra: meta.extra.clone(),
    }
}

/// Resource name and encoded envelope of a config. Equal configs give equal bytes.
#[must_use]
pub fn encode(config: &Config) -> (String, Bytes) {
    let bytes = envelope(config).encode_to_vec();
    (resource_name(&config.meta), bytes.into())
}

/// Reads an encoded envelope; the spec stays encoded and shares the buffer.
///
/// # Errors
/// When the bytes are no envelope, or one without a proper name or a body.
pub fn decode(bytes: Bytes) -> Result<McpResource, McpError> {
    let what = "envelope";
    let envelope = Envelope::decode(bytes).map_err(|source| McpError::Decode { what, source })?;
    let metadata = envelope.metadata.ok_or(McpError::Missing("metadata"))?;
    let body = envelope.body.ok_or(McpError::Missing("body"))?;
    let (namespace, name) = split_name(&metadata.name)?;
    Ok(McpResource {
        namespace: namespace.into(),
        name: name.into(),
        created: metadata
            .create_time
            .map(|time| time.seconds)
            .filter(|&seconds| seconds != NO_TIME),
        version: metadata.version,
        labels: metadata.labels,
        annotations: metadata.annotations,
        body_type_url: body.type_url,
        body: body.value,
        extra: envelope.extra,
    })
}

fn split_name(full: &str) -> Result<(&str, &str), McpError> {
    full.split_once('/')
        .filter(|(_, name)| !name.is_empty() && !name.contains('/'))
        .ok_or_else(|| McpError::Name(full.to_owned()))
}

impl McpResource {
    /// Kind of the body, if it is a config.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        Kind::from_body_type_url(&self.body_type_url)
    }

    /// Decodes the spec.
    ///
    /// # Errors
    /// When the body is of an unknown type or no message of that type.
    pub fn spec(&self) -> Result<Spec, McpError> {
        let unknown = || McpError::UnknownType(self.body_type_url.clone());
        let kind = self.kind().ok_or_else(unknown)?;
        Spec::decode(kind, self.body.clone()).map_err(|source| McpError::Decode {
            what: kind.name(),
            source,
        })
    }

    /// Decodes the whole config.
    ///
    /// # Errors
    /// As [`McpResource::spec`].
    pub fn to_config(&self) -> Result<Config, McpError> {
        let meta = Meta {
            namespace: Arc::clone(&self.namespace),
            name: Arc::clone(&self.name),
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            created: self.created,
            extra: self.extra.clone(),
        };
        Ok(Config {
            meta,
            spec: self.spec()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::networking::v1alpha3::Gateway;

    fn config() -> Config {
        let mut meta = Meta::new("shop", "web");
        meta.labels.insert("a".into(), "b".into());
        meta.annotations.insert("c".into(), "d".into());
        let selector = [("higress".to_owned(), "gateway".to_owned())].into();
        let gateway = Gateway {
            selector,
            ..Gateway::default()
        };
        Config::new(meta, gateway)
    }

    #[test]
    fn round_trip_without_time_and_extra() {
        let config = config();
        let (name, bytes) = encode(&config);
        assert_eq!(name, "shop/web");
        let published = v1alpha1::Resource::decode(bytes.clone()).unwrap();
        let time = published.metadata.unwrap().create_time.unwrap();
        assert_eq!((time.seconds, time.nanos), (NO_TIME, 0));
        let resource = decode(bytes).unwrap();
        assert_eq!(resource.kind(), Some(Kind::Gateway));
        assert_eq!(resource.created, None);
        assert_eq!(resource.extra, None);
        assert_eq!(resource.to_config().unwrap(), config);
    }

    #[test]
    fn round_trip_with_time_and_extra() {
        let mut config = config();
        config.meta.created = Some(1_700_000_000);
        config.meta.extra = Some(Bytes::from_static(br#"{"k":1}"#));
        let (_, bytes) = encode(&config);
        // Field 100, length-delimited: key (100 << 3 | 2) as a varint.
        let tail = [&[0xa2, 0x06, 7][..], br#"{"k":1}"#].concat();
        assert!(bytes.ends_with(&tail));
        assert!(v1alpha1::Resource::decode(bytes.clone()).is_ok());
        assert_eq!(decode(bytes).unwrap().to_config().unwrap(), config);
    }

    #[test]
    fn epoch_is_a_time() {
        let mut config = config();
        config.meta.created = Some(0);
        assert_eq!(decode(encode(&config).1).unwrap().created, Some(0));
    }

    #[test]
    fn bad_envelopes_are_refused() {
        for name in ["", "web", "a/b/c", "a/"] {
            let mut envelope = envelope(&config());
            envelope.metadata.as_mut().unwrap().name = name.into();
            let error = decode(envelope.encode_to_vec().into()).unwrap_err();
            assert!(matches!(error, McpError::Name(_)), "{name}");
        }
        assert!(decode(Bytes::from_static(b"\xff")).is_err());
        assert!(matches!(decode(Bytes::new()), Err(McpError::Missing(_))));
        let mut unknown = envelope(&config());
        unknown.body.as_mut().unwrap().type_url = "type.googleapis.com/x.Y".into();
        let resource = decode(unknown.encode_to_vec().into()).unwrap();
        assert!(matches!(
            resource.to_config(),
            Err(McpError::UnknownType(_))
        ));
    }
}
