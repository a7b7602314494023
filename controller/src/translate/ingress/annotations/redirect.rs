//! Redirects: to a URL, to https, and of the root path.

use http::Uri;
use shared_proto::networking::v1alpha3::http_redirect::RedirectPort;
use shared_proto::networking::v1alpha3::{HttpRedirect, HttpRoute};

use super::table::{
    APP_ROOT, FORCE_SSL_REDIRECT, Key, PERMANENT_REDIRECT, PERMANENT_REDIRECT_CODE,
    PRESERVE_TRAILING_SLASH, SSL_REDIRECT, TEMPORAL_REDIRECT, TEMPORAL_REDIRECT_CODE,
    USE_PORT_IN_REDIRECTS,
};
use super::value::{self, Value, ValueError};
use super::{Annotations, Found, Problems, ingress_nginx};
use crate::model::{Reason, Semantics};

const FOUND: u32 = 302;
const MOVED: u32 = 301;
const PERMANENT: u32 = 308;
/// Codes that gateways can answer with.
const CODES: [u32; 5] = [301, 302, 303, 307, 308];

/// What the family asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    /// Where the requests of the Ingress are sent.
    route: Option<HttpRedirect>,
    /// The same with ingress-nginx: status and location, as they are.
    location: Option<(u32, String)>,
    /// Requests are sent to https by default, where the host has a certificate.
    https_by_default: bool,
    /// Redirects to https, and to another host of the gateway, name the port.
    pub(crate) with_port: bool,
    /// Where requests for `/` are sent: the key and the path.
    pub(crate) app_root: Option<Found<String>>,
}

/// How a host is served by HTTPS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Https {
    /// It has a certificate.
    pub(crate) certificate: bool,
    /// Where the gateway listens.
    pub(crate) port: u16,
}

/// A URL as it is read.
enum Goal {
    /// Higress: path and query of the request may be kept.
    Url(Target),
    /// ingress-nginx: a location as it is.
    Location(String),
}

/// Where a redirect leads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    scheme: String,
    authority: String,
    /// Empty = that of the request.
    path: String,
    /// The URL has more, which is not used.
    rest: bool,
}

/// Reads the family.
pub(crate) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<Redirect> {
    let nginx = annotations.semantics() == Semantics::IngressNginx;
    let goal = |raw: &str| match nginx {
        false => target(raw).map(Goal::Url),
        true => ingress_nginx::redirect::location(raw).map(Goal::Location),
    };
    let temporal = annotations.find(&TEMPORAL_REDIRECT, goal, problems);
    let permanent = annotations.find(&PERMANENT_REDIRECT, goal, problems);
    let mut code_of = |redirect: &Option<_>, [key, code_key]: [&Key; 2], default| {
        let found = annotations.find(code_key, code, problems);
        if let (None, Some(found)) = (redirect, &found) {
            let message = format!("has no effect without {}; add that", key.name);
            problems.add(found.key, Reason::IneffectiveAnnotation, message);
        }
        found.map_or(default, |found| found.value)
    };
    let for_now = code_of(
        &temporal,
        [&TEMPORAL_REDIRECT, &TEMPORAL_REDIRECT_CODE],
        FOUND,
    );
    let for_good = code_of(
        &permanent,
        [&PERMANENT_REDIRECT, &PERMANENT_REDIRECT_CODE],
        MOVED,
    );
    // Both are read, so that both are checked.
    let ssl = annotations.get(&SSL_REDIRECT, value::boolean, problems);
    let forced = annotations.is_on(&FORCE_SSL_REDIRECT, problems);
    let https = forced || (ssl == Some(true) && !nginx);
    let with_port = annotations.is_on(&USE_PORT_IN_REDIRECTS, problems);
    annotations.is_on(&PRESERVE_TRAILING_SLASH, problems);
    let app_root = annotations.find(&APP_ROOT, root, problems);
    if let (Some(_), Some(loser)) = (&temporal, &permanent) {
        let message = format!("{} takes precedence; remove one", TEMPORAL_REDIRECT.name);
        problems.add(loser.key, Reason::IneffectiveAnnotation, message);
    }
    let temporal = temporal.map(|found| (found, for_now));
    let url = temporal.or(permanent.map(|found| (found, for_good)));
    let mut redirect = Redirect {
        route: https.then(to_https),
        location: None,
        https_by_default: nginx && ssl.unwrap_or(true),
        with_port,
        app_root,
    };
    if let Some((Found { key, value }, code)) = url {
        match value {
            Goal::Url(value) => {
                redirect.route = Some(to_url(Found { key, value }, code, problems));
            }
            Goal::Location(location) => redirect.location = Some((code, location)),
        }
    }
    let Redirect {
        route,
        location,
        https_by_default,
        with_port,
        app_root,
    } = &redirect;
    let asked = route.is_some() || location.is_some() || *https_by_default || app_root.is_some();
    (asked || *with_port).then_some(redirect)
}

