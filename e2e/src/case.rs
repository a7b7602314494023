//! The case format: Kubernetes objects in, HTTP requests through the gateway, answers judged.
//!
//! One YAML document is one case; a file may hold several. `e2e/cases/README.md` describes every field. An unknown
//! field is an error, so that a misspelt expectation cannot pass silently.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// How often a request with `share` is sent when `repeat` is not given.
const SHARE_REPEAT: u32 = 200;

/// One acceptance case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique, one line.
    pub name: String,
    /// Where the behaviour comes from.
    #[serde(default)]
    pub source: String,
    /// Kubernetes objects as users write them, a multi-document YAML text.
    pub manifests: String,
    /// Further files of the config folder, as they are (they may be broken on purpose).
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Requests, sent one after the other.
    pub requests: Vec<Request>,
    /// Extra arguments of `controller serve`.
    #[serde(default)]
    pub controller_args: Vec<Text>,
    /// Extra arguments of `pilot serve`.
    #[serde(default)]
    pub pilot_args: Vec<Text>,
    /// The case may make the proxy refuse configuration.
    #[serde(default)]
    pub allow_rejects: bool,
    /// What is different when the objects are in an API server.
    #[serde(default)]
    pub api_server: ApiServerRule,
}

/// What is different for a case whose objects are in an API server.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApiServerRule {
    /// Objects that it does not take, as `Kind/namespace/name`, and a part of what it says then.
    pub refuses: BTreeMap<String, String>,
}

/// One request of a case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Label in the report; see [`Request::label`] for the default.
    pub name: Option<String>,
    /// HTTP method, sent as written.
    #[serde(default = "get")]
    pub method: String,
    /// Path and query, sent as written.
    #[serde(default = "root")]
    pub path: String,
    /// Request body.
    pub body: Option<Text>,
    /// Host header, with or without a port.
    #[serde(default = "localhost")]
    pub host: String,
    /// Header name to value or values, one line each.
    #[serde(default)]
    pub headers: BTreeMap<String, OneOrMany<Text>>,
    /// Plain text or TLS.
    #[serde(default)]
    pub scheme: Scheme,
    /// Server name in the TLS handshake; empty text = none; absent = the host without its port.
    pub sni: Option<String>,
    /// Certificate and key (PEM) for the TLS handshake.
    pub client_cert: Option<String>,
    /// Loopback address that the connection comes from.
    pub source: Option<std::net::IpAddr>,
    /// Object, as `Kind/namespace/name`, without which it has no meaning: an API server may not take it.
    pub needs: Option<String>,
    /// Seconds to wait before sending.
    #[serde(default)]
    pub wait: f64,
    /// How often the request is sent; see [`Request::times`].
    pub repeat: Option<u32>,
    /// Service or `ip:port` to the allowed number of answers; `expect` is not read then.
    pub share: Option<BTreeMap<String, (u64, u64)>>,
    /// What must hold for every answer.
    #[serde(default)]
    pub expect: Expect,
}

/// Transport of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// Plain text.
    #[default]
    Http,
    /// TLS.
    Https,
}

/// Expectations on an answer; all that is given must hold.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Allowed statuses.
    pub status: Option<OneOrMany<u16>>,
    /// Service that answered.
    pub backend: Option<String>,
    /// `ip:port` that answered.
    pub endpoint: Option<String>,
    /// Method as the backend saw it.
    pub method: Option<String>,
    /// Path with query as the backend saw it.
    pub path: Option<String>,
    /// Host header as the backend saw it.
    pub host: Option<String>,
    /// Request headers as the backend saw them; `None` = absent.
    #[serde(default)]
    pub headers: BTreeMap<String, Option<Text>>,
    /// Response headers as the client saw them; `None` = absent.
    #[serde(default)]
    pub response_headers: BTreeMap<String, Option<Text>>,
    /// Texts that the value of a response header contains.
    #[serde(default)]
    pub response_contains: BTreeMap<String, OneOrMany<Text>>,
    /// Exact `Location` header.
    pub location: Option<String>,
    /// Text contained in the response body.
    pub body: Option<Text>,
    /// Text contained in the server's certificate.
    pub cert: Option<String>,
    /// Service to the allowed number of requests that reached it because of this one.
    #[serde(default)]
    pub hits: BTreeMap<String, (u64, u64)>,
    /// All answers come from one endpoint.
    #[serde(default)]
    pub sticky: bool,
    /// Whether the exchange may or must fail without an HTTP answer.
    #[serde(default)]
    pub error: ErrorRule,
}

/// Whether an exchange may fail without an HTTP answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "serde_yaml::Value")]
pub enum ErrorRule {
    /// An HTTP answer must come.
    #[default]
    Forbidden,
    /// No HTTP answer may come.
    Required,
    /// None, or one that fits the rest.
    Allowed,
}

impl TryFrom<serde_yaml::Value> for ErrorRule {
    type Error = String;

    fn try_from(value: serde_yaml::Value) -> Result<Self, String> {
        match (value.as_bool(), value.as_str()) {
            (Some(true), _) => Ok(Self::Required),
            (Some(false), _) => Ok(Self::Forbidden),
            (_, Some("allowed")) => Ok(Self::Allowed),
            _ => Err("error: must be true, false or allowed".to_owned()),
        }
    }
}

