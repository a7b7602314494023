//! Compares answers with what a case expects. Pure: no I/O, no clock.

use std::collections::BTreeMap;

use crate::case::{ErrorRule, Expect};
use crate::echo::{Hits, Seen};
use crate::http::Answer;

/// Outcome of sending a request once: an answer, or why there is none.
pub type Outcome = Result<Answer, String>;

/// What does not fit of one outcome; empty = all fits.
pub fn answer(expect: &Expect, outcome: &Outcome) -> Vec<String> {
    match (outcome, expect.error) {
        (Err(_), ErrorRule::Required | ErrorRule::Allowed) => Vec::new(),
        (Err(error), ErrorRule::Forbidden) => vec![format!("no answer: {error}")],
        (Ok(answer), ErrorRule::Required) => vec![format!(
            "no HTTP answer expected, got status {}",
            answer.status
        )],
        (Ok(answer), _) => {
            let mut problems = Problems::default();
            client_side(expect, answer, &mut problems);
            backend_side(expect, answer, &mut problems);
            problems.0
        }
    }
}

/// What does not fit of the number of requests that services got; `before` is the count before the request.
pub fn hits(expect: &Expect, before: &Hits, after: &Hits) -> Vec<String> {
    let count = |hits: &Hits, service: &str| hits.get(service).copied().unwrap_or(0);
    let wrong = expect.hits.iter().filter_map(|(service, (min, max))| {
        let got = count(after, service) - count(before, service);
        (got < *min || got > *max)
            .then(|| format!("hits of {service}: expected {min}..{max}, got {got}"))
    });
    wrong.collect()
}

/// Whether every service got its least number of requests.
pub fn hits_reached(expect: &Expect, before: &Hits, after: &Hits) -> bool {
    let count = |hits: &Hits, service: &str| hits.get(service).copied().unwrap_or(0);
    expect
        .hits
        .iter()
        .all(|(service, (min, _))| count(after, service) - count(before, service) >= *min)
}

/// What does not fit of the shares that services or endpoints have of the answers.
pub fn shares(share: &BTreeMap<String, (u64, u64)>, outcomes: &[Outcome]) -> Vec<String> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for outcome in outcomes {
        match outcome {
            Ok(answer) => {
                let service =
                    service(answer).unwrap_or_else(|| format!("status {}", answer.status));
                *counts.entry(service).or_default() += 1;
                if let Some(seen) = seen(answer) {
                    *counts.entry(seen.endpoint).or_default() += 1;
                }
            }
            Err(_) => *counts.entry("no answer".to_owned()).or_default() += 1,
        }
    }
    let wrong = share.iter().filter(|(name, (min, max))| {
        let got = counts.get(*name).copied().unwrap_or(0);
        got < *min || got > *max
    });
    wrong
        .map(|(name, (min, max))| format!("share of {name}: expected {min}..{max}, got {counts:?}"))
        .collect()
}

/// What does not fit when all answers are to come from one endpoint.
pub fn sticky(outcomes: &[Outcome]) -> Vec<String> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for answer in outcomes.iter().flatten() {
        let endpoint = seen(answer).map_or_else(|| "no endpoint".to_owned(), |seen| seen.endpoint);
        *counts.entry(endpoint).or_default() += 1;
    }
    if counts.len() <= 1 {
        Vec::new()
    } else {
        vec![format!("sticky: answers came from {counts:?}")]
    }
}

#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn equal(&mut self, what: &str, expected: Option<&str>, got: Option<&str>) {
        if expected != got {
            let show = |value: Option<&str>| {
                value.map_or_else(|| "absent".to_owned(), |text| format!("{text:?}"))
            };
            self.0.push(format!(
                "{what}: expected {}, got {}",
                show(expected),
                show(got)
            ));
        }
    }

    /// As [`Problems::equal`], but only when the case names a value.
    fn equal_if_given(&mut self, what: &str, expected: Option<&str>, got: Option<&str>) {
        if expected.is_some() {
            self.equal(what, expected, got);
        }
    }

    fn contains(&mut self, what: &str, needle: &str, hay: &str) {
        if !hay.contains(needle) {
            self.0
                .push(format!("{what}: expected text {needle:?}, got {hay:?}"));
        }
    }
}

fn client_side(expect: &Expect, answer: &Answer, problems: &mut Problems) {
    if let Some(allowed) = &expect.status
        && !allowed.as_slice().contains(&answer.status)
    {
        problems.0.push(format!(
            "status: expected {:?}, got {}",
            allowed.as_slice(),
            answer.status
        ));
    }
    for (name, value) in &expect.response_headers {
        let expected = value.as_ref().map(|text| text.0.as_str());
        problems.equal(
            &format!("response header {name}"),
            expected,
            answer.header(name).as_deref(),
        );
    }
    for (name, texts) in &expect.response_contains {
        let value = answer.header(name).unwrap_or_default();
        for text in texts.as_slice() {
            problems.contains(&format!("response header {name}"), &text.0, &value);
        }
    }
    problems.equal_if_given(
        "location",
        expect.location.as_deref(),
        answer.header("location").as_deref(),
    );
    if let Some(text) = &expect.body {
        problems.contains("body", &text.0, &answer.text());
    }
    if let Some(text) = &expect.cert {
        let certificate = answer.certificate.as_deref().unwrap_or_default();
        problems.contains("certificate", text, &String::from_utf8_lossy(certificate));
    }
}

