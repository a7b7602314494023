//! Rate limits of a route, counted by each gateway process for itself.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::extensions::filters::http::local_ratelimit::v3 as ratelimit;
use envoy_types::pb::envoy::r#type::v3 as envoy_type;
use envoy_types::pb::google::protobuf;
use shared_proto::networking::v1alpha3::{HttpFilter, LocalRateLimit, http_filter::Filter};

use super::report::{Problem, Report, duration};
use crate::translate::issue::Reason;
use crate::translate::lds::LOCAL_RATE_LIMIT;
use crate::translate::proto;

/// Envoy refills a bucket every 50 ms at most.
const MIN_FILL_NANOS: i32 = 50_000_000;

/// Sets the limit of a route: its own, else the one of its host. The last of several counts.
pub(super) fn apply(
    host: &[HttpFilter],
    route: &[HttpFilter],
    settings: &mut BTreeMap<String, protobuf::Any>,
    report: &mut Report<'_>,
) {
    let last = host.iter().chain(route).rev().find_map(|filter| {
        let Some(Filter::LocalRateLimit(limit)) = &filter.filter else {
            return None;
        };
        Some((!filter.disable).then_some(limit))
    });
    let Some(Some(limit)) = last else {
        return;
    };
    if let Some(config) = report.optional(config(limit)) {
        settings.insert(LOCAL_RATE_LIMIT.to_owned(), proto::any(&config));
    }
}

fn config(limit: &LocalRateLimit) -> Result<ratelimit::LocalRateLimit, Problem> {
    let always = || core::RuntimeFractionalPercent {
        default_value: Some(proto::hundred_percent()),
        ..Default::default()
    };
    let told = core::HeaderValueOption {
        header: Some(core::HeaderValue {
            key: "x-local-rate-limit".to_owned(),
            value: "true".to_owned(),
            ..Default::default()
        }),
        append_action: core::header_value_option::HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
        ..Default::default()
    };
    Ok(ratelimit::LocalRateLimit {
        stat_prefix: "http_local_rate_limiter".to_owned(),
        status: Some(status(limit.status_code)?),
        token_bucket: Some(bucket(limit)?),
        filter_enabled: Some(always()),
        filter_enforced: Some(always()),
        response_headers_to_add: vec![told],
        local_rate_limit_per_downstream_connection: limit.per_downstream_connection,
        ..Default::default()
    })
}

fn status(code: u32) -> Result<envoy_type::HttpStatus, Problem> {
    let code = if code == 0 { 429 } else { code };
    i32::try_from(code)
        .ok()
        .filter(|code| (400..600).contains(code))
        .filter(|code| envoy_type::StatusCode::try_from(*code).is_ok())
        .map(|code| envoy_type::HttpStatus { code })
        .ok_or_else(|| invalid("status code is none of 400 to 599"))
}

fn bucket(limit: &LocalRateLimit) -> Result<envoy_type::TokenBucket, Problem> {
    let bucket = limit
        .token_bucket
        .as_ref()
        .ok_or_else(|| invalid("there is no token bucket"))?;
    let interval = bucket
        .fill_interval
        .as_ref()
        .ok_or_else(|| invalid("there is no fill interval"))?;
    let interval = duration("fillInterval", interval)?;
    if interval.seconds == 0 && interval.nanos < MIN_FILL_NANOS {
        return Err(invalid("fill interval is below 50 ms"));
    }
    if bucket.max_tokens == 0 || bucket.tokens_pef_fill == 0 {
        return Err(invalid("no requests are allowed at all"));
    }
    Ok(envoy_type::TokenBucket {
        max_tokens: bucket.max_tokens,
        tokens_per_fill: Some(proto::uint(bucket.tokens_pef_fill)),
        fill_interval: Some(interval),
    })
}

fn invalid(what: &str) -> Problem {
    Problem::new(Reason::InvalidValue, format!("rate limit: {what}"))
}
