//! What a route does with a request that it takes.

use std::fmt;

use shared_proto::networking::v1alpha3::http_redirect::RedirectPort;
use shared_proto::networking::v1alpha3::{HttpRedirect, HttpRouteDestination};

use super::condition::{Condition, Pattern};
use super::{Request, Route, source};

/// Answer to clients that may not come in.
const FORBIDDEN: u32 = 403;
/// Answer of the gateway to a preflight request.
const PREFLIGHT: u32 = 200;

/// What a request comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It goes to one of these, by weight.
    Backends {
        /// Host and port of the service, and its weight.
        backends: Vec<(String, i32)>,
        /// The path that it sees, with the query.
        path: String,
        /// The host that it sees, if it is not that of the request.
        host: Option<String>,
    },
    /// The client is sent elsewhere.
    Redirect {
        /// The status.
        status: u32,
        /// Where to.
        location: String,
    },
    /// The gateway answers by itself.
    Status(u32),
}

/// What a request comes to, and what else can be told about the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What is done.
    pub action: Action,
    /// Cross-origin headers of the answer; empty when there are none.
    pub cors: String,
    /// What is tried again; empty when nothing is said about it.
    pub retries: String,
}

impl Answer {
    /// An answer of the gateway without anything else.
    pub fn status(status: u32) -> Self {
        Self {
            action: Action::Status(status),
            cors: String::new(),
            retries: String::new(),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status}"),
            Self::Redirect { status, location } => write!(f, "{status} to {location}"),
            Self::Backends {
                backends,
                path,
                host,
            } => {
                let total: i64 = backends.iter().map(|(_, weight)| i64::from(*weight)).sum();
                for (index, (backend, weight)) in backends.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{backend}")?;
                    if backends.len() > 1 {
                        let share = f64::from(*weight) * 100.0 / total.max(1) as f64;
                        write!(f, " {share}%")?;
                    }
                }
                write!(f, " sees {path}")?;
                match host {
                    Some(host) => write!(f, " of {host}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Route<'_> {
    /// The answer to a request that meets `held`.
    pub(super) fn answer(&self, held: &Condition, request: &Request) -> Answer {
        let http = self.http;
        let retries = http.retries.as_ref().map(|retry| {
            let (times, on) = (retry.attempts, &retry.retry_on);
            match times {
                0 => "nothing is tried again".to_owned(),
                _ => format!("{times} more attempts on {on}"),
            }
        });
        let (cors, preflight) = self.cors(request);
        let action = match preflight {
            true => Action::Status(PREFLIGHT),
            false => self.action(held, request),
        };
        Answer {
            action,
            cors,
            retries: retries.unwrap_or_default(),
        }
    }

    fn action(&self, held: &Condition, request: &Request) -> Action {
        let http = self.http;
        if request
            .client
            .is_some_and(|client| !source::lets_in(http, client))
        {
            return Action::Status(FORBIDDEN);
        }
        let only_https = |r: &&HttpRedirect| {
            let same = r.uri.is_empty() && r.authority.is_empty() && r.redirect_port.is_none();
            r.scheme == "https" && same
        };
        // Where TLS is terminated, a redirect to https does nothing.
        let redirect = http.redirect.as_ref();
        if let Some(redirect) = redirect.filter(|r| !(request.https && only_https(r))) {
            return Action::Redirect {
                status: redirect.redirect_code,
                location: location(redirect, request),
            };
        }
        if let Some(response) = &http.direct_response {
            let status = response.status;
            let headers = http.headers.as_ref().and_then(|h| h.response.as_ref());
            let found = headers.and_then(|headers| headers.set.get("location"));
            return match found {
                Some(text) => Action::Redirect {
                    status,
                    location: substituted(text, request),
                },
                None => Action::Status(status),
            };
        }
        let weighted = |destination: &HttpRouteDestination| {
            let target = destination.destination.as_ref()?;
            let port = target
                .port
                .as_ref()
                .map_or(String::new(), |p| format!(":{}", p.number));
            let used = destination.weight > 0 || http.route.len() == 1;
            used.then(|| (format!("{}{port}", target.host), destination.weight))
        };
        let authority = http
            .rewrite
            .as_ref()
            .map(|rewrite| rewrite.authority.clone());
        Action::Backends {
            backends: http.route.iter().filter_map(weighted).collect(),
            path: self.rewritten(held, request),
            host: authority.filter(|authority| !authority.is_empty()),
        }
    }

    /// The path that backends see.
    fn rewritten(&self, held: &Condition, request: &Request) -> String {
        let plain = request.plain_path();
        let uri = self
            .http
            .rewrite
            .as_ref()
            .map_or("", |rewrite| &rewrite.uri);
        let path = match (&self.rewrite, &held.path) {
            (Some((regex, new)), _) => regex.replace_all(plain, new).into_owned(),
            (None, _) if uri.is_empty() => plain.to_owned(),
            (None, Some(Pattern::Prefix(prefix))) => {
                let rest = plain.get(prefix.len()..).unwrap_or_default();
                format!("{uri}{rest}")
            }
            (None, _) => uri.to_owned(),
        };
        match request.query() {
            Some(query) => format!("{path}?{query}"),
            None => path,
        }
    }

    /// Cross-origin headers, and whether the gateway answers the request by itself.
    fn cors(&self, request: &Request) -> (String, bool) {
        let (Some(policy), Some(origin)) = (&self.http.cors_policy, request.header("origin"))
        else {
            return (String::new(), false);
        };
        if !self.origins.iter().any(|pattern| pattern.matches(origin)) {
            return (String::new(), false);
        }
        let asked = request.header("access-control-request-method").is_some();
        if request.method != "OPTIONS" || !asked {
            return (format!("access-control-allow-origin: {origin}"), false);
        }
        let headers = policy.allow_headers.join(",");
        let methods = policy.allow_methods.join(",");
        (format!("{origin} may send {methods} with {headers}"), true)
    }
}

/// Where a redirect leads.
fn location(redirect: &HttpRedirect, request: &Request) -> String {
    let or = |text: &'_ str, default: &'_ str| -> String {
        let text = if text.is_empty() { default } else { text };
        text.to_owned()
    };
    let scheme = or(&redirect.scheme, request.scheme());
    let mut host = or(&redirect.authority, &request.host);
    if let Some(RedirectPort::Port(port)) = redirect.redirect_port {
        host = format!("{host}:{port}");
    }
    let path = or(&redirect.uri, request.plain_path());
    match request.query().filter(|_| !path.contains('?')) {
        Some(query) => format!("{scheme}://{host}{path}?{query}"),
        None => format!("{scheme}://{host}{path}"),
    }
}

/// A header with the gateway's words replaced, as far as the controller writes them.
fn substituted(text: &str, request: &Request) -> String {
    let words = [
        ("%REQ(:SCHEME)%", request.scheme()),
        ("%REQ(:AUTHORITY)%", &request.host),
        ("%REQ(:PATH)%", &request.path),
        ("%%", "%"),
    ];
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (before, from) = rest.split_at(at);
        result.push_str(before);
        let known = words.iter().find(|(word, _)| from.starts_with(word));
        let (word, value) = known.copied().unwrap_or(("%", "%"));
        result.push_str(value);
        rest = from.get(word.len()..).unwrap_or_default();
    }
    result + rest
}

/// The gateway's form of a replacement in that of the regex crate: `\1` becomes `${1}`.
pub(super) fn replacement(text: &str) -> String {
    let mut result = String::with_capacity(text.len() + 4);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            ('$', _) => result.push_str("$$"),
            (_, true) => match chars.next() {
                Some(digit) if digit.is_ascii_digit() => {
                    result.extend(['$', '{', digit, '}']);
                }
                other => result.extend(other),
            },
            (c, _) => result.push(c),
        }
    }
    result
}
