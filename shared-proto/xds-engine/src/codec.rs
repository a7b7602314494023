//! Writes responses to the wire from the bytes that their resources already have.

use bytes::BufMut;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use tonic::Status;
use tonic::codec::{Codec, EncodeBuf, Encoder};
use tonic_prost::ProstCodec;

use crate::session::{Protocol, Response};

/// Decodes requests of type `Request` and encodes [`Response`]s of one protocol.
#[derive(Debug)]
pub(crate) struct AdsCodec<Request> {
    protocol: Protocol,
    request: std::marker::PhantomData<fn() -> Request>,
}

impl<Request> AdsCodec<Request> {
    pub(crate) fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            request: std::marker::PhantomData,
        }
    }
}

impl<Request: prost::Message + Default + Send + 'static> Codec for AdsCodec<Request> {
    type Encode = Response;
    type Decode = Request;
    type Encoder = ResponseEncoder;
    type Decoder = <ProstCodec<Request, Request> as Codec>::Decoder;

    fn encoder(&mut self) -> Self::Encoder {
        ResponseEncoder(self.protocol)
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<Request, Request>::default().decoder()
    }
}

#[derive(Debug)]
pub(crate) struct ResponseEncoder(Protocol);

impl Encoder for ResponseEncoder {
    type Item = Response;
    type Error = Status;

    fn encode(&mut self, response: Response, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        encode_response(&response, self.0, buf);
        Ok(())
    }
}

fn put(number: u32, bytes: &[u8], buf: &mut impl BufMut) {
    encode_key(number, WireType::LengthDelimited, buf);
    encode_varint(bytes.len() as u64, buf);
    buf.put_slice(bytes);
}

fn field_len(number: u32, len: usize) -> usize {
    key_len(number) + encoded_len_varint(len as u64) + len
}

/// Field numbers: `envoy/service/discovery/v3/discovery.proto`.
pub(crate) fn encode_response(response: &Response, protocol: Protocol, buf: &mut impl BufMut) {
    put(1, response.nonce.as_bytes(), buf);
    for (name, resource) in &response.upserts {
        match protocol {
            Protocol::Sotw => put(2, resource.any(), buf),
            Protocol::Delta => {
                let version = resource.version().to_string();
                let len = field_len(1, version.len())
                    + field_len(2, resource.any().len())
                    + field_len(3, name.len());
                encode_key(2, WireType::LengthDelimited, buf);
                encode_varint(len as u64, buf);
                put(1, version.as_bytes(), buf);
                put(2, resource.any(), buf);
                put(3, name.as_bytes(), buf);
            }
        }
    }
    put(4, response.type_url.as_bytes(), buf);
    put(5, response.nonce.as_bytes(), buf);
    if protocol == Protocol::Delta {
        for name in &response.removed {
            put(6, name.as_bytes(), buf);
        }
    }
}

/// Size of a response on the wire, in bytes, without its constant parts.
pub(crate) fn encoded_size(response: &Response) -> usize {
    let upserts = response
        .upserts
        .iter()
        .map(|(name, resource)| name.len() + resource.any().len());
    upserts.sum::<usize>()
        + response
            .removed
            .iter()
            .map(|name| name.len())
            .sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::{Any, DeltaDiscoveryResponse, DiscoveryResponse};
    use crate::resource::Resource;
    use prost::Message;

    fn response() -> Response {
        let any = Any {
            type_url: "t/a".into(),
            value: vec![8, 1],
        };
        let mut response = Response::new("t/x".into());
        response.nonce = "7".into();
        response
            .upserts
            .push(("one".into(), Resource::encode("t/any", &any)));
        response.removed.push("two".into());
        response
    }

    #[test]
    fn delta_reads_back() {
        let mut buf = Vec::new();
        encode_response(&response(), Protocol::Delta, &mut buf);
        let read = DeltaDiscoveryResponse::decode(&*buf).unwrap();
        assert_eq!((read.nonce.as_str(), read.type_url.as_str()), ("7", "t/x"));
        assert_eq!(read.resources[0].name, "one");
        assert_eq!(
            read.resources[0].version,
            response().upserts[0].1.version().to_string()
        );
        let any = read.resources[0].resource.as_ref().unwrap();
        assert_eq!(any.type_url, "t/any");
        assert_eq!(Any::decode(&*any.value).unwrap().type_url, "t/a");
        assert_eq!(read.removed_resources, ["two"]);
    }

    #[test]
    fn state_of_the_world_reads_back() {
        let mut buf = Vec::new();
        encode_response(&response(), Protocol::Sotw, &mut buf);
        let read = DiscoveryResponse::decode(&*buf).unwrap();
        assert_eq!(
            (read.version_info.as_str(), read.nonce.as_str()),
            ("7", "7")
        );
        assert_eq!(read.resources[0].type_url, "t/any");
    }
}
