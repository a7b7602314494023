//! An encoded message as its fields: what is not looked at stays as it is, byte for byte.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the encoding is broken")]
pub(super) struct Malformed;

/// One field: its number, and what follows it on the wire without its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) number: u32,
    wire: WireType,
    pub(super) value: Bytes,
}

/// The fields of a message in the order of the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(Vec<Field>);

impl Fields {
    /// # Errors
    /// When the bytes are no message.
    pub(super) fn parse(message: &Bytes) -> Result<Self, Malformed> {
        let mut rest = message.clone();
        let mut fields = Vec::new();
        while rest.has_remaining() {
            let (number, wire) = decode_key(&mut rest).map_err(|_| Malformed)?;
            let length = match wire {
                WireType::Varint => varint_length(&rest),
                WireType::SixtyFourBit => 8,
                WireType::ThirtyTwoBit => 4,
                WireType::LengthDelimited => {
                    let length = decode_varint(&mut rest).map_err(|_| Malformed)?;
                    usize::try_from(length).map_err(|_| Malformed)?
                }
                WireType::StartGroup | WireType::EndGroup => usize::MAX,
            };
            if length > rest.remaining() {
                return Err(Malformed);
            }
            fields.push(Field {
                number,
                wire,
                value: rest.split_to(length),
            });
        }
        Ok(Self(fields))
    }

    /// The message again.
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        for Field {
            number,
            wire,
            value,
        } in &self.0
        {
            encode_key(*number, *wire, &mut out);
            if *wire == WireType::LengthDelimited {
                encode_varint(value.len() as u64, &mut out);
            }
            out.put_slice(value);
        }
        out.freeze()
    }

    /// All fields.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Field> {
        self.0.iter()
    }

    /// The values of a repeated field.
    pub(super) fn list(&self, number: u32) -> Vec<Bytes> {
        let of = self.0.iter().filter(|field| field.number == number);
        of.map(|field| field.value.clone()).collect()
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.0.iter().any(|field| field.number == number)
    }

    /// A message inside; one that comes in several parts is the sum of them.
    pub(super) fn message(&self, number: u32) -> Option<Bytes> {
        let mut parts = self.list(number);
        match parts.len() {
            0 | 1 => parts.pop(),
            _ => Some(parts.concat().into()),
        }
    }

    /// A text; empty when it is not there, or none.
    pub(super) fn text(&self, number: u32) -> &str {
        let last = self.0.iter().rev().find(|field| field.number == number);
        last.and_then(|field| std::str::from_utf8(&field.value).ok())
            .unwrap_or_default()
    }

    /// Replaces all values of a field that has a length, in the place of the first one.
    pub(super) fn set_list(&mut self, number: u32, values: Vec<Bytes>) {
        let place = self.0.iter().position(|field| field.number == number);
        let place = place.unwrap_or(self.0.len());
        self.remove(number);
        let fields = values.into_iter().map(|value| Field {
            number,
            wire: WireType::LengthDelimited,
            value,
        });
        self.0.splice(place..place, fields);
    }

    pub(super) fn remove(&mut self, number: u32) {
        self.0.retain(|field| field.number != number);
    }

    /// Removes what a function says.
    pub(super) fn retain(&mut self, keep: impl FnMut(&Field) -> bool) {
        self.0.retain(keep);
    }

    /// Adds a field as it was found elsewhere.
    pub(super) fn push(&mut self, field: Field) {
        self.0.push(field);
    }
}

fn varint_length(bytes: &Bytes) -> usize {
    let end = bytes.iter().position(|byte| *byte < 0x80);
    end.map_or(usize::MAX, |end| end + 1)
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::route::v3::{Route, VirtualHost};
    use proptest::prelude::*;
    use prost::Message;

    use super::*;

    fn host() -> VirtualHost {
        let route = |name: &str| Route {
            name: name.into(),
            ..Default::default()
        };
        VirtualHost {
            name: "h".into(),
            domains: vec!["a".into(), "b".into()],
            routes: vec![route("1"), route("2")],
            include_request_attempt_count: true,
            ..Default::default()
        }
    }

    #[test]
    fn lists_are_replaced_in_their_place() {
        let bytes = Bytes::from(host().encode_to_vec());
        let mut fields = Fields::parse(&bytes).unwrap();
        assert_eq!(fields.encode(), bytes);
        assert_eq!(fields.text(1), "h");
        assert_eq!(fields.list(2), ["a", "b"]);
        fields.set_list(2, vec!["c".into()]);
        let mut changed = host();
        changed.domains = vec!["c".into()];
        assert_eq!(fields.encode(), changed.encode_to_vec());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let bytes = Bytes::from(bytes);
            if let Ok(fields) = Fields::parse(&bytes) {
                // Keys and lengths may have been longer than they need to be.
                prop_assert_eq!(Fields::parse(&fields.encode()), Ok(fields));
            }
        }
    }
}
