//! A request as the gateway sees it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// Host, without port.
    pub host: String,
    /// Path with its query.
    pub path: String,
    /// Method.
    pub method: String,
    /// It comes by HTTPS.
    pub https: bool,
    /// Headers by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// Address of the client, if it matters.
    pub client: Option<IpAddr>,
}

impl Request {
    /// A plain GET.
    pub fn get(host: &str, path: &str) -> Self {
        Self {
            host: host.to_owned(),
            path: path.to_owned(),
            method: "GET".to_owned(),
            https: false,
            headers: BTreeMap::new(),
            client: None,
        }
    }

    /// The same with a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers
            .insert(name.to_ascii_lowercase(), value.to_owned());
        self
    }

    /// The path without its query.
    pub fn plain_path(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// The query without its question mark, if there is one.
    pub fn query(&self) -> Option<&str> {
        self.path.split_once('?').map(|(_, query)| query)
    }

    /// The scheme.
    pub fn scheme(&self) -> &'static str {
        if self.https { "https" } else { "http" }
    }

    /// A header or pseudo header.
    pub fn header(&self, name: &str) -> Option<&str> {
        match name {
            ":authority" => Some(&self.host),
            ":path" => Some(&self.path),
            ":method" => Some(&self.method),
            ":scheme" => Some(self.scheme()),
            _ => {
                let value = self.headers.get(&name.to_ascii_lowercase());
                value.map(String::as_str)
            }
        }
    }

    /// A query parameter, as written.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let pairs = self.query()?.split('&');
        pairs
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .find_map(|(key, value)| (key == name).then_some(value))
    }
}

impl fmt::Display for Request {
    /// As a command line, with the client's address behind it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "curl")?;
        if self.method != "GET" {
            write!(f, " -X {}", self.method)?;
        }
        for (name, value) in &self.headers {
            write!(f, " -H '{name}: {value}'")?;
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~%".contains(c);
        let quote = if self.path.chars().all(plain) {
            ""
        } else {
            "'"
        };
        write!(
            f,
            " {quote}{}://{}{}{quote}",
            self.scheme(),
            self.host,
            self.path
        )?;
        if let Some(client) = self.client {
            write!(f, " (from {client})")?;
        }
        Ok(())
    }
}
