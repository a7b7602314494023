//! Cross-origin requests.

use http::Uri;
use pbjson_types::BoolValue;
use shared_proto::networking::v1alpha3::string_match::MatchType;
use shared_proto::networking::v1alpha3::{CorsPolicy, HttpRoute, StringMatch};
use shared_proto::well_known::Duration;

use super::table::{
    CORS_ALLOW_CREDENTIALS, CORS_ALLOW_HEADERS, CORS_ALLOW_METHODS, CORS_ALLOW_ORIGIN,
    CORS_EXPOSE_HEADERS, CORS_MAX_AGE, ENABLE_CORS, Key,
};
use super::value::{self, Value, ValueError};
use super::{Annotations, Problems, ingress_nginx, text};
use crate::model::{Reason, Semantics};

const METHODS: [&str; 6] = ["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"];
const HEADERS: [&str; 9] = [
    "DNT",
    "X-CustomHeader",
    "Keep-Alive",
    "User-Agent",
    "X-Requested-With",
    "If-Modified-Since",
    "Cache-Control",
    "Content-Type",
    "Authorization",
];
const MAX_AGE: i64 = 1_728_000;
/// Ten years, far above what any browser keeps.
const LONGEST_AGE: i64 = 315_360_000;

/// What the family asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cors {
    policy: CorsPolicy,
    semantics: Semantics,
}

/// Reads the family.
pub(crate) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<Cors> {
    if !annotations.is_on(&ENABLE_CORS, problems) {
        if !annotations.has(&ENABLE_CORS) {
            report_unused(annotations, problems);
        }
        return None;
    }
    let age = |raw: &str| value::integer_within(raw, -1, LONGEST_AGE);
    let credentials = annotations.get(&CORS_ALLOW_CREDENTIALS, value::boolean, problems);
    let expose = tokens(annotations, &CORS_EXPOSE_HEADERS, problems);
    let policy = CorsPolicy {
        allow_origins: origins(annotations, problems),
        allow_methods: tokens(annotations, &CORS_ALLOW_METHODS, problems)
            .unwrap_or_else(|| METHODS.map(str::to_owned).into()),
        allow_headers: tokens(annotations, &CORS_ALLOW_HEADERS, problems)
            .unwrap_or_else(|| default_headers(annotations.semantics())),
        expose_headers: expose.unwrap_or_default(),
        allow_credentials: Some(BoolValue {
            value: credentials.unwrap_or(true),
        }),
        max_age: Some(Duration {
            seconds: annotations
                .get(&CORS_MAX_AGE, age, problems)
                .unwrap_or(MAX_AGE),
            nanos: 0,
        }),
        ..CorsPolicy::default()
    };
    let semantics = annotations.semantics();
    Some(Cors { policy, semantics })
}

fn default_headers(semantics: Semantics) -> Vec<String> {
    let names = match semantics {
        Semantics::Higress => HEADERS,
        Semantics::IngressNginx => ingress_nginx::cors::HEADERS,
    };
    names.map(str::to_owned).into()
}

fn report_unused(annotations: &Annotations<'_>, problems: &mut Problems) {
    let others = [
        &CORS_ALLOW_ORIGIN,
        &CORS_ALLOW_METHODS,
        &CORS_ALLOW_HEADERS,
        &CORS_EXPOSE_HEADERS,
        &CORS_ALLOW_CREDENTIALS,
        &CORS_MAX_AGE,
    ];
    for full in others.into_iter().flat_map(Key::full) {
        if annotations.all().any(|(key, _)| key == full) {
            let message = format!("has no effect without {}: \"true\"", ENABLE_CORS.name);
            problems.add(full, Reason::IneffectiveAnnotation, message);
        }
    }
}

/// A list of tokens; those that are none are left out and reported. `None` when nothing is left.
fn tokens(
    annotations: &Annotations<'_>,
    key: &Key,
    problems: &mut Problems,
) -> Option<Vec<String>> {
    let found = annotations.find(key, value::list_or_star, problems)?;
    let mut list = found.value;
    list.retain(|item| {
        let usable = text::is_token(item);
        if !usable && !item.is_empty() {
            let error = ValueError::new(item, "is not a method or header name; it is left out");
            problems.invalid(found.key, &error);
        }
        usable
    });
    (!list.is_empty()).then_some(list)
}

/// Origins; without any that can be used nobody is allowed.
fn origins(annotations: &Annotations<'_>, problems: &mut Problems) -> Vec<StringMatch> {
    let Some(found) = annotations.find(&CORS_ALLOW_ORIGIN, value::list_or_star, problems) else {
        return vec![matching(MatchType::Regex(".*".to_owned()))];
    };
    let mut origins = Vec::new();
    for item in found.value.iter().filter(|item| !item.is_empty()) {
        match origin(item, annotations.semantics()) {
            Ok(origin) => origins.push(matching(origin)),
            Err(error) => problems.invalid(found.key, &error),
        }
    }
    origins
}

fn matching(match_type: MatchType) -> StringMatch {
    StringMatch {
        match_type: Some(match_type),
    }
}

