//! The API server's audit log: who asked for what, and how often.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// What is written down: one entry per request of the users of [`USERS`].
pub const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: [controller, pilot]}
- {level: None}
";

/// Users whose requests are written down. Each has its name as its token.
pub const USERS: [&str; 2] = ["controller", "pilot"];

/// Number of requests by user and by verb with resource, for example `list ingresses`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calls(pub BTreeMap<(String, String), u64>);

impl Calls {
    /// Reads a log.
    ///
    /// # Errors
    /// It is not one.
    pub fn read(log: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(log)
            .with_context(|| format!("cannot read {}", log.display()))?;
        let (mut calls, mut seen) = (Self::default(), HashSet::new());
        // The last line may be on its way.
        let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
        for line in complete.lines() {
            let entry: Value = serde_json::from_str(line).context("audit log")?;
            // A watch has an entry for its beginning and one for its end.
            if seen.insert(entry["auditID"].to_string()) {
                *calls.0.entry(request(&entry)).or_default() += 1;
            }
        }
        Ok(calls)
    }

    /// Those that came after an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let new = self.0.iter().map(|(request, count)| {
            let known = before.0.get(request).copied().unwrap_or_default();
            (request.clone(), count - known)
        });
        Self(new.filter(|(_, count)| *count > 0).collect())
    }

    /// Number of requests of a user with a verb.
    pub fn of(&self, user: &str, verb: &str) -> u64 {
        let wanted = self.0.iter().filter(|((who, what), _)| {
            who == user && what.split_once(' ').is_some_and(|(first, _)| first == verb)
        });
        wanted.map(|(_, count)| count).sum()
    }
}

/// User, and verb with resource.
fn request(entry: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (user, verb) = (text(&entry["user"]["username"]), text(&entry["verb"]));
    let what = match entry["objectRef"]["resource"].as_str() {
        Some(resource) => match entry["objectRef"]["subresource"].as_str() {
            Some(part) => format!("{resource}/{part}"),
            None => resource.to_owned(),
        },
        None => text(&entry["requestURI"]),
    };
    (user, format!("{verb} {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_once() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let entry = |id: u32, verb: &str, part: &str| {
            format!(
                "{{\"auditID\": \"{id}\", \"verb\": \"{verb}\", \"user\": {{\"username\": \"u\"}}, \
                 \"objectRef\": {{\"resource\": \"r\"{part}}}}}\n"
            )
        };
        let text = entry(1, "watch", "") + &entry(1, "watch", "") + &entry(2, "watch", "");
        std::fs::write(&log, text.clone() + "{").unwrap();
        let first = Calls::read(&log).unwrap();
        assert_eq!((first.of("u", "watch"), first.of("v", "watch")), (2, 0));
        let more = text + &entry(3, "patch", ", \"subresource\": \"status\"");
        std::fs::write(&log, more).unwrap();
        let new = Calls::read(&log).unwrap().since(&first);
        let expected = (("u".to_owned(), "patch r/status".to_owned()), 1);
        assert_eq!(new.0.into_iter().collect::<Vec<_>>(), [expected]);
    }
}