fn backend_side(expect: &Expect, answer: &Answer, problems: &mut Problems) {
    let seen = seen(answer);
    let see = |field: fn(&Seen) -> &str| seen.as_ref().map(field);
    problems.equal_if_given(
        "backend",
        expect.backend.as_deref(),
        service(answer).as_deref(),
    );
    problems.equal_if_given(
        "endpoint",
        expect.endpoint.as_deref(),
        see(|seen| &seen.endpoint),
    );
    problems.equal_if_given(
        "method at the backend",
        expect.method.as_deref(),
        see(|seen| &seen.method),
    );
    problems.equal_if_given(
        "path at the backend",
        expect.path.as_deref(),
        see(|seen| &seen.path),
    );
    let header = |name: &str| {
        seen.as_ref()
            .and_then(|seen| seen.headers.get(&name.to_ascii_lowercase()))
    };
    problems.equal_if_given(
        "host at the backend",
        expect.host.as_deref(),
        header("host").map(String::as_str),
    );
    for (name, value) in &expect.headers {
        let expected = value.as_ref().map(|text| text.0.as_str());
        if seen.is_none() {
            problems
                .0
                .push(format!("header {name} at the backend: no backend answered"));
        } else {
            problems.equal(
                &format!("header {name} at the backend"),
                expected,
                header(name).map(String::as_str),
            );
        }
    }
}

/// What the backend saw, when one answered.
fn seen(answer: &Answer) -> Option<Seen> {
    serde_json::from_slice(&answer.body).ok()
}

/// The service that answered; an answer without body (`HEAD`) tells it in a header.
fn service(answer: &Answer) -> Option<String> {
    seen(answer)
        .map(|seen| seen.service)
        .or_else(|| answer.header("x-echo-service"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(service: &str, endpoint: &str) -> Outcome {
        let headers = BTreeMap::from([("host".to_owned(), "h:1".to_owned())]);
        let (method, path) = ("GET".to_owned(), "/x?q".to_owned());
        let (service, endpoint) = (service.to_owned(), endpoint.to_owned());
        let seen = Seen {
            service,
            endpoint,
            method,
            path,
            headers,
            body: String::new(),
        };
        let headers = vec![
            ("Location".to_owned(), "/to".to_owned()),
            ("x-a".to_owned(), "1".to_owned()),
        ];
        Ok(Answer {
            status: 200,
            headers,
            body: serde_json::to_vec(&seen).unwrap(),
            certificate: None,
        })
    }

    fn expect(text: &str) -> Expect {
        serde_yaml::from_str(text).unwrap()
    }

    #[test]
    fn what_fits_and_what_does_not() {
        let fits = [
            "{status: 200, backend: s, endpoint: 'e', method: GET, path: '/x?q', host: 'h:1'}",
            "{status: [404, 200], headers: {Host: 'h:1', x-b: null}, location: /to, body: '\"s\"'}",
            "{response_headers: {X-A: 1, x-b: null}, response_contains: {location: [/, to]}}",
            "{error: allowed}",
        ];
        let wrong = [
            "{status: 404}",
            "{backend: t}",
            "{headers: {host: null}}",
            "{headers: {x-b: ''}}",
            "{response_headers: {x-a: null}}",
            "{location: /t}",
            "{cert: name}",
            "{error: true}",
        ];
        for text in fits {
            assert_eq!(
                answer(&expect(text), &outcome("s", "e")),
                Vec::<String>::new(),
                "{text}"
            );
        }
        for text in wrong {
            assert_eq!(answer(&expect(text), &outcome("s", "e")).len(), 1, "{text}");
        }
        let refused = Err("refused".to_owned());
        assert_eq!(answer(&expect("{status: 200}"), &refused).len(), 1);
        assert!(answer(&expect("{status: 200, error: allowed}"), &refused).is_empty());
        assert!(answer(&expect("{error: true}"), &refused).is_empty());
    }

    #[test]
    fn shares_stickiness_and_hits() {
        let outcomes = [
            outcome("s", "e1"),
            outcome("s", "e2"),
            Err("refused".to_owned()),
        ];
        let share = |text: &str| shares(&serde_yaml::from_str(text).unwrap(), &outcomes);
        assert!(share("{s: [2, 2], e1: [1, 1], t: [0, 0]}").is_empty());
        assert_eq!(share("{s: [3, 3]}").len(), 1);
        assert_eq!(sticky(&outcomes).len(), 1);
        assert!(sticky(&outcomes[..1]).is_empty());
        let (before, after) = (Hits::new(), Hits::from([("s".to_owned(), 2)]));
        assert!(hits(&expect("{hits: {s: [2, 2], t: [0, 0]}}"), &before, &after).is_empty());
        assert_eq!(
            hits(&expect("{hits: {s: [3, 3]}}"), &before, &after).len(),
            1
        );
        assert!(!hits_reached(
            &expect("{hits: {s: [3, 3]}}"),
            &before,
            &after
        ));
    }
}
