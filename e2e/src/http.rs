//! HTTP/1.1 client that sends exactly the bytes it is given and reads one answer.
//!
//! Requests are not normalised: paths, header names and header lines reach the gateway as the case wrote them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::tls::{self, TlsOptions};

/// How long one exchange may take.
const LIMIT: Duration = Duration::from_secs(20);
/// Longest answer that is read.
const MAX_ANSWER: usize = 16 << 20;
/// Most header lines of an answer.
const MAX_HEADERS: usize = 128;

/// Where a request goes, and how.
#[derive(Debug, Clone)]
pub struct Target {
    /// Address of the gateway.
    pub address: SocketAddr,
    /// Address that the connection comes from.
    pub source: Option<IpAddr>,
    /// TLS; `None` = plain text.
    pub tls: Option<TlsOptions>,
}

impl Target {
    /// Plain text to `address`.
    pub fn plain(address: SocketAddr) -> Self {
        Self {
            address,
            source: None,
            tls: None,
        }
    }

    /// TLS to `address` with a server name.
    pub fn tls(address: SocketAddr, server_name: &str) -> Self {
        let tls = TlsOptions {
            server_name: Some(server_name.to_owned()),
            ..TlsOptions::default()
        };
        Self {
            address,
            source: None,
            tls: Some(tls),
        }
    }

    /// Opens the TCP connection.
    ///
    /// # Errors
    /// The source address cannot be bound or the connection is refused.
    pub async fn connect(&self) -> Result<TcpStream> {
        let socket = if self.address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        if let Some(source) = self.source {
            socket
                .bind(SocketAddr::new(source, 0))
                .with_context(|| format!("cannot bind {source}"))?;
        }
        let stream = socket.connect(self.address).await;
        let stream = stream.with_context(|| format!("cannot connect to {}", self.address))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// An HTTP answer.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Header lines in order; names as sent.
    pub headers: Vec<(String, String)>,
    /// Body without transfer coding.
    pub body: Vec<u8>,
    /// The server's certificate (DER) when the exchange used TLS.
    pub certificate: Option<Vec<u8>>,
}

impl Answer {
    /// Value of a header, its lines joined with `,`.
    pub fn header(&self, name: &str) -> Option<String> {
        let lines = self
            .headers
            .iter()
            .filter(|(line, _)| line.eq_ignore_ascii_case(name));
        let values: Vec<&str> = lines.map(|(_, value)| value.as_str()).collect();
        (!values.is_empty()).then(|| values.join(","))
    }

    /// Body as text; bytes that are no UTF-8 are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// One request as bytes.
#[derive(Debug, Clone)]
pub struct Exchange {
    request: Vec<u8>,
}

impl Exchange {
    /// A request that is sent as it is.
    pub fn new(request: Vec<u8>) -> Self {
        Self { request }
    }

    /// A request from its parts; a `content-length` is added when there is a body or the method usually has one.
    pub fn build<'a>(
        method: &str,
        path: &str,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
        body: Option<&str>,
    ) -> Self {
        let mut request = format!("{method} {path} HTTP/1.1\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if body.is_some() || matches!(method, "POST" | "PUT" | "PATCH") {
            request.push_str(&format!("content-length: {}\r\n", body.map_or(0, str::len)));
        }
        request.push_str("\r\n");
        request.push_str(body.unwrap_or_default());
        Self {
            request: request.into_bytes(),
        }
    }

    /// `GET path` for `host`.
    pub fn get(host: &str, path: &str) -> Self {
        Self::build("GET", path, [("Host", host)], None)
    }

    /// Sends the request over a connection of its own.
    ///
    /// # Errors
    /// No complete HTTP answer comes: connection, handshake or protocol error, or time out.
    pub async fn send(&self, target: &Target) -> Result<Answer> {
        tokio::time::timeout(LIMIT, self.send_unbounded(target))
            .await
            .with_context(|| format!("no answer within {LIMIT:?}"))?
    }

    async fn send_unbounded(&self, target: &Target) -> Result<Answer> {
        let mut stream = target.connect().await?;
        let Some(options) = &target.tls else {
            return self.send_over(&mut stream).await;
        };
        let mut stream = tls::handshake(stream, options)
            .await
            .context("TLS handshake failed")?;
        let certificate = tls::server_certificate(&stream);
        let answer = self.send_over(&mut stream).await?;
        Ok(Answer {
            certificate,
            ..answer
        })
    }

