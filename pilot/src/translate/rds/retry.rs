//! Retries.
//!
//! The default is set once per virtual host; a route has a policy only when the user wrote one.

use envoy_types::pb::envoy::config::route::v3 as route;
use envoy_types::pb::envoy::extensions::retry::host::previous_hosts::v3 as previous_hosts;
use envoy_types::pb::envoy::extensions::retry::priority::previous_priorities::v3 as previous_priorities;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher;
use route::retry_policy::{RetryBackOff, RetryHostPredicate, RetryPriority};
use shared_proto::networking::v1alpha3::HttpRetry;

use super::report::{Report, duration};
use crate::translate::proto;

const DEFAULT_RETRY_ON: &str =
    "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes";
const DEFAULT_RETRIES: u32 = 2;
/// How often another host is looked for that was not tried yet.
const HOST_ATTEMPTS: i64 = 5;
/// Methods whose requests may have an effect each time they are sent.
const NOT_IDEMPOTENT: &str = "POST|PATCH|LOCK";

/// Two retries of requests that a backend did not serve.
pub(super) fn default_policy() -> route::RetryPolicy {
    route::RetryPolicy {
        retry_on: DEFAULT_RETRY_ON.to_owned(),
        num_retries: Some(proto::uint(DEFAULT_RETRIES)),
        retriable_status_codes: vec![503],
        retriable_request_headers: vec![idempotent()],
        retry_host_predicate: vec![other_host()],
        host_selection_retry_max_attempts: HOST_ATTEMPTS,
        ..Default::default()
    }
}

/// The policy that a user wrote; no attempts means no retries, not the default.
pub(super) fn policy(retry: &HttpRetry, report: &mut Report<'_>) -> route::RetryPolicy {
    let attempts = u32::try_from(retry.attempts).unwrap_or(0);
    if attempts == 0 {
        return route::RetryPolicy {
            num_retries: Some(proto::uint(0)),
            ..Default::default()
        };
    }
    let mut policy = default_policy();
    policy.num_retries = Some(proto::uint(attempts));
    if !retry.retry_on.is_empty() {
        conditions(&retry.retry_on, &mut policy);
    }
    policy.per_try_timeout = retry
        .per_try_timeout
        .as_ref()
        .and_then(|value| report.optional(duration("perTryTimeout", value)))
        .filter(|value| value.seconds > 0 || value.nanos > 0);
    policy.retry_back_off = retry
        .backoff
        .as_ref()
        .and_then(|value| report.optional(duration("backoff", value)))
        .filter(|value| value.seconds > 0 || value.nanos >= 1_000_000)
        .map(|base| RetryBackOff {
            base_interval: Some(base),
            max_interval: None,
        });
    if retry
        .retry_ignore_previous_hosts
        .as_ref()
        .is_some_and(|on| !on.value)
    {
        policy.retry_host_predicate.clear();
    }
    if retry
        .retry_remote_localities
        .as_ref()
        .is_some_and(|on| on.value)
    {
        policy.retry_priority = Some(other_priority());
    }
    policy
}

/// Where requests are hashed to an endpoint, a retry goes to the same one: another one would not know the client.
pub(super) fn stay(policy: &mut route::RetryPolicy) {
    policy.retry_host_predicate.clear();
    policy.host_selection_retry_max_attempts = 0;
}

/// Numbers in the list are status codes, the rest are Envoy's conditions.
fn conditions(retry_on: &str, policy: &mut route::RetryPolicy) {
    let mut names = Vec::new();
    policy.retriable_status_codes.clear();
    for item in retry_on
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        match item.parse::<u32>() {
            Ok(code) if (100..600).contains(&code) => policy.retriable_status_codes.push(code),
            Ok(_) => {}
            Err(_) => names.push(item),
        }
    }
    if names.contains(&"non_idempotent") {
        policy.retriable_request_headers.clear();
    }
    if !policy.retriable_status_codes.is_empty() && !names.contains(&"retriable-status-codes") {
        names.push("retriable-status-codes");
    }
    policy.retry_on = names.join(",");
}

fn idempotent() -> route::HeaderMatcher {
    let regex = matcher::string_matcher::MatchPattern::SafeRegex(proto::regex(NOT_IDEMPOTENT));
    route::HeaderMatcher {
        name: ":method".to_owned(),
        invert_match: true,
        header_match_specifier: Some(route::header_matcher::HeaderMatchSpecifier::StringMatch(
            proto::string_match(regex),
        )),
        ..Default::default()
    }
}

fn other_host() -> RetryHostPredicate {
    use route::retry_policy::retry_host_predicate::ConfigType;
    RetryHostPredicate {
        name: "envoy.retry_host_predicates.previous_hosts".to_owned(),
        config_type: Some(ConfigType::TypedConfig(proto::any(
            &previous_hosts::PreviousHostsPredicate::default(),
        ))),
    }
}

fn other_priority() -> RetryPriority {
    use route::retry_policy::retry_priority::ConfigType;
    let config = previous_priorities::PreviousPrioritiesConfig {
        update_frequency: 2,
    };
    RetryPriority {
        name: "envoy.retry_priorities.previous_priorities".to_owned(),
        config_type: Some(ConfigType::TypedConfig(proto::any(&config))),
    }
}
