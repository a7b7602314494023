//! Timeout and retries of requests.

use shared_proto::networking::v1alpha3::traffic_policy::PortTrafficPolicy;
use shared_proto::networking::v1alpha3::{HttpRetry, HttpRoute};
use shared_proto::well_known::Duration;

use super::table::{
    PROXY_CONNECT_TIMEOUT, PROXY_NEXT_UPSTREAM, PROXY_NEXT_UPSTREAM_TIMEOUT,
    PROXY_NEXT_UPSTREAM_TRIES, PROXY_READ_TIMEOUT, PROXY_SEND_TIMEOUT, TIMEOUT,
};
use super::value::{self, ValueError};
use super::{Annotations, Problems, ingress_nginx};
use crate::model::Semantics;

/// Above what gateways can count in nanoseconds they refuse a duration; this is below.
const LONGEST: i64 = 2_147_483_647;
const TRIES: i32 = 3;
const ANY_FAILURE: &str = "5xx";

/// Bound on a whole request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Timeout(Duration);

/// Reads the timeout; 0 is none.
pub(crate) fn parse_timeout(
    annotations: &Annotations<'_>,
    problems: &mut Problems,
) -> Option<Timeout> {
    let seconds = annotations.get(&TIMEOUT, seconds, problems)?;
    (seconds > 0).then_some(Timeout(duration(seconds)))
}

