//! Attempts with other endpoints as ingress-nginx counts them: all of them, the first one too.

use shared_proto::networking::v1alpha3::HttpRetry;

use super::super::limits::{self, conditions};
use super::super::table::{
    PROXY_NEXT_UPSTREAM, PROXY_NEXT_UPSTREAM_TIMEOUT, PROXY_NEXT_UPSTREAM_TRIES,
};
use super::super::value;
use super::super::{Annotations, Problems};
use crate::model::Reason;

/// Attempts when nothing is said about them.
const TRIES: i32 = 3;
/// Attempts when they are not bounded: nginx ends when it has tried all endpoints, gateways have to be given a number.
const UNBOUNDED: i32 = 10;
/// What counts as `error` or `timeout`: the backend gave no answer. One that it gave, 500 for example, is passed on.
const NO_ANSWER: &str = "connect-failure,refused-stream,reset";

/// Reads the family. ingress-nginx tries again even where nothing is said about it.
pub(in super::super) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> HttpRetry {
    let tries = annotations.get(&PROXY_NEXT_UPSTREAM_TRIES, limits::tries, problems);
    let tries = match tries {
        None => TRIES,
        Some(0) => UNBOUNDED,
        Some(tries) => tries,
    };
    let bound = annotations.find(&PROXY_NEXT_UPSTREAM_TIMEOUT, limits::seconds, problems);
    if let Some(found) = bound.filter(|found| found.value > 0) {
        let message = format!(
            "bounds the time in which further attempts begin, for which gateways have no setting; bound their number with {}",
            PROXY_NEXT_UPSTREAM_TRIES.name
        );
        problems.add(found.key, Reason::IneffectiveAnnotation, message);
    }
    let mut retry = HttpRetry {
        attempts: tries - 1,
        retry_on: NO_ANSWER.to_owned(),
        ..HttpRetry::default()
    };
    if let Some(found) = annotations.find(&PROXY_NEXT_UPSTREAM, value::text, problems) {
        match conditions(found.key, &found.value, NO_ANSWER, problems) {
            None => retry.attempts = 0,
            // Nothing of it could be read.
            Some(nothing) if nothing.is_empty() => {}
            Some(retry_on) => retry.retry_on = retry_on,
        }
    }
    retry
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::problems_of;
    use super::*;
    use rstest::rstest;

    const WORDS: &str = "nginx/proxy-next-upstream";
    const COUNT: &str = "nginx/proxy-next-upstream-tries";

    #[rstest]
    #[case::default(&[], 2, NO_ANSWER, 0)]
    #[case::once(&[(COUNT, "1")], 0, NO_ANSWER, 0)]
    #[case::unbounded(&[(COUNT, "0")], 9, NO_ANSWER, 0)]
    #[case::below(&[(COUNT, "-1")], 2, NO_ANSWER, 1)]
    #[case::off(&[(WORDS, "error off"), (COUNT, "5")], 0, NO_ANSWER, 0)]
    #[case::statuses(&[(WORDS, "http_502 http_503")], 2, "retriable-status-codes,502,503", 0)]
    #[case::all(
        &[(WORDS, "error timeout http_503 non_idempotent"), (COUNT, "2")],
        1,
        "connect-failure,refused-stream,reset,non_idempotent,retriable-status-codes,503",
        0
    )]
    #[case::unknown(&[(WORDS, "sometimes")], 2, NO_ANSWER, 1)]
    #[case::time(&[("nginx/proxy-next-upstream-timeout", "5")], 2, NO_ANSWER, 1)]
    fn retries(
        #[case] list: &[(&str, &str)],
        #[case] attempts: i32,
        #[case] retry_on: &str,
        #[case] mistakes: usize,
    ) {
        let (retry, problems) = problems_of(list, |a, p| Some(parse(a, p)));
        let retry = retry.unwrap();
        assert_eq!(
            (retry.attempts, retry.retry_on.as_str()),
            (attempts, retry_on)
        );
        assert_eq!(problems.len(), mistakes, "{problems:?}");
    }
}
