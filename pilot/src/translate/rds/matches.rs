//! Conditions of a route: path, headers, query parameters, and where they apply.

use envoy_types::pb::envoy::config::route::v3 as route;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher;
use route::header_matcher::HeaderMatchSpecifier;
use route::query_parameter_matcher::QueryParameterMatchSpecifier;
use route::route_match::PathSpecifier;
use shared_proto::networking::v1alpha3::{HttpMatchRequest, StringMatch, string_match::MatchType};

use super::header_value;
use super::report::Problem;
use super::route::Context;
use crate::translate::issue::Reason;
use crate::translate::proto;

/// Longest name of a query parameter that Envoy takes.
const MAX_PARAMETER_NAME: usize = 1024;

/// True when the condition can hold on this port and at these proxies.
pub(super) fn applies(context: Context<'_>, condition: &HttpMatchRequest) -> bool {
    if condition.port != 0 && condition.port != u32::from(context.host.port) {
        return false;
    }
    if !condition.gateways.is_empty() {
        return condition.gateways.iter().any(|name| binds(context, name));
    }
    let proxy = context.host.proxy;
    let labels = condition
        .source_labels
        .iter()
        .all(|(key, value)| proxy.labels.get(key) == Some(value));
    labels
        && (condition.source_namespace.is_empty() || condition.source_namespace == proxy.namespace)
}

fn binds(context: Context<'_>, name: &str) -> bool {
    let full = match name.split_once('/') {
        Some((".", name)) => format!("{}/{name}", context.vs.namespace),
        Some(_) => name.to_owned(),
        None => format!("{}/{name}", context.vs.namespace),
    };
    context.vs.gateways.iter().any(|known| **known == *full)
}

/// The condition as Envoy has it.
pub(super) fn route_match(
    context: Context<'_>,
    condition: &HttpMatchRequest,
) -> Result<route::RouteMatch, Problem> {
    let mut headers = Vec::new();
    for (name, value) in &condition.headers {
        headers.push(header(name, value, false)?);
    }
    for (name, value) in &condition.without_headers {
        headers.push(header(name, value, true)?);
    }
    headers.sort_by(|left, right| left.name.cmp(&right.name));
    let pseudo = [
        (":method", &condition.method),
        (":authority", &condition.authority),
        (":scheme", &condition.scheme),
    ];
    for (name, value) in pseudo {
        if let Some(value) = value {
            headers.push(header(name, value, false)?);
        }
    }
    let query_parameters = condition
        .query_params
        .iter()
        .map(|(name, value)| query_parameter(name, value))
        .collect::<Result<_, _>>()?;
    let path = path(context, condition)?;
    let case_sensitive = condition.ignore_uri_case.then(|| proto::boolean(false));
    Ok(route::RouteMatch {
        path_specifier: Some(path),
        case_sensitive,
        headers,
        query_parameters,
        ..Default::default()
    })
}

fn path(context: Context<'_>, condition: &HttpMatchRequest) -> Result<PathSpecifier, Problem> {
    let Some(uri) = condition
        .uri
        .as_ref()
        .and_then(|uri| uri.match_type.as_ref())
    else {
        return Ok(PathSpecifier::Prefix("/".to_owned()));
    };
    match uri {
        MatchType::Exact(path) => plain_path(path).map(PathSpecifier::Path),
        MatchType::Prefix(prefix) => {
            let prefix = plain_path(prefix)?;
            Ok(prefix_specifier(context, prefix))
        }
        MatchType::Regex(expression) if expression == "*" => {
            Ok(PathSpecifier::Prefix("/".to_owned()))
        }
        MatchType::Regex(expression) => regex("path", expression).map(PathSpecifier::SafeRegex),
    }
}

fn plain_path(path: &str) -> Result<String, Problem> {
    if path.is_empty() || !header_value::is_valid(path) {
        return Err(Problem::new(
            Reason::InvalidPath,
            format!("path {path:?} cannot be matched"),
        ));
    }
    Ok(path.to_owned())
}

/// For objects with gateway semantics a prefix ends at a `/`. Envoy has that for prefixes without
/// `?`, `#` and a slash at the end, which no request path has either.
fn prefix_specifier(context: Context<'_>, prefix: String) -> PathSpecifier {
    let segments = prefix.trim_end_matches('/');
    let whole = context.vs.gateway_semantics
        && segments.len() > 1
        && segments.starts_with('/')
        && !segments.contains(['?', '#']);
    if whole {
        PathSpecifier::PathSeparatedPrefix(segments.to_owned())
    } else {
        PathSpecifier::Prefix(prefix)
    }
}

/// An expression that Envoy takes, as a matcher of the whole value.
pub(super) fn regex(what: &str, expression: &str) -> Result<matcher::RegexMatcher, Problem> {
    match re2_pattern::parse(expression) {
        Ok(pattern) => Ok(proto::regex(&pattern.text)),
        Err(why) => Err(Problem::new(
            Reason::InvalidRegex,
            format!("{what}: regular expression {expression:?} {why}"),
        )),
    }
}

fn header(name: &str, value: &StringMatch, invert: bool) -> Result<route::HeaderMatcher, Problem> {
    if !header_value::is_name(name.strip_prefix(':').unwrap_or(name)) {
        return Err(Problem::new(
            Reason::InvalidHeader,
            format!("{name:?} is no header name"),
        ));
    }
    let specifier = match string(name, value)? {
        Some(pattern) => HeaderMatchSpecifier::StringMatch(pattern),
        None => HeaderMatchSpecifier::PresentMatch(true),
    };
    Ok(route::HeaderMatcher {
        name: name.to_owned(),
        invert_match: invert,
        header_match_specifier: Some(specifier),
        ..Default::default()
    })
}

fn query_parameter(
    name: &str,
    value: &StringMatch,
) -> Result<route::QueryParameterMatcher, Problem> {
    if name.is_empty() || name.len() > MAX_PARAMETER_NAME {
        return Err(Problem::new(
            Reason::InvalidValue,
            "a query parameter has no name, or one of more than 1024 bytes",
        ));
    }
    let specifier = match string(name, value)? {
        Some(pattern) => QueryParameterMatchSpecifier::StringMatch(pattern),
        None => QueryParameterMatchSpecifier::PresentMatch(true),
    };
    Ok(route::QueryParameterMatcher {
        name: name.to_owned(),
        query_parameter_match_specifier: Some(specifier),
    })
}

/// `None` means "present, with any value".
pub(super) fn string(
    what: &str,
    value: &StringMatch,
) -> Result<Option<matcher::StringMatcher>, Problem> {
    use matcher::string_matcher::MatchPattern;
    let pattern = match &value.match_type {
        None => return Ok(None),
        Some(MatchType::Regex(expression)) if expression == "*" => return Ok(None),
        Some(MatchType::Prefix(prefix)) if prefix.is_empty() => return Ok(None),
        Some(MatchType::Exact(text)) => MatchPattern::Exact(text.clone()),
        Some(MatchType::Prefix(prefix)) => MatchPattern::Prefix(prefix.clone()),
        Some(MatchType::Regex(expression)) => MatchPattern::SafeRegex(regex(what, expression)?),
    };
    Ok(Some(proto::string_match(pattern)))
}
