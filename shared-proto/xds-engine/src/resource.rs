//! A resource as it is kept and sent: encoded once, versioned by its content.

use std::fmt;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

/// Name of a resource within its type. Shared between maps and sessions.
pub type Name = Arc<str>;

/// All resources of one type that a client may see, by name.
///
/// Persistent: a clone costs nothing, and comparing two maps visits only what they do not share.
pub type ResourceMap = imbl::OrdMap<Name, Arc<Resource>>;

/// Content hash of a resource; equal bytes have equal versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// The version of these encoded bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_64(bytes))
    }

    /// Reads the wire form back; `None` for text that this engine never sent.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 16 {
            return None;
        }
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One encoded resource: a `google.protobuf.Any` in wire form, with the version of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    version: Version,
    any: Bytes,
}

impl Resource {
    /// Encodes `body` as an `Any` of type `type_url`.
    pub fn encode(type_url: &str, body: &impl prost::Message) -> Arc<Self> {
        Self::from_encoded(type_url, &body.encode_to_vec())
    }

    /// Wraps an already encoded message as an `Any` of type `type_url`.
    pub fn from_encoded(type_url: &str, value: &[u8]) -> Arc<Self> {
        let field =
            |number: u32, len: usize| key_len(number) + encoded_len_varint(len as u64) + len;
        let mut any = BytesMut::with_capacity(field(1, type_url.len()) + field(2, value.len()));
        for (number, bytes) in [(1, type_url.as_bytes()), (2, value)] {
            if !bytes.is_empty() {
                encode_key(number, WireType::LengthDelimited, &mut any);
                encode_varint(bytes.len() as u64, &mut any);
                any.put_slice(bytes);
            }
        }
        Arc::new(Self {
            version: Version::of(value),
            any: any.freeze(),
        })
    }

    /// Hash of the encoded message.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The `google.protobuf.Any`, encoded.
    pub fn any(&self) -> &Bytes {
        &self.any
    }

    /// The type URL and the encoded message inside the `Any`.
    pub fn parts(&self) -> Result<(String, Vec<u8>), prost::DecodeError> {
        let any = <crate::discovery::Any as prost::Message>::decode(self.any.as_ref())?;
        Ok((any.type_url, any.value))
    }
}
