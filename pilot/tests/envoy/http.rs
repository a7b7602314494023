//! HTTP by hand: a client that sends exactly what it is told, and a backend that echoes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A response, header names in lower case.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// Value of a response header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

/// Sends one request; status 0 when there is no answer.
pub fn get(address: SocketAddr, host: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    request(address, "GET", host, path, headers)
}

/// Sends one request with any method.
pub fn request(
    address: SocketAddr,
    method: &str,
    host: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let none = Answer {
        status: 0,
        head: String::new(),
        body: String::new(),
    };
    let Ok(mut stream) = TcpStream::connect(address) else {
        return none;
    };
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    exchange(&mut stream, &head(method, host, path, headers)).unwrap_or(none)
}

/// The request as text.
pub fn head(method: &str, host: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text + "\r\n"
}

/// Sends a request over any stream and reads the answer, which has a length.
pub fn exchange(stream: &mut (impl Read + Write), request: &str) -> Option<Answer> {
    stream.write_all(request.as_bytes()).ok()?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(answer) = parse(&String::from_utf8_lossy(&bytes)) {
            return Some(answer);
        }
        match stream.read(&mut buffer) {
            Ok(n) if n > 0 => bytes.extend_from_slice(&buffer[..n]),
            _ => return None,
        }
    }
}

/// `None` until the answer is complete.
fn parse(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let answer = Answer {
        status: head.split(' ').nth(1)?.parse().ok()?,
        head: head.to_owned(),
        body: body.to_owned(),
    };
    let length: usize = answer.header("content-length")?.parse().ok()?;
    (body.len() >= length).then_some(answer)
}

/// Starts a backend that answers every request with its name and the request head.
pub fn backend(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(name, stream));
        }
    });
    address
}

/// Starts a backend that answers every request with a status.
pub fn failing_backend(status: u16) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve_with("failing", status, stream));
        }
    });
    address
}

/// Answers every request on a stream.
pub fn serve(name: &str, stream: impl Read + Write) {
    serve_with(name, 200, stream);
}

fn serve_with(name: &str, status: u16, mut stream: impl Read + Write) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        while let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head: Vec<u8> = bytes.drain(..end + 4).collect();
            let body = format!("backend: {name}\n{}", String::from_utf8_lossy(&head));
            let len = body.len();
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {len}\r\n\r\n{body}");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
        match stream.read(&mut buffer) {
            Ok(n) if n > 0 => bytes.extend_from_slice(&buffer[..n]),
            _ => return,
        }
    }
}
