//! Largest request body.

use serde_json::{Value, json};

use super::table::PROXY_BODY_SIZE;
use super::value::{self, ValueError};
use super::{Annotations, Problems};
use crate::translate::ingress::filters::{message, typed_extension};

/// Reads the size in bytes; `None` is no bound.
pub(crate) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<u64> {
    let size = annotations.get(&PROXY_BODY_SIZE, size, problems)?;
    (size > 0).then_some(size)
}

/// Digits, and `k`, `m` or `g` in either case.
fn size(text: &str) -> value::Value<u64> {
    let text = text.trim();
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number = digits.parse::<u64>().ok().filter(|_| plain);
    let bytes = number.and_then(|number| number.checked_mul(1 << shift));
    bytes.filter(|bytes| *bytes <= u64::MAX / 2).ok_or_else(|| {
        let why = "is not a size; write digits, and k, m or g for larger units, such as 8m";
        ValueError::new(text, why)
    })
}

/// Settings of the filter for one route. Envoy's own filter has none for routes, so it is run by one that has.
pub(crate) fn settings(bytes: u64) -> Value {
    let limit = message(
        "envoy.extensions.filters.http.body_size_limit.v3.BodySizeLimit",
        json!({"max_request_bytes": bytes.to_string()}),
    );
    let action = super::filters::run("body-size", limit);
    super::filters::unless(&is_upgrade(), action)
}

/// What follows an upgrade is no body. Envoy removes the header from requests that are none.
fn is_upgrade() -> Value {
    let input = message(
        "envoy.type.matcher.v3.HttpRequestHeaderMatchInput",
        json!({"header_name": "upgrade"}),
    );
    json!({"single_predicate": {
        "input": typed_extension("upgrade", input),
        "value_match": {"safe_regex": {"google_re2": {}, "regex": ".*"}},
    }})
}

#[cfg(test)]
mod tests {
    use super::super::testing::problems_of;
    use rstest::rstest;

    #[rstest]
    #[case("8m", Some(8 << 20), 0)]
    #[case("8M", Some(8 << 20), 0)]
    #[case("1k", Some(1024), 0)]
    #[case("2g", Some(2 << 30), 0)]
    #[case("10", Some(10), 0)]
    #[case("0", None, 0)]
    #[case("0m", None, 0)]
    #[case("m", None, 1)]
    #[case("-1", None, 1)]
    #[case("+1", None, 1)]
    #[case("8mb", None, 1)]
    #[case("8 m", None, 1)]
    #[case("99999999999999999999", None, 1)]
    #[case("99999999999g", None, 1)]
    fn sizes(#[case] text: &str, #[case] expected: Option<u64>, #[case] problems: usize) {
        let (size, found) = problems_of(&[("nginx/proxy-body-size", text)], super::parse);
        assert_eq!((size, found.len()), (expected, problems));
    }
}
