//! CORS.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::extensions::filters::http::cors::v3 as cors;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher;
use envoy_types::pb::google::protobuf;
use shared_proto::networking::v1alpha3::{CorsPolicy, cors_policy::UnmatchedPreflights};

use super::report::{Problem, Report};
use super::{header_value, matches};
use crate::translate::issue::Reason;
use crate::translate::lds::CORS;
use crate::translate::proto;

/// Sets the policy of a route. Origins that cannot be used are left out; a policy without any
/// allows nobody.
pub(super) fn apply(
    policy: &CorsPolicy,
    settings: &mut BTreeMap<String, protobuf::Any>,
    report: &mut Report<'_>,
) {
    let config = cors::CorsPolicy {
        allow_origin_string_match: origins(policy, report),
        allow_methods: list("allowMethods", &policy.allow_methods, report),
        allow_headers: list("allowHeaders", &policy.allow_headers, report),
        expose_headers: list("exposeHeaders", &policy.expose_headers, report),
        max_age: policy
            .max_age
            .as_ref()
            .map(|age| age.seconds.to_string())
            .unwrap_or_default(),
        allow_credentials: policy
            .allow_credentials
            .as_ref()
            .map(|allow| proto::boolean(allow.value)),
        filter_enabled: Some(core::RuntimeFractionalPercent {
            default_value: Some(proto::hundred_percent()),
            ..Default::default()
        }),
        forward_not_matching_preflights: forward(policy).map(proto::boolean),
        ..Default::default()
    };
    settings.insert(CORS.to_owned(), proto::any(&config));
}

fn forward(policy: &CorsPolicy) -> Option<bool> {
    match policy.unmatched_preflights() {
        UnmatchedPreflights::Unspecified => None,
        UnmatchedPreflights::Forward => Some(true),
        UnmatchedPreflights::Ignore => Some(false),
    }
}

fn origins(policy: &CorsPolicy, report: &mut Report<'_>) -> Vec<matcher::StringMatcher> {
    let any = || {
        proto::string_match(matcher::string_matcher::MatchPattern::SafeRegex(
            proto::regex(".*"),
        ))
    };
    let mut result = Vec::new();
    for origin in &policy.allow_origin {
        result.push(if origin == "*" {
            any()
        } else {
            proto::string_match(matcher::string_matcher::MatchPattern::Exact(origin.clone()))
        });
    }
    for origin in &policy.allow_origins {
        if origin.match_type.is_none() {
            continue;
        }
        match report.optional(matches::string("allowOrigins", origin)) {
            Some(Some(matcher)) => result.push(matcher),
            Some(None) => result.push(any()),
            None => {}
        }
    }
    result
}

fn list(what: &str, items: &[String], report: &mut Report<'_>) -> String {
    let joined = items.join(",");
    if header_value::is_valid(&joined) {
        return joined;
    }
    report.add(Problem::new(
        Reason::InvalidHeader,
        format!("cors {what} has control characters or is too long; it is left out"),
    ));
    String::new()
}
