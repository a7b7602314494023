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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::annotations::testing::problems_of;
    use rstest::rstest;

    const URL: (&str, &str) = ("nginx/auth-url", "http://a.n.svc.cluster.local/");
    const TYPE: (&str, &str) = ("nginx/auth-type", "basic");
    const SECRET: (&str, &str) = ("nginx/auth-secret", "n/users");

    /// Which of server, password and address are ways in, and how many mistakes close the routes.
    #[rstest]
    #[case::nothing(&[], None, 0)]
    #[case::url(&[URL], Some((true, false, false)), 0)]
    #[case::basic(&[TYPE, SECRET], Some((false, true, false)), 0)]
    #[case::both(&[URL, TYPE, SECRET], Some((true, true, false)), 0)]
    #[case::any(&[URL, ("nginx/satisfy", "any")], Some((true, false, true)), 0)]
    #[case::all(&[URL, ("higress/satisfy", "all")], Some((true, false, false)), 0)]
    #[case::any_of_three(&[URL, TYPE, SECRET, ("nginx/satisfy", "any")], Some((true, true, true)), 1)]
    #[case::satisfy(&[URL, ("nginx/satisfy", "some")], Some((true, false, false)), 1)]
    #[case::bad_url(&[("nginx/auth-url", "x")], None, 1)]
    #[case::empty_url(&[("nginx/auth-url", "")], None, 1)]
    #[case::second_prefix(&[("nginx/auth-url", "x"), ("higress/auth-url", "http://a.n.svc/")], Some((true, false, false)), 0)]
    #[case::digest(&[("nginx/auth-type", "digest"), SECRET], None, 1)]
    #[case::no_secret(&[TYPE], None, 1)]
    #[case::other_namespace(&[TYPE, ("nginx/auth-secret", "m/users")], None, 1)]
    #[case::lonely_secret(&[SECRET], None, 1)]
    #[case::lonely_page(&[("nginx/auth-signin", "https://a.test/")], None, 1)]
    #[case::useless(&[TYPE, SECRET, ("nginx/auth-method", "GET")], Some((false, true, false)), 0)]
    #[case::method(&[URL, ("nginx/auth-method", "FETCH")], Some((true, false, false)), 1)]
    #[case::headers(&[URL, ("nginx/auth-response-headers", "X-A, Content-Length")], Some((true, false, false)), 1)]
    #[case::scope_header(&[URL, ("nginx/auth-response-headers", "X-Isthmus-Scope")], Some((true, false, false)), 1)]
    #[case::header_name(&[URL, ("nginx/auth-response-headers", "X A")], Some((true, false, false)), 1)]
    #[case::cookie(&[URL, ("nginx/auth-always-set-cookie", "yes")], Some((true, false, false)), 1)]
    #[case::page(&[URL, ("nginx/auth-signin", "//evil.test/")], Some((true, false, false)), 1)]
    #[case::script(&[URL, ("nginx/auth-signin", "javascript:alert(1)")], Some((true, false, false)), 1)]
    #[case::variable(&[URL, ("nginx/auth-signin", "https://a.test/?x=$cookie_x")], Some((true, false, false)), 1)]
    #[case::parameter(&[URL, ("nginx/auth-signin-redirect-param", "a&b")], Some((true, false, false)), 1)]
    #[case::redirect(&[URL, ("nginx/auth-request-redirect", "$remote_user")], Some((true, false, false)), 1)]
    #[case::line_break(&[URL, ("nginx/auth-request-redirect", "a\nb")], Some((true, false, false)), 1)]
    #[case::secret_type(&[TYPE, SECRET, ("nginx/auth-secret-type", "vault")], Some((false, true, false)), 1)]
    fn ways_in(
        #[case] annotations: &[(&str, &str)],
        #[case] expected: Option<(bool, bool, bool)>,
        #[case] closing: usize,
    ) {
        let (auth, problems) = problems_of(annotations, parse);
        let found = auth.map(|a| (a.url.is_some(), a.basic.is_some(), a.or_address));
        assert_eq!(found, expected);
        let denied = |reason: &&Reason| **reason == Reason::AccessDenied;
        assert_eq!(problems.iter().filter(denied).count(), closing);
    }
}
