//! Canary Ingresses: which requests, or what share of them, an Ingress takes from another one.
//!
//! What becomes of the routes is in [`canary`](crate::translate::ingress).

use super::table::{
    CANARY, CANARY_BY_COOKIE, CANARY_BY_HEADER, CANARY_BY_HEADER_PATTERN, CANARY_BY_HEADER_VALUE,
    CANARY_WEIGHT, CANARY_WEIGHT_TOTAL, Key,
};
use super::text;
use super::value::{self, Value, ValueError};
use super::{Annotations, Found, Problems};
use crate::model::{Reason, Semantics};

/// Value of a header or cookie that always means the canary.
const ALWAYS: &str = "always";
/// Value of a header or cookie that never means the canary, in ingress-nginx.
const NEVER: &str = "never";
const DEFAULT_TOTAL: i64 = 100;
/// Shares are counted in millionths.
pub(crate) const WHOLE: u64 = 1_000_000;

/// What a canary takes: the first decision that fits a request holds. Without decisions it gets nothing, because a value cannot be
/// used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Canary {
    /// The decisions, in the order in which they are tried.
    pub(crate) decisions: Vec<Decision>,
}

/// What becomes of some requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Those with this header.
    Header {
        /// Name of the header.
        name: String,
        /// Its values.
        value: HeaderValue,
        /// They go to the canary; else they stay.
        taken: bool,
    },
    /// A share of them, in millionths, goes to the canary.
    Share(u64),
}

impl Canary {
    /// A canary that selects in one way.
    fn one(decision: Decision) -> Self {
        Self {
            decisions: vec![decision],
        }
    }
}

/// Values of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderValue {
    /// Exactly this.
    Exact(String),
    /// What this regular expression matches as a whole.
    Regex(String),
}

/// Reads what a canary takes; `None` for an Ingress that is none. The header beats the cookie, which beats the weight: in Higress
/// one of them counts, in ingress-nginx they are tried in this order.
pub(crate) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<Canary> {
    if !annotations.is_on(&CANARY, problems) {
        return None;
    }
    Some(match annotations.semantics() {
        Semantics::Higress => higress(annotations, problems),
        Semantics::IngressNginx => ingress_nginx(annotations, problems),
    })
}

fn higress(annotations: &Annotations<'_>, problems: &mut Problems) -> Canary {
    let line = value::line;
    let header = annotations.find(&CANARY_BY_HEADER, token, problems);
    if annotations.has(&CANARY_BY_HEADER) && header.is_none() {
        return Canary::default();
    }
    let Some(header) = header else {
        for key in [&CANARY_BY_HEADER_VALUE, &CANARY_BY_HEADER_PATTERN] {
            if let Some(found) = annotations.find(key, line, problems) {
                let message = "has no effect without canary-by-header; name the header";
                problems.add(found.key, Reason::IneffectiveAnnotation, message);
            }
        }
        return without_header(annotations, problems);
    };
    let value = header_value(annotations, problems);
    for key in [&CANARY_BY_COOKIE, &CANARY_WEIGHT] {
        ineffective(annotations, key, &header, problems);
    }
    let name = header.value;
    let decision = value.map(|value| Decision::Header {
        name,
        value,
        taken: true,
    });
    decision.map(Canary::one).unwrap_or_default()
}

/// Header, then cookie, then weight. A value or pattern of the header takes the place of `always` and `never`.
fn ingress_nginx(annotations: &Annotations<'_>, problems: &mut Problems) -> Canary {
    let mut canary = Canary::default();
    let decisions = &mut canary.decisions;
    if annotations.has(&CANARY_BY_HEADER) {
        let header = annotations.get(&CANARY_BY_HEADER, token, problems);
        let values = header.and_then(|name| Some((name, nginx_values(annotations, problems)?)));
        let Some((name, values)) = values else {
            return Canary::default();
        };
        decisions.extend(values.into_iter().map(|(value, taken)| Decision::Header {
            name: name.clone(),
            value,
            taken,
        }));
    }
    if annotations.has(&CANARY_BY_COOKIE) {
        let Some(name) = annotations.get(&CANARY_BY_COOKIE, token, problems) else {
            return Canary::default();
        };
        decisions.extend([(ALWAYS, true), (NEVER, false)].map(|(value, taken)| {
            let (name, value) = cookie(&name, value);
            Decision::Header { name, value, taken }
        }));
    }
    decisions.push(Decision::Share(share(annotations, problems)));
    canary
}