fn to_https() -> HttpRedirect {
    HttpRedirect {
        scheme: "https".to_owned(),
        redirect_code: PERMANENT,
        ..HttpRedirect::default()
    }
}

fn to_url(found: Found<Target>, code: u32, problems: &mut Problems) -> HttpRedirect {
    let Found { key, value } = found;
    if value.rest {
        let message = "the query or fragment of the URL is not used, the query of the request is kept; remove it";
        problems.add(key, Reason::IneffectiveAnnotation, message);
    }
    HttpRedirect {
        uri: value.path,
        authority: value.authority,
        scheme: value.scheme,
        redirect_code: code,
        ..HttpRedirect::default()
    }
}

fn target(raw: &str) -> Value<Target> {
    let line = value::line(raw)?;
    let error = || {
        ValueError::new(
            &line,
            "is not a URL; write http://host/path or https://host/path",
        )
    };
    let (before, fragment) = match line.split_once('#') {
        Some((before, fragment)) => (before, Some(fragment)),
        None => (line.as_str(), None),
    };
    let uri: Uri = before.parse().map_err(|_| error())?;
    let scheme = uri.scheme_str().unwrap_or_default().to_ascii_lowercase();
    let authority = uri.authority().map_or("", |a| a.as_str());
    let host = uri.host().unwrap_or_default();
    if !matches!(scheme.as_str(), "http" | "https") || host.is_empty() || authority.contains('@') {
        return Err(error());
    }
    // The parser makes an empty path a slash; the text tells.
    let after = before.split_once("://").map_or("", |(_, after)| after);
    let has_path = after.contains('/');
    Ok(Target {
        path: if has_path {
            uri.path().to_owned()
        } else {
            String::new()
        },
        rest: uri.query().is_some() || fragment.is_some(),
        authority: authority.to_owned(),
        scheme,
    })
}

fn code(raw: &str) -> Value<u32> {
    let number = value::integer(raw)?;
    let code = CODES.iter().find(|code| i64::from(**code) == number);
    code.copied()
        .ok_or_else(|| ValueError::new(raw, "is not a redirect; use 301, 302, 303, 307 or 308"))
}

fn root(raw: &str) -> Value<String> {
    let line = value::line(raw)?;
    if !line.starts_with('/') {
        return Err(ValueError::new(&line, "is not a path; begin it with /"));
    }
    // Browsers take both for the start of a host name.
    if line.starts_with("//") || line.starts_with("/\\") {
        let why = "may lead to another host; begin it with a single /";
        return Err(ValueError::new(&line, why));
    }
    if line == "/" || line.starts_with("/?") {
        return Err(ValueError::new(&line, "leads to itself; name another path"));
    }
    Ok(line)
}

impl Redirect {
    /// Sets the redirect of a route. The rest of the route stays: where TLS is terminated, a redirect to https does nothing.
    pub(crate) fn apply(&self, path: &str, https: Https, http: &mut HttpRoute) {
        http.redirect.clone_from(&self.route);
        self.name_port(https, http);
        self.secure(path, https, http);
    }

