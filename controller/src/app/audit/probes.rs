//! Requests that tell the two meanings of a path apart: near the path in every way that one of them may see otherwise, and with what
//! the annotations look at.

use std::net::IpAddr;

use crate::model::Ingress;
use crate::translate::explain::{Request, sample};
use crate::translate::ingress::annotations::table::{
    ALLOWLIST_SOURCE_RANGE, CANARY, CANARY_BY_COOKIE, CANARY_BY_HEADER, CANARY_BY_HEADER_PATTERN,
    CANARY_BY_HEADER_VALUE, CORS_ALLOW_ORIGIN, DENYLIST_SOURCE_RANGE, ENABLE_CORS, Key,
    WHITELIST_SOURCE_RANGE,
};

/// An address of a network that is for documents only (RFC 5737).
const OUTSIDE: &str = "203.0.113.9";
/// Characters that make a path an expression.
const SPECIAL: &str = "\\.+*?()|[]{}^$";
/// Bound on requests with addresses or origins of one list.
const MOST: usize = 20;

/// The value of an annotation.
pub(super) fn value<'a>(ingress: &'a Ingress, key: &Key) -> Option<&'a str> {
    key.full()
        .find_map(|full| ingress.annotations.get(full).map(|value| &**value))
}

/// True for an Ingress that takes a part of another one's requests.
pub(super) fn is_canary(ingress: &Ingress) -> bool {
    value(ingress, &CANARY).is_some_and(|text| text.eq_ignore_ascii_case("true") || text == "1")
}

/// A host that a rule's host stands for.
pub(super) fn host(rule: &str) -> String {
    match rule.strip_prefix('*') {
        Some("") => "any.example".to_owned(),
        Some(domain) => format!("any{domain}"),
        None => rule.to_owned(),
    }
}

/// A path that the path of an Ingress was written for.
pub(super) fn plain(path: &str) -> String {
    let text = match path.contains(|c| SPECIAL.contains(c)) {
        true => sample(path).unwrap_or_else(|| path.to_owned()),
        false => path.to_owned(),
    };
    if text.starts_with('/') {
        text
    } else {
        format!("/{text}")
    }
}

/// Requests for one path of an Ingress; `canaries` are those with the same path on the host.
pub(super) fn requests(
    ingress: &Ingress,
    rule: &str,
    path: &str,
    canaries: &[&Ingress],
) -> Vec<Request> {
    let (host, path) = (host(rule), plain(path));
    let base = Request::get(&host, &path);
    let mut all: Vec<Request> = near(&path)
        .iter()
        .map(|path| Request::get(&host, path))
        .collect();
    for canary in canaries {
        all.extend(with_canary(&base, canary));
    }
    if value(ingress, &ENABLE_CORS).is_some() {
        all.extend(with_origins(
            &base,
            value(ingress, &CORS_ALLOW_ORIGIN).unwrap_or("*"),
        ));
    }
    for key in [
        &WHITELIST_SOURCE_RANGE,
        &ALLOWLIST_SOURCE_RANGE,
        &DENYLIST_SOURCE_RANGE,
    ] {
        all.extend(
            value(ingress, key)
                .into_iter()
                .flat_map(|list| from_clients(&base, list)),
        );
    }
    let secure: Vec<Request> = all
        .iter()
        .map(|request| Request {
            https: true,
            ..request.clone()
        })
        .collect();
    all.extend(secure);
    all
}

/// Paths near a path, the telling ones first.
fn near(path: &str) -> Vec<String> {
    let short = path.trim_end_matches('/');
    let other_case: String = path
        .chars()
        .map(|c| match c.is_ascii_lowercase() {
            true => c.to_ascii_uppercase(),
            false => c.to_ascii_lowercase(),
        })
        .collect();
    let mut all = vec![
        path.to_owned(),
        format!("{short}/x"),
        format!("{short}/x?q=1"),
        format!("{short}/"),
        format!("{short}x"),
        format!("/x{path}"),
        other_case,
    ];
    if !short.is_empty() {
        all.push(short.to_owned());
    }
    all.retain(|path| path.starts_with('/'));
    all
}

fn with_canary(base: &Request, canary: &Ingress) -> Vec<Request> {
    let mut all = Vec::new();
    if let Some(name) = value(canary, &CANARY_BY_HEADER) {
        let written = [&CANARY_BY_HEADER_VALUE, &CANARY_BY_HEADER_PATTERN];
        let written = written.into_iter().filter_map(|key| value(canary, key));
        let samples = written.clone().filter_map(sample);
        let values = written.map(str::to_owned).chain(samples);
        let values = values.chain(["always", "never", "other"].map(str::to_owned));
        all.extend(values.map(|value| base.clone().with(name, &value)));
    }
    if let Some(name) = value(canary, &CANARY_BY_COOKIE) {
        let values = ["always", "never", "other"];
        all.extend(values.map(|value| base.clone().with("cookie", &format!("{name}={value}"))));
    }
    all
}

fn with_origins(base: &Request, list: &str) -> Vec<Request> {
    let mut origins = Vec::new();
    for item in list
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .take(MOST)
    {
        let Some((scheme, domain)) = item.split_once("://") else {
            origins.push("https://other.example".to_owned());
            continue;
        };
        let other = if scheme == "https" { "http" } else { "https" };
        for label in ["x", "x.y"] {
            origins.push(format!("{scheme}://{}", domain.replacen('*', label, 1)));
        }
        origins.push(format!("{other}://{}", domain.replacen('*', "x", 1)));
        origins.push(format!(
            "{scheme}://{}",
            domain.replacen('*', "x", 1).to_ascii_uppercase()
        ));
    }
    let simple = origins
        .iter()
        .map(|origin| base.clone().with("origin", origin));
    let preflight = origins.first().map(|origin| Request {
        method: "OPTIONS".to_owned(),
        ..base
            .clone()
            .with("origin", origin)
            .with("access-control-request-method", "GET")
    });
    simple.chain(preflight).collect()
}

fn from_clients(base: &Request, list: &str) -> Vec<Request> {
    let items = list
        .split(',')
        .map(|item| item.trim().split('/').next().unwrap_or_default());
    let addresses = items
        .chain([OUTSIDE])
        .filter_map(|text| text.parse::<IpAddr>().ok());
    let from = |client| Request {
        client: Some(client),
        ..base.clone()
    };
    addresses.take(MOST).map(from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_near_a_path() {
        let near = near("/foo/");
        for path in ["/foo/", "/foo", "/foo/x", "/foox", "/FOO/"] {
            assert!(near.iter().any(|p| p == path), "{path}");
        }
        assert_eq!(plain("/svc(/|$)(.*)"), "/svc/x");
        assert_eq!(plain(""), "/");
        assert_eq!(host("*.a.test"), "any.a.test");
    }
}
