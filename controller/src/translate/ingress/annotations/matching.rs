//! Conditions on requests beside host and path: methods, headers, query parameters.
//!
//! A condition narrows a route. If one cannot be read, the route would take requests that are not meant for it, so it is not
//! served at all.

use std::collections::BTreeMap;

use shared_proto::networking::v1alpha3::string_match::MatchType;
use shared_proto::networking::v1alpha3::{HttpMatchRequest, StringMatch};

use super::table::{
    EXACT_MATCH_HEADER, EXACT_MATCH_PSEUDO, EXACT_MATCH_QUERY, Key, MATCH_METHOD,
    PREFIX_MATCH_HEADER, PREFIX_MATCH_PSEUDO, PREFIX_MATCH_QUERY, REGEX_MATCH_HEADER,
    REGEX_MATCH_PSEUDO, REGEX_MATCH_QUERY,
};
use super::value::{Value, ValueError, shorten};
use super::{Annotations, Problems, text};
use crate::model::Reason;

const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];
const PSEUDO_HEADERS: [&str; 4] = ["authority", "method", "path", "scheme"];
/// Longest name of a query parameter that gateways take.
const MAX_PARAMETER: usize = 1024;
const NOT_SERVED: &str =
    "the routes of this Ingress are not served, as they would take other requests too";

/// How a text is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Compare {
    Exact,
    Prefix,
    Regex,
}

type Conditions = BTreeMap<String, (Compare, String)>;

/// The conditions that tell routes with the same path apart. Methods are sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    methods: Vec<&'static str>,
    headers: Conditions,
    query: Conditions,
}

/// What the family asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Matching {
    /// Methods as written, each once.
    methods: Vec<&'static str>,
    /// The conditions.
    pub(crate) identity: Identity,
    /// A condition cannot be read.
    pub(crate) unusable: bool,
}

/// Reads the family.
pub(crate) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<Matching> {
    let methods = methods(annotations, problems);
    let mut reader = Reader {
        annotations,
        problems,
        unusable: false,
    };
    let mut headers = Conditions::new();
    for (compare, key) in [
        (Compare::Exact, &EXACT_MATCH_HEADER),
        (Compare::Prefix, &PREFIX_MATCH_HEADER),
        (Compare::Regex, &REGEX_MATCH_HEADER),
    ] {
        reader.read(compare, key, header_name, &mut headers);
    }
    for (compare, key) in [
        (Compare::Exact, &EXACT_MATCH_PSEUDO),
        (Compare::Prefix, &PREFIX_MATCH_PSEUDO),
        (Compare::Regex, &REGEX_MATCH_PSEUDO),
    ] {
        reader.read(compare, key, pseudo_header_name, &mut headers);
    }
    let mut query = Conditions::new();
    for (compare, key) in [
        (Compare::Exact, &EXACT_MATCH_QUERY),
        (Compare::Prefix, &PREFIX_MATCH_QUERY),
        (Compare::Regex, &REGEX_MATCH_QUERY),
    ] {
        reader.read(compare, key, parameter_name, &mut query);
    }
    let unusable = reader.unusable;
    let mut sorted = methods.clone();
    sorted.sort_unstable();
    let identity = Identity {
        methods: sorted,
        headers,
        query,
    };
    (unusable || identity != Identity::default()).then_some(Matching {
        methods,
        identity,
        unusable,
    })
}

