//! Headers that are added, set or removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shared_proto::networking::v1alpha3::Headers;
use shared_proto::networking::v1alpha3::headers::HeaderOperations;

use super::table::{
    Key, REQUEST_HEADER_ADD, REQUEST_HEADER_REMOVE, REQUEST_HEADER_UPDATE, RESPONSE_HEADER_ADD,
    RESPONSE_HEADER_REMOVE, RESPONSE_HEADER_UPDATE,
};
use super::value::{self, ValueError};
use super::{Annotations, Problem, Problems, secret_text, text};
use crate::model::{Ingress, Reason};
use crate::translate::ingress::{Context, Diagnostics};

/// What the family asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HeaderControl {
    /// Values as they stand in the annotations.
    headers: Headers,
    /// Secrets that values refer to.
    secrets: BTreeSet<Arc<str>>,
}

/// Which way a header goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Response,
}

impl Direction {
    /// True for a name that can be changed. The host of a request can be set, and becomes a rewrite of the host.
    fn takes(self, name: &str, set: bool) -> bool {
        let host = name == ":authority" || name.eq_ignore_ascii_case("host");
        (host && set && self == Self::Request) || (!host && text::is_token(name))
    }
}

/// Reads the family.
pub(crate) fn parse(
    annotations: &Annotations<'_>,
    problems: &mut Problems,
) -> Option<HeaderControl> {
    let keys = [
        [
            &REQUEST_HEADER_ADD,
            &REQUEST_HEADER_UPDATE,
            &REQUEST_HEADER_REMOVE,
        ],
        [
            &RESPONSE_HEADER_ADD,
            &RESPONSE_HEADER_UPDATE,
            &RESPONSE_HEADER_REMOVE,
        ],
    ];
    if !keys.iter().flatten().any(|key| annotations.has(key)) {
        return None;
    }
    let [request, response] = keys;
    let request = operations(annotations, request, Direction::Request, problems);
    let response = operations(annotations, response, Direction::Response, problems);
    let maps = [&request.add, &request.set, &response.add, &response.set];
    let values = maps.into_iter().flat_map(BTreeMap::values);
    let own = annotations.namespace();
    let secrets = values.flat_map(|value| secret_text::secrets(value, own).unwrap_or_default());
    Some(HeaderControl {
        secrets: secrets.collect(),
        headers: Headers {
            request: Some(request),
            response: Some(response),
        },
    })
}

fn operations(
    annotations: &Annotations<'_>,
    [add, set, remove]: [&Key; 3],
    direction: Direction,
    problems: &mut Problems,
) -> HeaderOperations {
    let mut names = Vec::new();
    if let Some(found) = annotations.find(remove, value::list, problems) {
        for name in found.value {
            if direction.takes(&name, false) {
                names.push(name);
            } else {
                let error =
                    ValueError::new(&name, "is not a header that can be removed; it is left out");
                problems.invalid(found.key, &error);
            }
        }
    }
    HeaderOperations {
        add: pairs(annotations, add, direction, problems),
        set: pairs(annotations, set, direction, problems),
        remove: names,
    }
}

fn pairs(
    annotations: &Annotations<'_>,
    key: &Key,
    direction: Direction,
    problems: &mut Problems,
) -> BTreeMap<String, String> {
    let mut pairs = BTreeMap::new();
    let Some(found) = annotations.find(key, value::text, problems) else {
        return pairs;
    };
    for line in found.value.lines().filter(|line| !line.is_empty()) {
        let Some((name, value)) = pair(line) else {
            let error = ValueError::new(
                line,
                "has no value; write name and value, separated by a space",
            );
            problems.invalid(found.key, &error);
            continue;
        };
        if !direction.takes(name, true) {
            let error =
                ValueError::new(name, "is not a header that can be changed; it is left out");
            problems.invalid(found.key, &error);
        } else if !text::is_header_value(value) {
            let error = ValueError::new(
                value,
                "has a control character or is too long; the header is left out",
            );
            problems.invalid(found.key, &error);
        } else if let Err(error) = secret_text::secrets(value, annotations.namespace()) {
            problems.invalid(found.key, &error);
        } else {
            // Names are the same in any letter case; the last one wins.
            pairs.retain(|known: &String, _| !known.eq_ignore_ascii_case(name));
            pairs.insert(name.to_owned(), value.to_owned());
        }
    }
    pairs
}

