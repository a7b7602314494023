//! Writes responses to the wire from the bytes that their resources already have, piece by piece.
//!
//! A response to a client with ten thousand routes is megabytes. It is never put together: the transport asks for the
//! next piece when it has sent the last one, so that a client costs a piece and not a response.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use http_body::{Body, Frame};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use tonic::Status;
use tonic::codegen::http::HeaderMap;

use crate::resource::{Name, Resource};
use crate::session::{Protocol, Response};

/// Size of a piece, in bytes; one resource more than that still goes in one.
const PIECE: usize = 32 << 10;
/// gRPC's prefix of a message: a flag for compression and the length.
const PREFIX: usize = 5;

pub(crate) type ResponseStream = Pin<Box<dyn Stream<Item = Result<Response, Status>> + Send>>;

/// The HTTP body of a stream of responses, with the gRPC status as trailers.
pub(crate) struct ResponseBody {
    responses: ResponseStream,
    protocol: Protocol,
    writing: Option<Writer>,
    ended: bool,
}

impl ResponseBody {
    pub(crate) fn new(responses: ResponseStream, protocol: Protocol) -> Self {
        Self {
            responses,
            protocol,
            writing: None,
            ended: false,
        }
    }

    fn end(&mut self, status: &Status) -> Frame<Bytes> {
        self.ended = true;
        let mut trailers = HeaderMap::new();
        if status.add_header(&mut trailers).is_err() {
            // The message has bytes that no header can carry: the code alone says enough.
            let _ = Status::new(status.code(), "").add_header(&mut trailers);
        }
        Frame::trailers(trailers)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if let Some(piece) = self.writing.as_mut().and_then(Writer::next_piece) {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            self.writing = None;
            if self.ended {
                return Poll::Ready(None);
            }
            match ready!(self.responses.as_mut().poll_next(context)) {
                Some(Ok(response)) => self.writing = Some(Writer::new(response, self.protocol)),
                Some(Err(status)) => return Poll::Ready(Some(Ok(self.end(&status)))),
                None => return Poll::Ready(Some(Ok(self.end(&Status::ok(""))))),
            }
        }
    }
}

/// A response on its way. Field numbers: `envoy/service/discovery/v3/discovery.proto`.
pub(crate) struct Writer {
    response: Response,
    protocol: Protocol,
    /// Number of upserts that are written; `None` before the first piece.
    written: Option<usize>,
    done: bool,
}

impl Writer {
    pub(crate) fn new(response: Response, protocol: Protocol) -> Self {
        Self {
            response,
            protocol,
            written: None,
            done: false,
        }
    }

    pub(crate) fn next_piece(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let mut piece = BytesMut::with_capacity(PIECE.min(self.message_len() + PREFIX));
        if self.written.is_none() {
            piece.put_u8(0);
            // gRPC has no larger messages than this number can tell.
            piece.put_u32(u32::try_from(self.message_len()).unwrap_or(u32::MAX));
            put(1, self.response.nonce.as_bytes(), &mut piece);
        }
        let mut at = self.written.unwrap_or(0);
        while let Some((name, resource)) = self.response.upserts.get(at) {
            if !piece.is_empty() && piece.len() + resource.any().len() > PIECE {
                self.written = Some(at);
                return Some(piece.freeze());
            }
            put_upsert(name, resource, self.protocol, &mut piece);
            at += 1;
        }
        put(4, self.response.type_url.as_bytes(), &mut piece);
        put(5, self.response.nonce.as_bytes(), &mut piece);
        for name in self.removed() {
            put(6, name.as_bytes(), &mut piece);
        }
        self.done = true;
        Some(piece.freeze())
    }

    fn removed(&self) -> &[Name] {
        match self.protocol {
            Protocol::Delta => &self.response.removed,
            Protocol::Sotw => &[],
        }
    }