/// Values of the header and whether they lead to the canary; `None` for an expression that cannot be used.
fn nginx_values(
    annotations: &Annotations<'_>,
    problems: &mut Problems,
) -> Option<Vec<(HeaderValue, bool)>> {
    let value = annotations.get(&CANARY_BY_HEADER_VALUE, value::line, problems);
    if let Some(value) = value {
        return Some(vec![(HeaderValue::Exact(value), true)]);
    }
    let of_pattern = &CANARY_BY_HEADER_PATTERN;
    if annotations.has(of_pattern) {
        let pattern = annotations.get(of_pattern, search, problems)?;
        return Some(vec![(HeaderValue::Regex(pattern), true)]);
    }
    let exact = |text: &str| HeaderValue::Exact(text.to_owned());
    Some(vec![(exact(ALWAYS), true), (exact(NEVER), false)])
}

/// Values of the header that lead to the canary; `None` for an expression that cannot be used.
fn header_value(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<HeaderValue> {
    let (of_value, of_pattern) = (&CANARY_BY_HEADER_VALUE, &CANARY_BY_HEADER_PATTERN);
    let values = |text: &str| expression(text, |text| format!("{ALWAYS}|{text}"));
    if let Some(found) = annotations.find(of_value, values, problems) {
        ineffective(annotations, of_pattern, &found, problems);
        return Some(HeaderValue::Regex(found.value));
    }
    if let Some(regex) = annotations.get(of_pattern, search, problems) {
        return Some(HeaderValue::Regex(regex));
    }
    let asked = annotations.has(of_value) || annotations.has(of_pattern);
    (!asked).then(|| HeaderValue::Exact(ALWAYS.to_owned()))
}

/// An expression that is searched for in a value.
fn search(raw: &str) -> Value<String> {
    expression(raw, |text| match text.contains('|') {
        true => format!(".*({text}).*"),
        false => format!(".*{text}.*"),
    })
}

/// The header and its values for a cookie with this value.
fn cookie(name: &str, value: &str) -> (String, HeaderValue) {
    let name = text::literal(name);
    let expression = format!(r"^(.*?;\s*)?({name}={value})(;.*)?$");
    ("cookie".to_owned(), HeaderValue::Regex(expression))
}

fn without_header(annotations: &Annotations<'_>, problems: &mut Problems) -> Canary {
    if let Some(found) = annotations.find(&CANARY_BY_COOKIE, token, problems) {
        ineffective(annotations, &CANARY_WEIGHT, &found, problems);
        let (name, value) = cookie(&found.value, ALWAYS);
        let taken = true;
        return Canary::one(Decision::Header { name, value, taken });
    }
    if annotations.has(&CANARY_BY_COOKIE) {
        return Canary::default();
    }
    Canary::one(Decision::Share(share(annotations, problems)))
}

/// The weight in millionths.
fn share(annotations: &Annotations<'_>, problems: &mut Problems) -> u64 {
    let total = |text: &str| value::integer_within(text, 1, WHOLE as i64);
    let total = annotations.get(&CANARY_WEIGHT_TOTAL, total, problems);
    let least = match annotations.semantics() {
        Semantics::Higress => 1,
        // A smaller total counts as absent.
        Semantics::IngressNginx => DEFAULT_TOTAL,
    };
    let total = total
        .filter(|total| *total >= least)
        .unwrap_or(DEFAULT_TOTAL);
    let Some(weight) = annotations.find(&CANARY_WEIGHT, value::integer, problems) else {
        return 0;
    };
    if !(0..=total).contains(&weight.value) {
        let message = format!(
            "{} is not from 0 to the total of {total}; the nearest of these is used",
            weight.value
        );
        problems.add(weight.key, Reason::InvalidAnnotation, message);
    }
    // Both are from 0 to a million now.
    let part = weight.value.clamp(0, total).unsigned_abs();
    part * WHOLE / total.unsigned_abs()
}

/// Reports a key that another one makes useless.
fn ineffective<T>(
    annotations: &Annotations<'_>,
    key: &Key,
    winner: &Found<T>,
    problems: &mut Problems,
) {
    // Its value is not looked at, so it cannot be wrong.
    let present = annotations.find(key, |text| Ok(text.to_owned()), problems);
    if let Some(found) = present {
        let message = format!(
            "has no effect beside {}; one canary selects in one way, remove one",
            winner.key
        );
        problems.add(found.key, Reason::IneffectiveAnnotation, message);
    }
}

/// A name of a header or cookie.
fn token(raw: &str) -> Value<String> {
    let name = value::line(raw)?;
    if text::is_token(&name) {
        return Ok(name);
    }
    let why = "is not a name; use letters, digits and `-`, `_` or `.`";
    Err(ValueError::new(&name, why))
}

/// A regular expression, good by itself and after `wrap`.
fn expression(raw: &str, wrap: impl Fn(&str) -> String) -> Value<String> {
    let text = value::line(raw)?;
    let error = |why: re2_pattern::Refusal| {
        let why =
            format!("is not a regular expression of RE2 syntax ({why}); the canary gets nothing");
        ValueError::new(&text, &why)
    };
    let own = re2_pattern::parse(&text).map_err(error)?;
    let whole = re2_pattern::parse(&wrap(&own.text)).map_err(error)?;
    Ok(whole.text)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{parsed, parsed_as};
    use super::*;
    use rstest::rstest;

    const ON: (&str, &str) = ("nginx.ingress.kubernetes.io/canary", "true");
    const HEADER: &str = "nginx.ingress.kubernetes.io/canary-by-header";
    const VALUE: &str = "nginx.ingress.kubernetes.io/canary-by-header-value";
    const PATTERN: &str = "higress.io/canary-by-header-pattern";
    const COOKIE: &str = "nginx.ingress.kubernetes.io/canary-by-cookie";
    const WEIGHT: &str = "nginx.ingress.kubernetes.io/canary-weight";
    const TOTAL: &str = "nginx.ingress.kubernetes.io/canary-weight-total";

    fn shown(canary: Option<Canary>) -> String {
        match canary {
            None => "main".to_owned(),
            Some(canary) if canary.decisions.is_empty() => "nothing".to_owned(),
            Some(canary) => {
                let all = canary.decisions.iter().map(decision);
                all.collect::<Vec<_>>().join(", ")
            }
        }
    }

    fn decision(decision: &Decision) -> String {
        match decision {
            Decision::Share(share) => share.to_string(),
            Decision::Header { name, value, taken } => {
                let not = if *taken { "" } else { "not " };
                match value {
                    HeaderValue::Exact(text) => format!("{not}{name} = {text}"),
                    HeaderValue::Regex(text) => format!("{not}{name} ~ {text}"),
                }
            }
        }
    }

    #[rstest]
    #[case::bare(&[ON], "0", 0)]
    #[case::weight(&[ON, (WEIGHT, "25")], "250000", 0)]
    #[case::total(&[ON, (WEIGHT, "5"), (TOTAL, "1000")], "5000", 0)]
    #[case::small_total(&[ON, (WEIGHT, "5"), (TOTAL, "10")], "50000", 0)]
    #[case::header(&[ON, (HEADER, "x"), (WEIGHT, "50")], "x = always, not x = never, 500000", 0)]
    #[case::value(&[ON, (HEADER, "x"), (VALUE, "a|b"), (PATTERN, "(")], "x = a|b, 0", 0)]
    #[case::pattern(&[ON, (HEADER, "x"), (PATTERN, "b[0-9]")], "x ~ .*b[0-9].*, 0", 0)]
    #[case::all(
        &[ON, (HEADER, "x"), (VALUE, "v"), (COOKIE, "c"), (WEIGHT, "1")],
        r"x = v, cookie ~ ^(.*?;\s*)?(c=always)(;.*)?$, not cookie ~ ^(.*?;\s*)?(c=never)(;.*)?$, 10000",
        0
    )]
    #[case::bad_header(&[ON, (HEADER, "x y"), (WEIGHT, "50")], "nothing", 1)]
    #[case::bad_pattern(&[ON, (HEADER, "x"), (PATTERN, "("), (WEIGHT, "50")], "nothing", 1)]
    #[case::bad_cookie(&[ON, (COOKIE, "a=b"), (WEIGHT, "5")], "nothing", 1)]
    fn canaries_of_ingress_nginx(
        #[case] annotations: &[(&str, &str)],
        #[case] expected: &str,
        #[case] problems: usize,
    ) {
        let (canary, found) = parsed_as(Semantics::IngressNginx, annotations, parse);
        assert_eq!(shown(canary), expected);
        assert_eq!(found.len(), problems, "{found:?}");
    }

    #[rstest]
    #[case::main(&[], "main", 0)]
    #[case::off(&[("nginx.ingress.kubernetes.io/canary", "false"), (WEIGHT, "5")], "main", 0)]
    #[case::no_boolean(&[("nginx.ingress.kubernetes.io/canary", "yes")], "main", 1)]
    #[case::bare(&[ON], "0", 0)]
    #[case::weight(&[ON, (WEIGHT, "25")], "250000", 0)]
    #[case::odd(&[ON, (WEIGHT, "53")], "530000", 0)]
    #[case::total(&[ON, (WEIGHT, "1"), (TOTAL, "3")], "333333", 0)]
    #[case::above(&[ON, (WEIGHT, "300"), (TOTAL, "200")], "1000000", 1)]
    #[case::below(&[ON, (WEIGHT, "-1")], "0", 1)]
    #[case::zero_total(&[ON, (WEIGHT, "5"), (TOTAL, "0")], "50000", 1)]
    #[case::no_number(&[ON, (WEIGHT, "5%")], "0", 1)]
    #[case::header(&[ON, (HEADER, "X-Canary")], "X-Canary = always", 0)]
    #[case::header_and_weight(&[ON, (HEADER, "x"), (WEIGHT, "50")], "x = always", 1)]
    #[case::header_and_cookie(&[ON, (HEADER, "x"), (COOKIE, "c")], "x = always", 1)]
    #[case::bad_header(&[ON, (HEADER, "x y"), (WEIGHT, "50")], "nothing", 1)]
    #[case::value(&[ON, (HEADER, "x"), (VALUE, "north")], "x ~ always|north", 0)]
    #[case::value_and_pattern(&[ON, (HEADER, "x"), (VALUE, "v"), (PATTERN, "p")], "x ~ always|v", 1)]
    #[case::pattern(&[ON, (HEADER, "ua"), (PATTERN, "Beta/[0-9]+")], "ua ~ .*Beta/[0-9]+.*", 0)]
    #[case::alternatives(&[ON, (HEADER, "ua"), (PATTERN, "a|b")], "ua ~ .*(a|b).*", 0)]
    #[case::bad_pattern(&[ON, (HEADER, "ua"), (PATTERN, "(a")], "nothing", 1)]
    #[case::escaping_pattern(&[ON, (HEADER, "ua"), (PATTERN, "a)|(b")], "nothing", 1)]
    #[case::bad_value_good_pattern(&[ON, (HEADER, "ua"), (VALUE, "("), (PATTERN, "b")], "ua ~ .*b.*", 1)]
    #[case::value_alone(&[ON, (VALUE, "v"), (WEIGHT, "5")], "50000", 1)]
    #[case::cookie(&[ON, (COOKIE, "stage")], r"cookie ~ ^(.*?;\s*)?(stage=always)(;.*)?$", 0)]
    #[case::dotted_cookie(&[ON, (COOKIE, "a.b")], r"cookie ~ ^(.*?;\s*)?(a\.b=always)(;.*)?$", 0)]
    #[case::cookie_and_weight(&[ON, (COOKIE, "c"), (WEIGHT, "5")], r"cookie ~ ^(.*?;\s*)?(c=always)(;.*)?$", 1)]
    #[case::bad_cookie(&[ON, (COOKIE, "a=b"), (WEIGHT, "5")], "nothing", 1)]
    fn canaries(
        #[case] annotations: &[(&str, &str)],
        #[case] expected: &str,
        #[case] problems: usize,
    ) {
        let (canary, found) = parsed(annotations, parse);
        assert_eq!(shown(canary), expected);
        assert_eq!(found.len(), problems, "{found:?}");
    }
}