    /// Sends the request over an open connection, which can be used again afterwards.
    ///
    /// # Errors
    /// No complete HTTP answer comes.
    pub async fn send_over<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
    ) -> Result<Answer> {
        stream.write_all(&self.request).await?;
        stream.flush().await?;
        let no_body = self.request.starts_with(b"HEAD ");
        let mut reader = Reader {
            stream,
            buffer: Vec::new(),
        };
        loop {
            let answer = reader.head().await?;
            // An interim answer (but for a protocol switch) precedes the real one.
            if answer.status >= 200 || answer.status == 101 {
                return reader.body(answer, no_body).await;
            }
        }
    }
}

struct Reader<'s, S> {
    stream: &'s mut S,
    buffer: Vec<u8>,
}

impl<S: AsyncRead + Unpin> Reader<'_, S> {
    /// Reads more bytes; false at the end of the stream.
    async fn fill(&mut self) -> Result<bool> {
        if self.buffer.len() > MAX_ANSWER {
            bail!("answer longer than {MAX_ANSWER} bytes");
        }
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }

    async fn head(&mut self) -> Result<Answer> {
        loop {
            let mut lines = [httparse::EMPTY_HEADER; MAX_HEADERS];
            let mut response = httparse::Response::new(&mut lines);
            if let httparse::Status::Complete(length) = response.parse(&self.buffer)? {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let answer = Answer {
                    status: response.code.unwrap_or_default(),
                    headers: response
                        .headers
                        .iter()
                        .map(|line| (line.name.to_owned(), text(line.value)))
                        .collect(),
                    ..Answer::default()
                };
                self.buffer.drain(..length);
                return Ok(answer);
            }
            if !self.fill().await? {
                bail!("connection closed before an answer came");
            }
        }
    }

    async fn body(mut self, mut answer: Answer, no_body: bool) -> Result<Answer> {
        let chunked = answer
            .header("transfer-encoding")
            .is_some_and(|coding| coding.contains("chunked"));
        answer.body = if no_body || matches!(answer.status, 101 | 204 | 304) {
            Vec::new()
        } else if chunked {
            self.chunks().await?
        } else if let Some(length) = answer.header("content-length") {
            let length = length
                .parse()
                .with_context(|| format!("content-length {length:?}"))?;
            self.take(length).await?
        } else {
            while self.fill().await? {}
            self.buffer
        };
        Ok(answer)
    }

    async fn chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            match httparse::parse_chunk_size(&self.buffer) {
                Ok(httparse::Status::Complete((line, size))) => {
                    self.take(line).await?;
                    body.extend(self.take(usize::try_from(size)?).await?);
                    self.take(2).await?;
                    if size == 0 {
                        return Ok(body);
                    }
                }
                Ok(httparse::Status::Partial) if self.fill().await? => {}
                _ => bail!("broken chunk in the answer"),
            }
        }
    }

    async fn take(&mut self, length: usize) -> Result<Vec<u8>> {
        while self.buffer.len() < length {
            if !self.fill().await? {
                bail!("connection closed within the body");
            }
        }
        Ok(self.buffer.drain(..length).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(answer: &str) -> Result<Answer> {
        let (mut client, mut server) = tokio::io::duplex(1 << 16);
        server.write_all(answer.as_bytes()).await.unwrap();
        drop(tokio::spawn(async move {
            let mut sink = Vec::new();
            let _ = tokio::time::timeout(Duration::from_millis(50), server.read_to_end(&mut sink))
                .await;
        }));
        Exchange::get("h", "/").send_over(&mut client).await
    }

    #[tokio::test]
    async fn bodies() {
        let cases = [
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", 200, "hi"),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n1;x\r\n!\r\n0\r\n\r\n",
                200,
                "hi!",
            ),
            ("HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\n\r\nrest",
                404,
                "rest",
            ),
        ];
        for (text, status, body) in cases {
            let answer = read(text).await.unwrap();
            assert_eq!(
                (answer.status, answer.text().as_str()),
                (status, body),
                "{text}"
            );
        }
        for text in [
            "",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhi",
            "nonsense\r\n\r\n",
        ] {
            assert!(read(text).await.is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn header_lines_are_joined() {
        let answer = read("HTTP/1.1 204 OK\r\nX-A: 1\r\nx-a: 2\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(answer.header("x-A").as_deref(), Some("1,2"));
        assert_eq!(answer.header("x-b"), None);
    }
}