/// Reads the seconds that may pass without a byte in either direction.
pub(crate) fn parse_idle(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<i64> {
    let positive = |raw: &str| value::integer_within(raw, 1, LONGEST);
    let keys = [&PROXY_READ_TIMEOUT, &PROXY_SEND_TIMEOUT];
    let all = keys.map(|key| annotations.get(key, positive, problems));
    let given = all.into_iter().flatten().max();
    let nginx = annotations.semantics() == Semantics::IngressNginx;
    given.or_else(|| nginx.then_some(ingress_nginx::IDLE))
}

pub(super) fn seconds(raw: &str) -> value::Value<i64> {
    value::integer_within(raw, 0, LONGEST)
}

fn duration(seconds: i64) -> Duration {
    Duration { seconds, nanos: 0 }
}

impl Timeout {
    /// Sets the timeout of a route.
    pub(crate) fn apply(&self, http: &mut HttpRoute) {
        http.timeout = Some(self.0);
    }
}

/// Bound on the time that a connection to an endpoint may take to be established.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ConnectTimeout(Duration);

/// Reads the bound on connecting.
pub(crate) fn parse_connect(
    annotations: &Annotations<'_>,
    problems: &mut Problems,
) -> Option<ConnectTimeout> {
    let seconds = |raw: &str| value::integer_within(raw, 1, LONGEST);
    let seconds = annotations.get(&PROXY_CONNECT_TIMEOUT, seconds, problems)?;
    Some(ConnectTimeout(duration(seconds)))
}

impl ConnectTimeout {
    /// Sets the bound of a port.
    pub(crate) fn apply(&self, policy: &mut PortTrafficPolicy) {
        let pool = policy.connection_pool.get_or_insert_default();
        pool.tcp.get_or_insert_default().connect_timeout = Some(self.0);
    }
}

/// What is tried again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Retry(HttpRetry);

/// Reads the retry family; any of its keys turns it on.
pub(crate) fn parse_retry(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<Retry> {
    if annotations.semantics() == Semantics::IngressNginx {
        return Some(Retry(ingress_nginx::retry::parse(annotations, problems)));
    }
    let keys = [
        &PROXY_NEXT_UPSTREAM,
        &PROXY_NEXT_UPSTREAM_TRIES,
        &PROXY_NEXT_UPSTREAM_TIMEOUT,
    ];
    if !keys.iter().any(|key| annotations.has(key)) {
        return None;
    }
    let tries = annotations.get(&PROXY_NEXT_UPSTREAM_TRIES, tries, problems);
    let timeout = annotations.get(&PROXY_NEXT_UPSTREAM_TIMEOUT, seconds, problems);
    let mut retry = HttpRetry {
        attempts: tries.unwrap_or(TRIES),
        per_try_timeout: Some(duration(timeout.unwrap_or(0))),
        retry_on: ANY_FAILURE.to_owned(),
        ..HttpRetry::default()
    };
    if let Some(found) = annotations.find(&PROXY_NEXT_UPSTREAM, value::text, problems) {
        match conditions(found.key, &found.value, ANY_FAILURE, problems) {
            Some(retry_on) => retry.retry_on = retry_on,
            None => {
                retry.attempts = 0;
                retry.per_try_timeout = Some(duration(0));
            }
        }
    }
    Some(Retry(retry))
}

pub(super) fn tries(raw: &str) -> value::Value<i32> {
    let tries = value::integer32(raw)?;
    if tries >= 0 {
        return Ok(tries);
    }
    Err(ValueError::new(raw, "is below 0; use 0 for none"))
}

/// The conditions in the form of Istio, `failure_name` standing for errors and timeouts; `None` = off. Unknown words are left
/// out and reported.
pub(super) fn conditions(
    key: &str,
    text: &str,
    failure_name: &str,
    problems: &mut Problems,
) -> Option<String> {
    let words: Vec<&str> = if text.contains(',') {
        text.split(',')
            .map(str::trim)
            .filter(|w| !w.is_empty())
            .collect()
    } else {
        text.split_whitespace().collect()
    };
    if words.contains(&"off") {
        return None;
    }
    let mut failure = false;
    let mut non_idempotent = false;
    let mut codes = Vec::new();
    for word in words {
        let code = word
            .strip_prefix("http_")
            .and_then(|code| code.parse::<u16>().ok());
        match (word, code) {
            ("error" | "timeout" | "invalid_header", _) => failure = true,
            ("non_idempotent", _) => non_idempotent = true,
            (_, Some(code)) if (100..600).contains(&code) => codes.push(code.to_string()),
            _ => {
                let why = "is not a condition; use error, timeout, invalid_header, http_503 and the like, non_idempotent or off";
                problems.invalid(key, &ValueError::new(word, why));
            }
        }
    }
    let mut parts = Vec::new();
    parts.extend(failure.then(|| failure_name.to_owned()));
    parts.extend(non_idempotent.then(|| "non_idempotent".to_owned()));
    if !codes.is_empty() {
        parts.push("retriable-status-codes".to_owned());
        parts.extend(codes);
    }
    Some(parts.join(","))
}

impl Retry {
    /// Sets the retries of a route.
    pub(crate) fn apply(&self, http: &mut HttpRoute) {
        http.retries = Some(self.0.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::annotations::testing::{parsed_as, problems_of};
    use rstest::rstest;

    #[rstest]
    #[case(Semantics::Higress, &[], None)]
    #[case(Semantics::IngressNginx, &[], Some(60))]
    #[case(Semantics::IngressNginx, &[(PROXY_READ_TIMEOUT.nginx, "30")], Some(30))]
    fn idle_times(
        #[case] semantics: Semantics,
        #[case] list: &[(&str, &str)],
        #[case] expected: Option<i64>,
    ) {
        assert_eq!(parsed_as(semantics, list, parse_idle), (expected, vec![]));
    }

    #[rstest]
    #[case("5", Some(5), 0)]
    #[case("0", None, 0)]
    #[case("soon", None, 1)]
    #[case("5s", None, 1)]
    #[case("-1", None, 1)]
    #[case("99999999999", None, 1)]
    fn timeouts(#[case] value: &str, #[case] expected: Option<i64>, #[case] mistakes: usize) {
        let (timeout, problems) = problems_of(&[("higress/timeout", value)], parse_timeout);
        assert_eq!(timeout.map(|t| t.0.seconds), expected);
        assert_eq!(problems.len(), mistakes);
        let nginx = problems_of(&[("nginx/timeout", value)], parse_timeout);
        assert_eq!((nginx.0, nginx.1.len()), (None, 0));
    }

    #[rstest]
    #[case("5", Some(5))]
    #[case("0", None)]
    #[case("5s", None)]
    #[case("-1", None)]
    fn connect_timeouts(#[case] value: &str, #[case] expected: Option<i64>) {
        let list = [("nginx/proxy-connect-timeout", value)];
        let (timeout, problems) = problems_of(&list, parse_connect);
        let found = timeout.map(|timeout| {
            let mut policy = PortTrafficPolicy::default();
            timeout.apply(&mut policy);
            let tcp = policy.connection_pool.unwrap().tcp.unwrap();
            tcp.connect_timeout.unwrap().seconds
        });
        assert_eq!(found, expected);
        assert_eq!(problems.len(), usize::from(expected.is_none()));
    }

    type Expected<'a> = (i32, i64, &'a str);

    #[rstest]
    #[case(&[("nginx/proxy-next-upstream", "error timeout http_502 http_503 non_idempotent"), ("nginx/proxy-next-upstream-timeout", "2")], (3, 2, "5xx,non_idempotent,retriable-status-codes,502,503"), 0)]
    #[case(&[("nginx/proxy-next-upstream", "http_503")], (3, 0, "retriable-status-codes,503"), 0)]
    #[case(&[("nginx/proxy-next-upstream", "http_503 , error")], (3, 0, "5xx,retriable-status-codes,503"), 0)]
    #[case(&[("nginx/proxy-next-upstream", "error off"), ("nginx/proxy-next-upstream-timeout", "2")], (0, 0, "5xx"), 0)]
    #[case(&[("nginx/proxy-next-upstream", "updating")], (3, 0, ""), 1)]
    #[case(&[("nginx/proxy-next-upstream", "http_999 http_x error")], (3, 0, "5xx"), 2)]
    #[case(&[("nginx/proxy-next-upstream-tries", "2")], (2, 0, "5xx"), 0)]
    #[case(&[("nginx/proxy-next-upstream-tries", "many")], (3, 0, "5xx"), 1)]
    #[case(&[("nginx/proxy-next-upstream-tries", "-1")], (3, 0, "5xx"), 1)]
    #[case(&[("nginx/proxy-next-upstream-tries", "0")], (0, 0, "5xx"), 0)]
    fn retries(
        #[case] list: &[(&str, &str)],
        #[case] expected: Expected<'_>,
        #[case] mistakes: usize,
    ) {
        let (retry, problems) = problems_of(list, parse_retry);
        let retry = retry.unwrap().0;
        let seconds = retry.per_try_timeout.unwrap().seconds;
        assert_eq!((retry.attempts, seconds, retry.retry_on.as_str()), expected);
        assert_eq!(problems.len(), mistakes);
    }
}
