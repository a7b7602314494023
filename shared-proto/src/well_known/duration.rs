//! `google.protobuf.Duration` and its text forms: protobuf-JSON (`1.5s`) and Go's (`1m30s`, `100ms`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const NANOS_PER_SECOND: i128 = 1_000_000_000;
/// Largest magnitude that the protobuf documentation allows, in seconds (about 10,000 years).
const MAX_SECONDS: i128 = 315_576_000_000;

/// A signed span of time, `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Duration {
    /// Whole seconds, same sign as `nanos`.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Fraction in nanoseconds, below one second in magnitude.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration {text:?}: want a number with a unit, such as 5s, 1.5s, 100ms or 1m30s")]
pub struct DurationError {
    text: String,
}

impl Duration {
    fn from_nanos(total: i128) -> Option<Self> {
        let seconds = total / NANOS_PER_SECOND;
        if seconds.abs() > MAX_SECONDS {
            return None;
        }
        Some(Self {
            seconds: i64::try_from(seconds).ok()?,
            nanos: i32::try_from(total % NANOS_PER_SECOND).ok()?,
        })
    }

    fn total_nanos(&self) -> i128 {
        i128::from(self.seconds) * NANOS_PER_SECOND + i128::from(self.nanos)
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_nanos(text)
            .and_then(Self::from_nanos)
            .ok_or_else(|| DurationError {
                text: text.to_owned(),
            })
    }
}

/// Reads `[+-](number unit)+`; `0` alone needs no unit.
fn parse_nanos(text: &str) -> Option<i128> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let unit_len = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_len);
        total = total.checked_add(scale(number, unit_nanos(unit)?)?)?;
        rest = tail;
    }
    Some(if negative { -total } else { total })
}

fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => NANOS_PER_SECOND,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3_600 * NANOS_PER_SECOND,
        _ => return None,
    })
}

/// A decimal number times `unit`; what is finer than a nanosecond is cut off.
fn scale(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || whole.len() > 18 || fraction.len() > 18 {
        return None;
    }
    let digits = |text: &str| match text {
        "" => Some(0),
        _ => text.parse::<i128>().ok(),
    };
    let power = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    Some(digits(whole)? * unit + digits(fraction)? * unit / power)
}

impl fmt::Display for Duration {
    /// Protobuf-JSON form: seconds with 0, 3, 6 or 9 digits of fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total_nanos();
        let sign = if total < 0 { "-" } else { "" };
        let (seconds, nanos) = (
            total.abs() / NANOS_PER_SECOND,
            total.abs() % NANOS_PER_SECOND,
        );
        match nanos {
            0 => write!(f, "{sign}{seconds}s"),
            n if n % 1_000_000 == 0 => write!(f, "{sign}{seconds}.{:03}s", n / 1_000_000),
            n if n % 1_000 == 0 => write!(f, "{sign}{seconds}.{:06}s", n / 1_000),
            n => write!(f, "{sign}{seconds}.{n:09}s"),
        }
    }
}

impl From<std::time::Duration> for Duration {
    /// Saturates at the largest duration that protobuf allows.
    fn from(value: std::time::Duration) -> Self {
        i128::try_from(value.as_nanos())
            .ok()
            .and_then(Self::from_nanos)
            .unwrap_or(Self {
                seconds: 315_576_000_000,
                nanos: 0,
            })
    }
}

impl TryFrom<Duration> for std::time::Duration {
    type Error = std::num::TryFromIntError;

    /// Fails for a negative duration.
    fn try_from(value: Duration) -> Result<Self, Self::Error> {
        let total = value.total_nanos();
        let seconds = u64::try_from(total.div_euclid(NANOS_PER_SECOND))?;
        let nanos = u32::try_from(total.rem_euclid(NANOS_PER_SECOND))?;
        Ok(Self::new(seconds, nanos))
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_json_and_go_notation() {
        for (text, seconds, nanos) in [
            ("5s", 5, 0),
            ("0s", 0, 0),
            ("0", 0, 0),
            ("1.5s", 1, 500_000_000),
            (".5s", 0, 500_000_000),
            ("100ms", 0, 100_000_000),
            ("24h", 86_400, 0),
            ("1m30s", 90, 0),
            ("1h2m3.000000004s", 3_723, 4),
            ("-1.25s", -1, -250_000_000),
            ("10us", 0, 10_000),
        ] {
            assert_eq!(text.parse(), Ok(Duration { seconds, nanos }), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_duration() {
        for text in [
            "",
            "5",
            "s",
            "-",
            "1x",
            "1.2.3s",
            "5 s",
            "1d",
            "9999999999999999999s",
            "999999999999s",
        ] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
    }

    #[test]
    fn prints_json_form() {
        for (text, printed) in [
            ("24h", "86400s"),
            ("1500ms", "1.500s"),
            ("1us", "0.000001s"),
            ("1ns", "0.000000001s"),
            ("-0.5s", "-0.500s"),
        ] {
            assert_eq!(text.parse::<Duration>().unwrap().to_string(), printed);
        }
    }
}