/// A text that YAML may have read as a number or a boolean.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "serde_yaml::Value")]
pub struct Text(pub String);

impl TryFrom<serde_yaml::Value> for Text {
    type Error = String;

    fn try_from(value: serde_yaml::Value) -> Result<Self, String> {
        match value {
            serde_yaml::Value::String(text) => Ok(Self(text)),
            serde_yaml::Value::Number(number) => Ok(Self(number.to_string())),
            serde_yaml::Value::Bool(flag) => Ok(Self(flag.to_string())),
            _ => Err("a text, a number or a boolean is needed here".to_owned()),
        }
    }
}

/// One value or a list of values.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// A single value.
    One(T),
    /// A list.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// The values as a slice.
    pub fn as_slice(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

impl Case {
    /// Removes the requests that need an object which an API server does not take; returns how many those are.
    pub fn drop_refused(&mut self) -> usize {
        let before = self.requests.len();
        let refused = &self.api_server.refuses;
        self.requests.retain(|request| {
            let needs = request.needs.as_ref();
            needs.is_none_or(|object| !refused.contains_key(object))
        });
        before - self.requests.len()
    }
}

impl Request {
    /// Label in the report: the name, else method, host and path.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            let scheme = if self.scheme == Scheme::Https {
                "https "
            } else {
                ""
            };
            format!("{scheme}{} {}{}", self.method, self.host, self.path)
        })
    }

    /// How often the request is sent.
    pub fn times(&self) -> u32 {
        let default = if self.share.is_some() {
            SHARE_REPEAT
        } else {
            1
        };
        self.repeat.unwrap_or(default)
    }

    /// Server name for the TLS handshake, `None` = none is sent.
    pub fn server_name(&self) -> Option<&str> {
        let name = self
            .sni
            .as_deref()
            .unwrap_or_else(|| host_without_port(&self.host));
        (!name.is_empty()).then_some(name)
    }
}

/// `host` without a trailing `:port`; an IPv6 address in brackets loses the brackets too.
pub fn host_without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

fn get() -> String {
    "GET".to_owned()
}

fn root() -> String {
    "/".to_owned()
}

fn localhost() -> String {
    "localhost".to_owned()
}

/// Reads the cases of one file.
///
/// # Errors
/// The file cannot be read, or a document is not a case; the message names the file and the document.
pub fn load_file(path: &Path) -> Result<Vec<Case>> {
    load_with(path, ("", ""))
}

/// Reads the cases of one file, with one text replaced by another everywhere.
///
/// # Errors
/// As those of [`load_file`].
pub fn load_with(path: &Path, (from, to): (&str, &str)) -> Result<Vec<Case>> {
    let mut text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    if !from.is_empty() {
        text = text.replace(from, to);
    }
    parse(&text).with_context(|| path.display().to_string())
}

/// Parses the cases of one text.
///
/// # Errors
/// A document is not a case.
pub fn parse(text: &str) -> Result<Vec<Case>> {
    serde_yaml::Deserializer::from_str(text)
        .enumerate()
        .map(|(index, document)| {
            Case::deserialize(document).with_context(|| format!("document {}", index + 1))
        })
        .collect()
}

/// All case files (`*.yaml`) below `dir`, sorted by path.
///
/// # Errors
/// A folder cannot be listed.
pub fn find_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(folder) = pending.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "yaml")
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_scalars() {
        let text = "name: n\nmanifests: ''\nrequests:\n- {}\n- {headers: {x-a: 1, x-b: [a, b]}, share: {s: [1, 2]}, \
                    expect: {status: [200, 404], error: allowed, headers: {x-e: null}}}\n";
        let case = parse(text).unwrap().remove(0);
        let [first, second] = case.requests.as_slice() else {
            panic!("two requests")
        };
        assert_eq!(
            (first.label(), first.times()),
            ("GET localhost/".to_owned(), 1)
        );
        assert_eq!(first.server_name(), Some("localhost"));
        assert_eq!(second.times(), 200);
        assert_eq!(second.headers["x-a"].as_slice(), [Text("1".to_owned())]);
        assert_eq!(second.headers["x-b"].as_slice().len(), 2);
        assert_eq!(second.expect.headers["x-e"], None);
        assert_eq!(second.expect.error, ErrorRule::Allowed);
    }

    #[test]
    fn requests_for_refused_objects_go() {
        let text = "name: n\nmanifests: ''\napi_server: {refuses: {Ingress/a/b: why}}\n\
                    requests: [{needs: Ingress/a/b}, {needs: Ingress/a/c}, {}]\n";
        let mut case = parse(text).unwrap().remove(0);
        assert_eq!((case.drop_refused(), case.requests.len()), (1, 2));
    }

    #[test]
    fn unknown_fields_are_errors() {
        assert!(parse("name: n\nmanifests: ''\nrequests: []\nreqests: []\n").is_err());
        assert!(parse("name: n\nmanifests: ''\nrequests:\n- {expect: {statsu: 200}}\n").is_err());
    }

    #[test]
    fn host_loses_its_port() {
        assert_eq!(host_without_port("a.example:80"), "a.example");
        assert_eq!(host_without_port("a.example"), "a.example");
        assert_eq!(host_without_port("[::1]:80"), "::1");
    }
}