    /// Sends requests to https by default, where that can be done.
    pub(crate) fn secure(&self, path: &str, https: Https, http: &mut HttpRoute) {
        let goes = ingress_nginx::redirect::goes_to_https(path);
        if self.https_by_default && https.certificate && goes {
            http.redirect = Some(to_https());
            self.name_port(https, http);
        }
    }

    fn name_port(&self, https: Https, http: &mut HttpRoute) {
        if let Some(redirect) = &mut http.redirect
            && self.with_port
            && redirect.authority.is_empty()
        {
            redirect.redirect_port = Some(RedirectPort::Port(https.port.into()));
        }
    }

    /// Answers with the location, if one is given as it is. Comes after everything else.
    pub(crate) fn answer(&self, http: &mut HttpRoute) {
        if let Some((status, location)) = &self.location {
            ingress_nginx::redirect::answer(http, *status, location);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::annotations::table::NGINX;
    use crate::translate::ingress::annotations::testing::{parsed_as, problems_of};
    use rstest::rstest;

    type Expected<'a> = Option<(&'a str, &'a str, &'a str, u32)>;

    #[rstest]
    #[case::none(&[], None, 0)]
    #[case::host(&[("nginx/permanent-redirect", "http://bar.com"), ("nginx/permanent-redirect-code", "308")], Some(("http", "bar.com", "", 308)), 0)]
    #[case::slash(&[("nginx/permanent-redirect", "http://bar.com/")], Some(("http", "bar.com", "/", 301)), 0)]
    #[case::temporal_wins(&[("nginx/temporal-redirect", "https://b.com:8443/p?z=1"), ("nginx/permanent-redirect", "http://c.com")], Some(("https", "b.com:8443", "/p", 302)), 2)]
    #[case::bad_code(&[("nginx/permanent-redirect", "HTTP://c.com"), ("nginx/permanent-redirect-code", "300")], Some(("http", "c.com", "", 301)), 1)]
    #[case::escapes_stay(&[("nginx/permanent-redirect", "http://c.com/a%20b#f")], Some(("http", "c.com", "/a%20b", 301)), 1)]
    #[case::bad_url(&[("nginx/temporal-redirect", "tcp://x"), ("nginx/ssl-redirect", "true")], Some(("https", "", "", 308)), 1)]
    #[case::bad_url_hides_nothing(&[("nginx/temporal-redirect", "x"), ("higress/temporal-redirect", "http://y")], Some(("http", "y", "", 302)), 1)]
    #[case::empty_hides_nothing(&[("higress/temporal-redirect", ""), ("higress/permanent-redirect", "http://y")], Some(("http", "y", "", 301)), 1)]
    #[case::force(&[("nginx/force-ssl-redirect", "true"), ("nginx/ssl-redirect", "maybe")], Some(("https", "", "", 308)), 1)]
    #[case::off(&[("nginx/ssl-redirect", "false")], None, 0)]
    #[case::user(&[("nginx/permanent-redirect", "http://u@c.com")], None, 1)]
    #[case::lines(&[("nginx/permanent-redirect", "http://c.com\nx: y")], None, 1)]
    #[case::temporal_code(&[("nginx/temporal-redirect", "http://c.com"), ("nginx/temporal-redirect-code", "307")], Some(("http", "c.com", "", 307)), 0)]
    #[case::bad_temporal_code(&[("nginx/temporal-redirect", "http://c.com"), ("nginx/temporal-redirect-code", "300")], Some(("http", "c.com", "", 302)), 1)]
    #[case::codes_alone(&[("nginx/temporal-redirect-code", "307"), ("nginx/permanent-redirect-code", "308")], None, 2)]
    #[case::slash_kept(&[("nginx/ssl-redirect", "true"), ("nginx/preserve-trailing-slash", "true")], Some(("https", "", "", 308)), 0)]
    #[case::no_host(&[("nginx/permanent-redirect", "http:///x")], None, 1)]
    #[case::no_url(&[("nginx/permanent-redirect", "::not a url::")], None, 1)]
    fn redirects(
        #[case] list: &[(&str, &str)],
        #[case] expected: Expected<'_>,
        #[case] mistakes: usize,
    ) {
        let (redirect, problems) = problems_of(list, parse);
        let route = redirect.and_then(|r| r.route);
        let found = route.as_ref().map(|r| {
            (
                r.scheme.as_str(),
                r.authority.as_str(),
                r.uri.as_str(),
                r.redirect_code,
            )
        });
        assert_eq!(found, expected);
        assert_eq!(problems.len(), mistakes, "{problems:?}");
    }

    #[rstest]
    #[case("nginx/ssl-redirect", "true", Some(8443))]
    #[case("nginx/temporal-redirect", "http://c.com", None)]
    fn ports(#[case] key: &str, #[case] value: &str, #[case] expected: Option<u32>) {
        let list = [(key, value), ("nginx/use-port-in-redirects", "true")];
        let (redirect, problems) = problems_of(&list, parse);
        let https = Https {
            certificate: false,
            port: 8443,
        };
        let mut http = HttpRoute::default();
        redirect.unwrap().apply("/", https, &mut http);
        let port = http.redirect.unwrap().redirect_port;
        assert_eq!(port, expected.map(RedirectPort::Port));
        assert_eq!(problems, []);
    }

    #[rstest]
    #[case("/home", Some("/home"))]
    #[case(" /home?a=b ", Some("/home?a=b"))]
    #[case("home", None)]
    #[case("//evil.example", None)]
    #[case("/\\evil.example", None)]
    #[case("https://evil.example", None)]
    #[case("/", None)]
    #[case("", None)]
    fn roots(#[case] value: &str, #[case] expected: Option<&str>) {
        let (redirect, problems) = problems_of(&[("nginx/app-root", value)], parse);
        let root = redirect.and_then(|r| r.app_root).map(|found| found.value);
        assert_eq!(root.as_deref(), expected);
        assert_eq!(problems.len(), usize::from(expected.is_none()));
    }

    /// What becomes of a request for `path` of a host, with or without a certificate.
    #[rstest]
    #[case::plain(&[], "/", false, "")]
    #[case::default(&[], "/", true, "308 https")]
    #[case::off(&[("ssl-redirect", "false")], "/", true, "")]
    #[case::asked_for(&[("ssl-redirect", "true")], "/", false, "")]
    #[case::forced(&[("ssl-redirect", "false"), ("force-ssl-redirect", "true")], "/", false, "308 https")]
    #[case::challenge(&[], "/.well-known/acme-challenge/x", true, "")]
    #[case::url(&[("permanent-redirect", "http://b.test")], "/", true, "301 = http://b.test")]
    #[case::url_and_code(
        &[("permanent-redirect", "http://b.test?a=b"), ("permanent-redirect-code", "308")],
        "/",
        false,
        "308 = http://b.test?a=b"
    )]
    #[case::bad_url(&[("permanent-redirect", "http://b.test/$uri")], "/", false, "")]
    fn redirects_of_ingress_nginx(
        #[case] list: &[(&str, &'static str)],
        #[case] path: &str,
        #[case] certificate: bool,
        #[case] expected: &str,
    ) {
        let full = |(key, value): &(&str, &'static str)| (format!("{NGINX}{key}"), *value);
        let list: Vec<(String, &str)> = list.iter().map(full).collect();
        let list: Vec<(&str, &str)> = list.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        let (redirect, _) = parsed_as(Semantics::IngressNginx, &list, parse);
        let mut http = HttpRoute::default();
        if let Some(redirect) = redirect {
            let https = Https {
                certificate,
                port: 443,
            };
            redirect.apply(path, https, &mut http);
            redirect.answer(&mut http);
        }
        let found = match (&http.redirect, &http.direct_response) {
            (Some(redirect), _) => format!("{} {}", redirect.redirect_code, redirect.scheme),
            (None, Some(answer)) => {
                let headers = http.headers.unwrap().response.unwrap().set;
                format!("{} = {}", answer.status, headers["location"])
            }
            (None, None) => String::new(),
        };
        assert_eq!(found, expected);
    }
}