fn methods(annotations: &Annotations<'_>, problems: &mut Problems) -> Vec<&'static str> {
    let Some(found) = annotations.find(&MATCH_METHOD, |raw| Ok(raw.to_owned()), problems) else {
        return Vec::new();
    };
    let mut methods = Vec::new();
    for word in found.value.split_whitespace() {
        match METHODS.iter().find(|m| m.eq_ignore_ascii_case(word)) {
            Some(method) if !methods.contains(method) => methods.push(method),
            Some(_) => {}
            None => {
                let why = format!("is not a method; use some of {}", METHODS.join(" "));
                problems.invalid(found.key, &ValueError::new(word, &why));
            }
        }
    }
    if methods.is_empty() {
        let message = "names no method, so the routes take all of them; name one";
        problems.add(found.key, Reason::InvalidAnnotation, message);
    }
    methods
}

struct Reader<'a, 'b> {
    annotations: &'a Annotations<'a>,
    problems: &'b mut Problems,
    unusable: bool,
}

impl Reader<'_, '_> {
    fn read(
        &mut self,
        compare: Compare,
        key: &Key,
        name_of: fn(&str) -> Value<String>,
        conditions: &mut Conditions,
    ) {
        for (full, name, raw) in self.annotations.named(key) {
            let read = name_of(name).and_then(|name| Ok((name, check(compare, raw)?)));
            match read {
                Ok((name, ())) if conditions.contains_key(&name) => {
                    let message = format!(
                        "{name} has a condition already (exact before prefix before regex); remove one"
                    );
                    self.problems
                        .add(full, Reason::IneffectiveAnnotation, message);
                }
                Ok((name, ())) => _ = conditions.insert(name, (compare, raw.to_owned())),
                Err(ValueError(why)) => {
                    self.unusable = true;
                    let reason = match compare {
                        Compare::Regex => Reason::InvalidRegex,
                        _ => Reason::InvalidAnnotation,
                    };
                    self.problems
                        .add(full, reason, format!("{why}; {NOT_SERVED}"));
                }
            }
        }
    }
}

fn header_name(name: &str) -> Value<String> {
    if text::is_token(name) {
        return Ok(name.to_ascii_lowercase());
    }
    Err(ValueError::new(name, "is not the name of a header"))
}

fn pseudo_header_name(name: &str) -> Value<String> {
    if PSEUDO_HEADERS.contains(&name) {
        return Ok(format!(":{name}"));
    }
    let why = format!("is not a pseudo header; use {}", PSEUDO_HEADERS.join(", "));
    Err(ValueError::new(name, &why))
}

fn parameter_name(name: &str) -> Value<String> {
    if name.len() <= MAX_PARAMETER && text::is_header_value(name) {
        return Ok(name.to_owned());
    }
    Err(ValueError::new(
        name,
        "is not the name of a query parameter",
    ))
}

fn check(compare: Compare, raw: &str) -> Value<()> {
    if compare == Compare::Regex {
        return re2_pattern::parse(raw)
            .map(drop)
            .map_err(|why| ValueError(format!("regular expression {:?} {why}", shorten(raw))));
    }
    if text::is_header_value(raw) {
        return Ok(());
    }
    Err(ValueError::new(
        raw,
        "has a line break or another control character",
    ))
}

impl Matching {
    /// Adds the conditions to those of a route.
    pub(crate) fn apply(&self, conditions: &mut [HttpMatchRequest]) {
        for condition in conditions {
            if !self.methods.is_empty() {
                condition.method = Some(string_match(Compare::Regex, &self.methods.join("|")));
            }
            for (name, (compare, text)) in &self.identity.headers {
                let entry = condition.headers.entry(name.clone());
                entry.or_insert_with(|| string_match(*compare, text));
            }
            for (name, (compare, text)) in &self.identity.query {
                let entry = condition.query_params.entry(name.clone());
                entry.or_insert_with(|| string_match(*compare, text));
            }
        }
    }
}

fn string_match(compare: Compare, text: &str) -> StringMatch {
    let text = text.to_owned();
    StringMatch {
        match_type: Some(match compare {
            Compare::Exact => MatchType::Exact(text),
            Compare::Prefix => MatchType::Prefix(text),
            Compare::Regex => MatchType::Regex(text),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::annotations::testing::problems_of;
    use rstest::rstest;

    fn matching(list: &[(&str, &str)]) -> Matching {
        problems_of(list, parse).0.unwrap()
    }

    #[rstest]
    #[case("get POST foo", &["GET", "POST"], 1)]
    #[case("PATCH patch  PUT", &["PATCH", "PUT"], 0)]
    fn methods_are_read(#[case] value: &str, #[case] expected: &[&str], #[case] mistakes: usize) {
        let (matching, problems) = problems_of(&[("higress/match-method", value)], parse);
        assert_eq!(matching.unwrap().methods, expected);
        assert_eq!(problems.len(), mistakes);
    }

    #[test]
    fn no_method_is_no_condition() {
        let (matching, problems) = problems_of(&[("higress/match-method", "foo")], parse);
        assert_eq!(matching, None);
        assert_eq!(problems, [Reason::InvalidAnnotation; 2]);
        // The other prefix is not read.
        assert_eq!(problems_of(&[("nginx/match-method", "GET")], parse).0, None);
    }

    #[test]
    fn the_order_of_methods_is_no_difference() {
        let one = matching(&[("higress/match-method", "GET POST")]);
        let other = matching(&[("higress/match-method", "POST GET")]);
        assert_eq!(one.identity, other.identity);
        assert_ne!(one.methods, other.methods);
    }

    #[test]
    fn conditions_are_added_to_every_match() {
        let matching = matching(&[
            ("higress/match-method", "POST GET"),
            ("higress/exact-match-header-X-A", " 1"),
            ("higress/regex-match-pseudo-header-authority", "a.+"),
            ("higress/prefix-match-query-User", "7"),
        ]);
        let mut conditions = [HttpMatchRequest::default(), HttpMatchRequest::default()];
        matching.apply(&mut conditions);
        assert_eq!(conditions[0], conditions[1]);
        let [first, _] = conditions;
        assert_eq!(first.method, Some(string_match(Compare::Regex, "POST|GET")));
        let headers: Vec<_> = first.headers.into_iter().collect();
        assert_eq!(
            headers,
            [
                (":authority".to_owned(), string_match(Compare::Regex, "a.+")),
                ("x-a".to_owned(), string_match(Compare::Exact, " 1")),
            ]
        );
        assert_eq!(
            first.query_params["User"],
            string_match(Compare::Prefix, "7")
        );
    }

    #[test]
    fn the_same_name_twice() {
        let list = [
            ("higress/regex-match-header-a", "x"),
            ("higress/exact-match-header-A", "y"),
        ];
        let (matching, problems) = problems_of(&list, parse);
        let expected = (Compare::Exact, "y".to_owned());
        assert_eq!(matching.unwrap().identity.headers["a"], expected);
        assert_eq!(problems, [Reason::IneffectiveAnnotation]);
    }

    #[rstest]
    #[case("regex-match-header-a", "(unclosed", Reason::InvalidRegex)]
    #[case("regex-match-query-a", "", Reason::InvalidRegex)]
    #[case("exact-match-header-a b", "x", Reason::InvalidAnnotation)]
    #[case("exact-match-header-a", "x\ny", Reason::InvalidAnnotation)]
    #[case("exact-match-pseudo-header-host", "x", Reason::InvalidAnnotation)]
    fn a_condition_that_cannot_be_read(
        #[case] name: &str,
        #[case] value: &str,
        #[case] reason: Reason,
    ) {
        let key = format!("higress/{name}");
        let (matching, problems) = problems_of(&[(&key, value)], parse);
        assert!(matching.unwrap().unusable);
        assert_eq!(problems, [reason]);
    }
}