/// Name and value of a line, separated by white space, each without the quotes around it.
fn pair(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(char::is_whitespace)?;
    let value = value.trim();
    (!value.is_empty()).then(|| (unquote(name), unquote(value)))
}

fn unquote(text: &str) -> &str {
    let inside = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or_else(|| inside('\'')).unwrap_or(text)
}

impl HeaderControl {
    /// The Secrets (namespace, name) that have to be looked up.
    pub(crate) fn secrets(&self, ingress: &Ingress) -> impl Iterator<Item = (Arc<str>, Arc<str>)> {
        let namespace = ingress.namespace.clone();
        let names = self.secrets.iter().cloned();
        names.map(move |name| (namespace.clone(), name))
    }

    /// The operations, for a route or one of its destinations. Headers whose Secrets cannot be found are left out and
    /// reported.
    pub(in crate::translate::ingress) fn headers(
        &self,
        context: Context<'_>,
        ingress: &Ingress,
        diagnostics: &mut Diagnostics,
    ) -> Headers {
        let mut headers = self.headers.clone();
        if self.secrets.is_empty() {
            return headers;
        }
        let mut resolve = |key: &Key, values: &mut BTreeMap<String, String>| {
            values.retain(|name, value| {
                match secret_text::resolve(value, ingress, context.secrets) {
                    Ok(resolved) => *value = resolved,
                    Err(message) => {
                        let problem = Problem {
                            key: key.higress.to_owned(),
                            reason: Reason::InvalidAnnotation,
                            message: format!("{message}; header {name} is left out"),
                        };
                        diagnostics.once(problem.diagnostic(ingress));
                        return false;
                    }
                }
                true
            });
        };
        if let Some(request) = &mut headers.request {
            resolve(&REQUEST_HEADER_ADD, &mut request.add);
            resolve(&REQUEST_HEADER_UPDATE, &mut request.set);
        }
        if let Some(response) = &mut headers.response {
            resolve(&RESPONSE_HEADER_ADD, &mut response.add);
            resolve(&RESPONSE_HEADER_UPDATE, &mut response.set);
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::annotations::testing::problems_of;
    use rstest::rstest;

    #[rstest]
    #[case("x-a 1", &[("x-a", "1")], 0)]
    #[case("x-a 1\n\n  x-b\t two words ", &[("x-a", "1"), ("x-b", "two words")], 0)]
    #[case("'x-a' \"b c\"", &[("x-a", "b c")], 0)]
    #[case("x-a \"\"", &[("x-a", "")], 0)]
    #[case("x-a \"b", &[("x-a", "\"b")], 0)]
    #[case("x-a 1\nX-A 2", &[("X-A", "2")], 0)]
    #[case("host b.test", &[("host", "b.test")], 0)]
    #[case("lonely", &[], 1)]
    #[case(":path /x", &[], 1)]
    #[case("x:y z", &[], 1)]
    #[case("x-a b\u{1}c", &[], 1)]
    #[case("x-a ${secret.n/s.k}", &[("x-a", "${secret.n/s.k}")], 0)]
    #[case("x-a ${secret.m/s.k}", &[], 1)]
    #[case("x-a %START_TIME%", &[("x-a", "%START_TIME%")], 0)]
    fn request(#[case] value: &str, #[case] expected: &[(&str, &str)], #[case] mistakes: usize) {
        let list = [("higress/request-header-control-update", value)];
        let (control, problems) = problems_of(&list, parse);
        let headers = control.unwrap().headers;
        let set = headers.request.unwrap().set;
        let found: Vec<_> = set.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(found, expected);
        assert_eq!(problems.len(), mistakes);
        assert_eq!(headers.response, Some(HeaderOperations::default()));
    }

    #[test]
    fn response() {
        let list = [
            (
                "higress/response-header-control-remove",
                "server, x-powered-by,, host, a b",
            ),
            ("higress/response-header-control-add", "host x"),
        ];
        let (control, problems) = problems_of(&list, parse);
        let response = control.unwrap().headers.response.unwrap();
        assert_eq!(response.remove, ["server", "x-powered-by"]);
        assert!(response.add.is_empty());
        assert_eq!(problems.len(), 3);
        assert_eq!(
            problems_of(&[("nginx/request-header-control-add", "a b")], parse).0,
            None
        );
    }
}
