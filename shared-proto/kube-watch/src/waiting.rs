//! What the first complete state waits for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::feed::FeedId;

/// Feeds that are named; the others are counted.
const NAMED: usize = 5;
const LEAD: &str = "not read from the cluster: ";

/// As text: the kinds that were not read completely so far, and why if it is known; empty when nothing is missing. Clones
/// share it.
#[derive(Clone, Debug, Default)]
pub struct Waiting(Arc<Mutex<BTreeMap<usize, Missing>>>);

#[derive(Debug)]
struct Missing {
    feed: String,
    /// Why the API server does not answer as it should.
    reason: Option<String>,
}

impl Waiting {
    fn missing(&self) -> MutexGuard<'_, BTreeMap<usize, Missing>> {
        // Every change is complete in itself, so a panic elsewhere leaves the map usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on for this feed too.
    pub(crate) fn begin(&self, feed: &FeedId) {
        let missing = Missing {
            feed: feed.to_string(),
            reason: None,
        };
        self.missing().insert(feed.index, missing);
    }

    /// The API server does not answer (or does again: `None`).
    pub(crate) fn set_reason(&self, feed: &FeedId, reason: Option<&str>) {
        if let Some(missing) = self.missing().get_mut(&feed.index) {
            missing.reason = reason.map(ToOwned::to_owned);
        }
    }

    /// No longer for this feed.
    pub(crate) fn end(&self, feed: &FeedId) {
        self.missing().remove(&feed.index);
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = self.missing();
        // Those with a reason first.
        let mut all: Vec<&Missing> = missing.values().collect();
        all.sort_by_key(|missing| missing.reason.is_none());
        for (index, Missing { feed, reason }) in all.iter().take(NAMED).enumerate() {
            let separator = if index == 0 { LEAD } else { "; " };
            write!(f, "{separator}{feed}")?;
            if let Some(reason) = reason {
                write!(f, " ({reason})")?;
            }
        }
        match all.len().checked_sub(NAMED) {
            Some(more @ 1..) => write!(f, "; and {more} more"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(index: usize, kind: &'static str, namespace: Option<&str>) -> FeedId {
        FeedId {
            index,
            api_version: "v1",
            kind,
            namespace: namespace.map(Arc::from),
        }
    }

    #[test]
    fn it_names_what_is_missing_and_why() {
        let waiting = Waiting::default();
        let says = |text: &str| assert_eq!(waiting.to_string(), format!("{LEAD}{text}"));
        assert_eq!(waiting.to_string(), "");
        let (service, secret) = (feed(0, "Service", None), feed(1, "Secret", Some("a")));
        waiting.begin(&service);
        waiting.begin(&secret);
        says("Service; Secret in a");
        waiting.set_reason(&secret, Some("forbidden"));
        says("Secret in a (forbidden); Service");
        waiting.set_reason(&secret, None);
        waiting.end(&service);
        says("Secret in a");
        waiting.end(&secret);
        // It was read once: later failures make nobody wait.
        waiting.set_reason(&secret, Some("forbidden"));
        assert_eq!(waiting.to_string(), "");
    }

    #[test]
    fn it_stays_short() {
        let waiting = Waiting::default();
        for index in 0..NAMED + 2 {
            waiting.begin(&feed(index, "Pod", None));
        }
        let text = "Pod; Pod; Pod; Pod; Pod; and 2 more";
        assert_eq!(waiting.to_string(), format!("{LEAD}{text}"));
    }
}
