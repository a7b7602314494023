//! Rate limits that every gateway instance counts for itself, shared by all clients.

use shared_proto::networking::v1alpha3::{
    HttpFilter, HttpRoute, LocalRateLimit, TokenBucket, http_filter::Filter,
};
use shared_proto::well_known::Duration;

use super::table::{ROUTE_LIMIT_BURST_MULTIPLIER, ROUTE_LIMIT_RPM, ROUTE_LIMIT_RPS};
use super::value::{self, Value};
use super::{Annotations, Problems};
use crate::model::Reason;

/// Name of the filter, part of the output.
const FILTER: &str = "local-rate-limit";
/// Answer to what is too much.
const TOO_MANY_REQUESTS: u32 = 429;
const DEFAULT_BURST: u32 = 5;

/// A limit on the requests of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RateLimit {
    /// Requests in an interval.
    limit: u32,
    /// Requests that may come at once.
    burst: u32,
    /// The interval in seconds.
    interval: i64,
}

/// Reads the limit. Requests per minute beat those per second.
pub(crate) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<RateLimit> {
    let per_minute = annotations.find(&ROUTE_LIMIT_RPM, positive, problems);
    let per_second = annotations.find(&ROUTE_LIMIT_RPS, positive, problems);
    let (found, interval) = match (per_minute, per_second) {
        (Some(minute), second) => {
            if let Some(second) = second {
                let message = format!("has no effect beside {}; remove one", minute.key);
                problems.add(second.key, Reason::IneffectiveAnnotation, message);
            }
            (minute, 60)
        }
        (None, second) => (second?, 1),
    };
    let factor = annotations
        .get(&ROUTE_LIMIT_BURST_MULTIPLIER, positive, problems)
        .unwrap_or(DEFAULT_BURST);
    let Some(burst) = found.value.checked_mul(factor) else {
        let message = format!(
            "{} times the burst multiplier {factor} is more than {}; lower one of them",
            found.value,
            u32::MAX
        );
        problems.add(found.key, Reason::InvalidAnnotation, message);
        return None;
    };
    Some(RateLimit {
        limit: found.value,
        burst,
        interval,
    })
}

fn positive(text: &str) -> Value<u32> {
    let number = value::integer_within(text, 1, u32::MAX.into())?;
    // In range, as just checked.
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

impl RateLimit {
    /// Adds the filter.
    pub(crate) fn apply(&self, http: &mut HttpRoute) {
        http.route_http_filters.push(HttpFilter {
            name: FILTER.to_owned(),
            filter: Some(Filter::LocalRateLimit(LocalRateLimit {
                token_bucket: Some(TokenBucket {
                    max_tokens: self.burst,
                    tokens_pef_fill: self.limit,
                    fill_interval: Some(Duration {
                        seconds: self.interval,
                        nanos: 0,
                    }),
                }),
                status_code: TOO_MANY_REQUESTS,
                ..LocalRateLimit::default()
            })),
            ..HttpFilter::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::parsed;
    use rstest::rstest;

    #[rstest]
    #[case(&[], None, 0)]
    #[case(&[("higress.io/route-limit-rpm", "2"), ("higress.io/route-limit-burst-multiplier", "3")], Some((2, 6, 60)), 0)]
    #[case(&[("higress.io/route-limit-rps", "10")], Some((10, 50, 1)), 0)]
    #[case::minutes_win(&[("higress.io/route-limit-rpm", "60"), ("higress.io/route-limit-rps", "1")], Some((60, 300, 60)), 1)]
    #[case::invalid_minutes(&[("higress.io/route-limit-rpm", "x"), ("higress.io/route-limit-rps", "1")], Some((1, 5, 1)), 1)]
    #[case::higress_only(&[("nginx.ingress.kubernetes.io/route-limit-rps", "1")], None, 0)]
    #[case::zero(&[("higress.io/route-limit-rps", "0")], None, 1)]
    #[case::negative(&[("higress.io/route-limit-rps", "-1")], None, 1)]
    #[case::bad_multiplier(&[("higress.io/route-limit-rps", "1"), ("higress.io/route-limit-burst-multiplier", "0")], Some((1, 5, 1)), 1)]
    #[case::overflow(&[("higress.io/route-limit-rps", "4294967295")], None, 1)]
    #[case::too_large(&[("higress.io/route-limit-rps", "4294967296")], None, 1)]
    fn limits(
        #[case] annotations: &[(&str, &str)],
        #[case] expected: Option<(u32, u32, i64)>,
        #[case] problems: usize,
    ) {
        let (limit, found) = parsed(annotations, super::parse);
        assert_eq!(limit.map(|l| (l.limit, l.burst, l.interval)), expected);
        assert_eq!(found.len(), problems, "{found:?}");
    }
}