    fn message_len(&self) -> usize {
        let Response {
            type_url,
            nonce,
            upserts,
            ..
        } = &self.response;
        let upserts = upserts
            .iter()
            .map(|(name, resource)| field_len(2, upsert_len(name, resource, self.protocol)));
        let removed = self.removed().iter().map(|name| field_len(6, name.len()));
        field_len(1, nonce.len())
            + upserts.sum::<usize>()
            + field_len(4, type_url.len())
            + field_len(5, nonce.len())
            + removed.sum::<usize>()
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

/// Length of a version in wire form.
const VERSION_LEN: usize = 16;

fn upsert_len(name: &str, resource: &Resource, protocol: Protocol) -> usize {
    match protocol {
        Protocol::Sotw => resource.any().len(),
        Protocol::Delta => {
            field_len(1, VERSION_LEN)
                + field_len(2, resource.any().len())
                + field_len(3, name.len())
        }
    }
}

fn put_upsert(name: &str, resource: &Resource, protocol: Protocol, buf: &mut impl BufMut) {
    if protocol == Protocol::Sotw {
        put(2, resource.any(), buf);
        return;
    }
    encode_key(2, WireType::LengthDelimited, buf);
    encode_varint(upsert_len(name, resource, protocol) as u64, buf);
    put(1, resource.version().to_string().as_bytes(), buf);
    put(2, resource.any(), buf);
    put(3, name.as_bytes(), buf);
}

/// Size of the resources of a response, in bytes.
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

    fn response(resources: usize) -> Response {
        let mut response = Response::new("t/x".into());
        response.nonce = "7".into();
        for n in 0..resources {
            let any = Any {
                type_url: "t/a".into(),
                value: vec![1; 100 + 1000 * (n % 50)],
            };
            let resource = Resource::encode("t/any", &any);
            response.upserts.push((format!("n{n}").into(), resource));
        }
        response.removed.push("two".into());
        response
    }

    /// The pieces, and the message without its prefix.
    fn written(resources: usize, protocol: Protocol) -> (Vec<usize>, Vec<u8>) {
        let mut writer = Writer::new(response(resources), protocol);
        let pieces: Vec<Bytes> = std::iter::from_fn(|| writer.next_piece()).collect();
        let all = pieces.concat();
        assert_eq!(all[0], 0);
        let told = u32::from_be_bytes(all[1..PREFIX].try_into().unwrap()) as usize;
        assert_eq!(told, all.len() - PREFIX);
        (
            pieces.iter().map(Bytes::len).collect(),
            all[PREFIX..].to_vec(),
        )
    }

    #[test]
    fn delta_reads_back_whatever_its_size() {
        for count in [0, 1, 3, 200] {
            let (pieces, message) = written(count, Protocol::Delta);
            assert!(pieces.iter().all(|len| *len < PIECE + 60_000), "{pieces:?}");
            let read = DeltaDiscoveryResponse::decode(&*message).unwrap();
            assert_eq!((read.nonce.as_str(), read.type_url.as_str()), ("7", "t/x"));
            assert_eq!(read.resources.len(), count);
            for (resource, (name, sent)) in read.resources.iter().zip(&response(count).upserts) {
                assert_eq!(resource.name, **name);
                assert_eq!(resource.version, sent.version().to_string());
                let any = resource.resource.as_ref().unwrap();
                assert_eq!(any.type_url, "t/any");
                assert_eq!(Any::decode(&*any.value).unwrap().type_url, "t/a");
            }
            assert_eq!(read.removed_resources, ["two"]);
        }
        assert!(written(200, Protocol::Delta).0.len() > 50);
    }

    #[test]
    fn state_of_the_world_reads_back() {
        let (_, message) = written(60, Protocol::Sotw);
        let read = DiscoveryResponse::decode(&*message).unwrap();
        assert_eq!(
            (read.version_info.as_str(), read.nonce.as_str()),
            ("7", "7")
        );
        assert_eq!(read.resources.len(), 60);
        assert_eq!(read.resources[0].type_url, "t/any");
    }
}
