//! What a pilot sends its only proxy, read from its debug page, to be compared with what another one sends or sent before.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::http::Exchange;
use crate::stack::{Port, Stack};

/// Bytes of a difference that are shown: before it, and in all.
const SHOWN: (usize, usize) = (100, 300);

/// Resources as JSON texts, by type and name. The ports of the run are replaced by words, so that runs can be compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dump(BTreeMap<String, String>);

impl Dump {
    /// Reads it.
    ///
    /// # Errors
    /// No proxy is connected, or the page does not answer.
    pub async fn of(stack: &Stack) -> Result<Self> {
        let proxies = page(stack, Port::PilotHttp, "/debug/syncz").await?;
        let proxy = proxies[0]["proxy"].as_str().context("no proxy")?;
        let path = format!("/debug/config_dump?proxyID={proxy}");
        let dump = page(stack, Port::PilotHttp, &path).await?;
        let ports =
            [Port::Http, Port::Https].map(|port| (stack.address(port).port().to_string(), port));
        let neutral = |text: String| {
            let replace = |text: String, (number, port): &(String, Port)| {
                text.replace(number, &format!("{port:?}"))
            };
            ports.iter().fold(text, replace)
        };
        let types = dump.as_object().into_iter().flatten();
        let resources = types.flat_map(|(kind, list)| {
            let list = list.as_array().into_iter().flatten();
            list.map(move |resource| {
                let name = format!("{kind} {}", resource["name"]);
                (name, resource["resource"].to_string())
            })
        });
        let resources = resources.map(|(name, text)| (neutral(name), neutral(text)));
        Ok(Self(resources.collect()))
    }

    /// Whether a resource is about `text`.
    pub fn contains(&self, text: &str) -> bool {
        self.0.values().any(|resource| resource.contains(text))
    }

    /// Number of resources of a type, for example `rds`.
    pub fn count(&self, kind: &str) -> usize {
        let of_kind = |name: &&String| name.split(' ').next() == Some(kind);
        self.0.keys().filter(of_kind).count()
    }

    /// The resources that are others in `now`, each with the place where the difference begins.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let all: BTreeSet<&String> = self.0.keys().chain(now.0.keys()).collect();
        let differing = all.into_iter().filter_map(|name| {
            let (was, is) = (self.0.get(name), now.0.get(name));
            let [was, is] = [was, is].map(|text| text.map_or("absent", String::as_str));
            (was != is).then(|| {
                let begin = was.bytes().zip(is.bytes()).take_while(|(a, b)| a == b);
                let begin = begin.count().saturating_sub(SHOWN.0);
                format!(
                    "{name}\n  was {}\n  is  {}",
                    part(was, begin),
                    part(is, begin)
                )
            })
        });
        differing.collect()
    }
}

/// Some of a text from a byte on.
fn part(text: &str, begin: usize) -> String {
    let rest = text.bytes().skip(begin).take(SHOWN.1).collect::<Vec<_>>();
    String::from_utf8_lossy(&rest).into_owned()
}

/// A debug page.
///
/// # Errors
/// It does not answer with JSON.
pub async fn page(stack: &Stack, port: Port, path: &str) -> Result<Value> {
    let request = Exchange::get("localhost", path);
    let answer = request.send(&stack.target(port)).await?;
    serde_json::from_slice(&answer.body).with_context(|| answer.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named() {
        let dump = |entries: &[(&str, &str)]| {
            let entries = entries.iter();
            Dump(
                entries
                    .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
                    .collect(),
            )
        };
        let before = dump(&[("rds a", "1"), ("rds b", "1"), ("cds c", "1")]);
        let after = dump(&[("rds a", "1"), ("rds b", "2"), ("rds d", "x-host")]);
        assert_eq!(before.differences(&before), Vec::<String>::new());
        assert_eq!(before.differences(&after).len(), 3);
        assert_eq!((after.count("rds"), after.contains("host")), (3, true));
    }
}
