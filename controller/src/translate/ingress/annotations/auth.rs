//! Who may come in: users with a password, or whom another server lets pass.
//!
//! Fails closed: whatever cannot be read or put into effect closes the routes of the Ingress.

use super::table::{
    AUTH_ALWAYS_SET_COOKIE, AUTH_METHOD, AUTH_REQUEST_REDIRECT, AUTH_RESPONSE_HEADERS, AUTH_SECRET,
    AUTH_SECRET_TYPE, AUTH_SIGNIN, AUTH_SIGNIN_REDIRECT_PARAM, AUTH_TYPE, AUTH_URL, Key, SATISFY,
};
use super::value::{self, Value, ValueError};
use super::{Annotations, Found, Problems, auth_url, basic_auth};
use crate::model::Reason;

/// How clients prove who they are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Auth {
    /// A server is asked.
    pub(crate) url: Option<auth_url::AuthUrl>,
    /// A password is asked for.
    pub(crate) basic: Option<basic_auth::BasicAuth>,
    /// A client that comes from an allowed address need not.
    pub(crate) or_address: bool,
}

/// Reads all of it.
pub(crate) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<Auth> {
    let url = auth_url::parse(annotations, problems);
    let basic = basic_auth::parse(annotations, problems);
    let of_url = [
        &AUTH_METHOD,
        &AUTH_SIGNIN,
        &AUTH_SIGNIN_REDIRECT_PARAM,
        &AUTH_RESPONSE_HEADERS,
        &AUTH_REQUEST_REDIRECT,
        &AUTH_ALWAYS_SET_COOKIE,
    ];
    let protected = url.is_some() || basic.is_some();
    without(annotations, (&AUTH_URL, protected), &of_url, problems);
    let of_basic = [&AUTH_SECRET, &AUTH_SECRET_TYPE];
    without(annotations, (&AUTH_TYPE, protected), &of_basic, problems);
    let or_address = required(annotations, &SATISFY, satisfy, problems);
    let or_address = or_address.is_some_and(|found| found.value);
    if or_address && url.is_some() && basic.is_some() {
        let message = "any of auth-url, auth-type and source ranges cannot be put into effect; remove one of the former two";
        problems.deny(first(&SATISFY), message);
    }
    protected.then_some(Auth {
        url,
        basic,
        or_address,
    })
}

/// Keys that mean nothing without another one. Their author wanted a restriction.
fn without(
    annotations: &Annotations<'_>,
    (main, protected): (&Key, bool),
    keys: &[&Key],
    problems: &mut Problems,
) {
    if annotations.has(main) {
        return;
    }
    for key in keys.iter().filter(|key| annotations.has(key)) {
        let full = key.full().find(|full| annotations.raw(full).is_some());
        let full = full.unwrap_or(key.name);
        if protected {
            let message = format!("has no effect without {}; remove it", main.name);
            problems.add(full, Reason::IneffectiveAnnotation, message);
        } else {
            let message = format!(
                "restricts nothing without {}; add that, or remove this",
                main.name
            );
            problems.deny(full, &message);
        }
    }
}

fn satisfy(text: &str) -> Value<bool> {
    match text.trim() {
        "any" => Ok(true),
        "all" => Ok(false),
        _ => Err(ValueError::new(text, "is neither any nor all")),
    }
}

/// The value of a key that has to be readable if it is there at all.
pub(super) fn required<T>(
    annotations: &Annotations<'_>,
    key: &Key,
    grammar: impl Fn(&str) -> Value<T>,
    problems: &mut Problems,
) -> Option<Found<T>> {
    if !annotations.has(key) {
        return None;
    }
    let found = annotations.find(key, grammar, problems);
    if found.is_none() {
        let full = key.full().find(|full| annotations.raw(full).is_some());
        let message = "nobody is let in because the value cannot be used; correct it";
        problems.deny(full.unwrap_or(key.name), message);
    }
    found
}

fn first(key: &Key) -> &'static str {
    key.full().next().unwrap_or(key.name)
}

/// A text of one line that can stand in a header.
pub(super) fn header_text(text: &str) -> Value<String> {
    let line = value::line(text)?;
    if super::text::is_header_value(&line) {
        return Ok(line);
    }
    Err(ValueError::new(&line, "is too long for a header"))
}
