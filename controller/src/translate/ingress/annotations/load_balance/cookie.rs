//! The cookie that keeps a client with its endpoint.

use shared_proto::networking::v1alpha3::load_balancer_settings::consistent_hash_lb::HttpCookie;
use shared_proto::networking::v1alpha3::load_balancer_settings::consistent_hash_lb::http_cookie::Attribute;
use shared_proto::well_known::Duration;

use super::super::table::{
    AFFINITY, SESSION_COOKIE_DOMAIN, SESSION_COOKIE_EXPIRES, SESSION_COOKIE_MAX_AGE,
    SESSION_COOKIE_SAMESITE, SESSION_COOKIE_SECURE,
};
use super::super::value::{self, Value, ValueError};
use super::super::{Annotations, Problems, text};
use crate::model::{Reason, parse_host};

const DEFAULT_NAME: &str = "INGRESSCOOKIE";
const DEFAULT_PATH: &str = "/";
/// A hundred years, more than any cookie lives.
const MAX_AGE: i64 = 3_153_600_000;
/// `SameSite` of a cookie that other sites may use; browsers take it from secure cookies only.
const FROM_ANYWHERE: &str = "None";

/// A cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cookie {
    name: String,
    path: String,
    /// Seconds; 0 = until the browser ends.
    ttl: i64,
    domain: Option<String>,
    same_site: Option<&'static str>,
    secure: bool,
}

impl Cookie {
    /// Reads all that is said of the cookie but its name and path, which were read before.
    pub(super) fn parse(
        annotations: &Annotations<'_>,
        (name, path): (Option<String>, Option<String>),
        problems: &mut Problems,
    ) -> Self {
        let age = |text: &str| value::integer_within(text, 0, MAX_AGE);
        let ttl = annotations
            .get(&SESSION_COOKIE_MAX_AGE, age, problems)
            .or_else(|| annotations.get(&SESSION_COOKIE_EXPIRES, age, problems));
        let same_site = annotations.get(&SESSION_COOKIE_SAMESITE, same_site, problems);
        let needed = same_site == Some(FROM_ANYWHERE);
        let secure = annotations.find(&SESSION_COOKIE_SECURE, value::boolean, problems);
        if let Some(found) = secure.as_ref().filter(|found| needed && !found.value) {
            let message = "browsers refuse a cookie with SameSite=None that is not secure; write true, or another session-cookie-samesite";
            problems.add(found.key, Reason::IneffectiveAnnotation, message);
        }
        Self {
            name: name.unwrap_or_else(|| DEFAULT_NAME.to_owned()),
            path: path.unwrap_or_else(|| DEFAULT_PATH.to_owned()),
            ttl: ttl.unwrap_or(0),
            domain: annotations.get(&SESSION_COOKIE_DOMAIN, domain, problems),
            same_site,
            secure: secure.map_or(needed, |found| found.value),
        }
    }

    /// The cookie as the pilot wants it.
    pub(super) fn settings(&self) -> HttpCookie {
        let attribute = |name: &str, value: &str| Attribute {
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let domain = self.domain.as_deref().map(|d| attribute("Domain", d));
        let same_site = self.same_site.map(|site| attribute("SameSite", site));
        let secure = self.secure.then(|| attribute("Secure", ""));
        HttpCookie {
            name: self.name.clone(),
            path: self.path.clone(),
            ttl: Some(Duration {
                seconds: self.ttl,
                nanos: 0,
            }),
            attributes: domain.into_iter().chain(same_site).chain(secure).collect(),
        }
    }
}

/// Reports what is said of a cookie that nobody gets.
pub(super) fn without_affinity(annotations: &Annotations<'_>, problems: &mut Problems) {
    for key in [
        &SESSION_COOKIE_DOMAIN,
        &SESSION_COOKIE_SAMESITE,
        &SESSION_COOKIE_SECURE,
    ] {
        if let Some(found) = annotations.find(key, value::text, problems) {
            let message = format!("has no effect without {}: cookie; add that", AFFINITY.name);
            problems.add(found.key, Reason::IneffectiveAnnotation, message);
        }
    }
}

/// The name of a cookie.
pub(super) fn name(raw: &str) -> Value<String> {
    let name = value::line(raw)?;
    if text::is_token(&name) {
        return Ok(name);
    }
    let why = "is not the name of a cookie; use letters, digits, `-` and `_`";
    Err(ValueError::new(&name, why))
}

/// The path of a cookie.
pub(super) fn path(raw: &str) -> Value<String> {
    let path = value::line(raw)?;
    let plain = |b: u8| b.is_ascii_graphic() && !b"\";,\\".contains(&b);
    if path.starts_with('/') && path.bytes().all(plain) {
        return Ok(path);
    }
    let why = "is not the path of a cookie; begin with `/`, without spaces, quotes and `;`";
    Err(ValueError::new(&path, why))
}

fn domain(raw: &str) -> Value<String> {
    let line = value::line(raw)?;
    // A dot at the start has been without meaning since RFC 6265.
    match parse_host(line.trim_start_matches('.')) {
        Ok(host) if !host.starts_with('*') => Ok(host),
        _ => Err(ValueError::new(
            &line,
            "is not the domain of a cookie; write a host name",
        )),
    }
}

fn same_site(raw: &str) -> Value<&'static str> {
    let line = value::line(raw)?;
    let known = [FROM_ANYWHERE, "Lax", "Strict"];
    let found = known
        .into_iter()
        .find(|site| line.eq_ignore_ascii_case(site));
    found.ok_or_else(|| {
        let why = "is none of the values of SameSite; write None, Lax or Strict";
        ValueError::new(&line, why)
    })
}
