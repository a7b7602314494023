//! Cross-origin requests as ingress-nginx has them: other headers by default, and origins in any letter case whose `*` is one
//! label.

use shared_proto::networking::v1alpha3::string_match::MatchType;
use shared_proto::networking::v1alpha3::{CorsPolicy, HttpDirectResponse, HttpRoute, StringMatch};

use super::super::text;
use crate::translate::names;

const NO_CONTENT: u32 = 204;
/// Any origin, as the policy has it.
const ANY: &str = ".*";

/// Headers that clients may send when nothing is said about them.
pub(in super::super) const HEADERS: [&str; 9] = [
    "DNT",
    "Keep-Alive",
    "User-Agent",
    "X-Requested-With",
    "If-Modified-Since",
    "Cache-Control",
    "Content-Type",
    "Range",
    "Authorization",
];
/// A part of a host name.
const LABEL: &str = "[a-z0-9-]+";

/// The origin `scheme://authority`; with `wildcard` something stands before the authority.
pub(in super::super) fn origin(scheme: &str, authority: &str, wildcard: bool) -> MatchType {
    let label = if wildcard { LABEL } else { "" };
    let (scheme, authority) = (text::literal(scheme), text::literal(authority));
    MatchType::Regex(format!("(?i){scheme}://{label}{authority}"))
}

/// The route for requests with method OPTIONS of an allowed origin (of any request when all origins are): 204 with the policy in headers. `None`
/// when the route takes other methods only, or the origins are too many for one condition.
pub(in super::super) fn preflight(policy: &CorsPolicy, http: &HttpRoute) -> Option<HttpRoute> {
    let origins: Vec<String> = policy.allow_origins.iter().filter_map(expression).collect();
    let any = origins.iter().any(|origin| origin == ANY);
    let origin = origins.join("|");
    if !any {
        re2_pattern::parse(&origin).ok()?;
    }
    let pattern = |match_type| StringMatch {
        match_type: Some(match_type),
    };
    let mut conditions = http.r#match.clone();
    for condition in &mut conditions {
        if condition.method.is_some() {
            return None;
        }
        condition.method = Some(pattern(MatchType::Exact("OPTIONS".to_owned())));
        if !any {
            let value = pattern(MatchType::Regex(origin.clone()));
            condition.headers.insert("origin".to_owned(), value);
        }
    }
    let mut answer = HttpRoute {
        name: names::preflight_route(&http.name),
        r#match: conditions,
        direct_response: Some(HttpDirectResponse {
            status: NO_CONTENT,
            body: None,
        }),
        ..HttpRoute::default()
    };
    let headers = answer.headers.get_or_insert_default();
    headers.response.get_or_insert_default().set = said(policy, any).into();
    Some(answer)
}

/// An origin as an expression.
fn expression(origin: &StringMatch) -> Option<String> {
    match origin.match_type.as_ref()? {
        MatchType::Exact(text) => Some(text::literal(text)),
        MatchType::Regex(expression) if expression == ANY => Some(ANY.to_owned()),
        MatchType::Regex(expression) => Some(format!("(?:{expression})")),
        MatchType::Prefix(_) => None,
    }
}

/// The policy in headers.
fn said(policy: &CorsPolicy, any: bool) -> [(String, String); 5] {
    let credentials = policy
        .allow_credentials
        .as_ref()
        .is_some_and(|allow| allow.value);
    let age = policy.max_age.as_ref().map_or(0, |age| age.seconds);
    let origin = if any { "*" } else { "%REQ(ORIGIN)%" };
    [
        ("access-control-allow-origin", origin.to_owned()),
        ("access-control-allow-credentials", credentials.to_string()),
        (
            "access-control-allow-methods",
            policy.allow_methods.join(", "),
        ),
        (
            "access-control-allow-headers",
            policy.allow_headers.join(","),
        ),
        ("access-control-max-age", age.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}