/// `*`, `null`, `scheme://host[:port]`, or the latter with `*` at the start of its host, which stands for any scheme and depth
/// in Higress.
fn origin(item: &str, semantics: Semantics) -> Value<MatchType> {
    if item == "*" {
        return Ok(MatchType::Regex(".*".to_owned()));
    }
    if item == "null" {
        return Ok(MatchType::Exact(item.to_owned()));
    }
    let item = item.strip_suffix('/').unwrap_or(item);
    let error = || {
        let why =
            "is not an origin; write https://host[:port], https://*.domain or *. It is left out";
        ValueError::new(item, why)
    };
    let (scheme, authority) = item.split_once("://").ok_or_else(error)?;
    let host = authority.strip_prefix('*').unwrap_or(authority);
    if !text::is_authority(host) {
        return Err(error());
    }
    if semantics == Semantics::IngressNginx && text::is_token(scheme) {
        return Ok(ingress_nginx::cors::origin(scheme, host, host != authority));
    }
    if host != authority {
        return Ok(MatchType::Regex(format!(".*{}", text::literal(host))));
    }
    match item.parse::<Uri>() {
        Ok(uri) if uri.host().is_some() => Ok(MatchType::Exact(item.to_owned())),
        _ => Err(error()),
    }
}

impl Cors {
    /// Sets the policy of a route.
    pub(crate) fn apply(&self, http: &mut HttpRoute) {
        http.cors_policy = Some(self.policy.clone());
    }

    /// The route for requests that ask what is allowed, where ingress-nginx answers them before everything else.
    pub(crate) fn preflight(&self, http: &HttpRoute) -> Option<HttpRoute> {
        match self.semantics {
            Semantics::Higress => None,
            Semantics::IngressNginx => ingress_nginx::cors::preflight(&self.policy, http),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::annotations::testing::{parsed_as, problems_of};
    use rstest::rstest;

    fn policy(list: &[(&str, &str)]) -> (CorsPolicy, usize) {
        let mut all = vec![("nginx/enable-cors", "true")];
        all.extend(list);
        let (cors, problems) = problems_of(&all, parse);
        (cors.unwrap().policy, problems.len())
    }

    #[test]
    fn defaults() {
        let (policy, mistakes) = policy(&[]);
        assert_eq!(
            policy.allow_origins,
            [matching(MatchType::Regex(".*".to_owned()))]
        );
        assert_eq!(
            (policy.allow_methods.len(), policy.allow_headers.len()),
            (6, 9)
        );
        assert!(policy.expose_headers.is_empty() && policy.allow_credentials.unwrap().value);
        assert_eq!(policy.max_age.unwrap().seconds, 1_728_000);
        assert_eq!(mistakes, 0);
    }

    #[rstest]
    #[case("https://a.com", Some("exact https://a.com"))]
    #[case("https://a.com/", Some("exact https://a.com"))]
    #[case("https://*.b.com:8443", Some(r"regex .*\.b\.com:8443"))]
    #[case("null", Some("exact null"))]
    #[case("*.c.com", None)]
    #[case("a.com", None)]
    #[case("https://a.*.com", None)]
    #[case("https://a.com/x", None)]
    #[case("https://", None)]
    fn origins_are_read(#[case] value: &str, #[case] expected: Option<&str>) {
        let (policy, mistakes) = policy(&[("nginx/cors-allow-origin", value)]);
        let found = policy.allow_origins.first().map(|o| match &o.match_type {
            Some(MatchType::Exact(text)) => format!("exact {text}"),
            Some(MatchType::Regex(text)) => format!("regex {text}"),
            _ => String::new(),
        });
        assert_eq!(found.as_deref(), expected);
        assert_eq!(mistakes, usize::from(expected.is_none()));
    }

    #[rstest]
    #[case("X-A,X-B", &["X-A", "X-B"], 0)]
    #[case(" x-a , ,X B", &["x-a"], 1)]
    #[case("x, *", &["*"], 0)]
    fn lists(#[case] value: &str, #[case] expected: &[&str], #[case] mistakes: usize) {
        let (policy, found) = policy(&[("higress/cors-allow-headers", value)]);
        assert_eq!(policy.allow_headers, expected);
        assert_eq!(found, mistakes);
    }

    #[rstest]
    #[case("600", 600, 0)]
    #[case("-1", -1, 0)]
    #[case("1h", 1_728_000, 1)]
    fn ages(#[case] value: &str, #[case] expected: i64, #[case] mistakes: usize) {
        let (policy, found) = policy(&[("nginx/cors-max-age", value)]);
        assert_eq!(
            (policy.max_age.unwrap().seconds, found),
            (expected, mistakes)
        );
    }

    #[test]
    fn the_switch() {
        let both = [
            ("nginx/enable-cors", "yes"),
            ("higress/enable-cors", "true"),
        ];
        let (cors, problems) = problems_of(&both, parse);
        assert!(cors.is_some());
        assert_eq!(problems, [Reason::InvalidAnnotation]);
        let (cors, problems) = problems_of(&[("nginx/cors-max-age", "5")], parse);
        assert!(cors.is_none());
        assert_eq!(problems, [Reason::IneffectiveAnnotation]);
    }

    #[rstest]
    #[case("https://*.b.com:8443", r"(?i)https://[a-z0-9-]+\.b\.com:8443")]
    #[case("http://A.com/", r"(?i)http://A\.com")]
    #[case("*", ".*")]
    fn origins_of_ingress_nginx(#[case] origin: &str, #[case] expected: &str) {
        let list = [
            ("nginx.ingress.kubernetes.io/enable-cors", "true"),
            ("nginx.ingress.kubernetes.io/cors-allow-origin", origin),
        ];
        let (cors, problems) = parsed_as(Semantics::IngressNginx, &list, parse);
        let policy = cors.unwrap().policy;
        assert_eq!(problems, []);
        let expected = matching(MatchType::Regex(expected.to_owned()));
        assert_eq!(policy.allow_origins, [expected]);
        assert!(policy.allow_headers.contains(&"Range".to_owned()));
    }
}
