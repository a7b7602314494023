//! Rests after the API server refused a write: of all writes, or only of those in one namespace.
//!
//! Missing rights and quotas (403), and admission webhooks that do not answer, may be a matter of one namespace; its writes
//! must not hold up those of others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube_watch::Backoff;
use tokio::time::Instant;

/// Rests after refusals: first and longest.
const REST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// Namespaces whose refusals are told; with more of them it is the same reason for all.
const TOLD: usize = 5;

/// What a refusal says about other writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breadth {
    /// Others in the namespace would be refused too.
    Namespace,
    /// All would be.
    All,
}

impl Breadth {
    /// Of an answer with this status code and message.
    pub(super) fn of(code: u16, message: &str) -> Self {
        if code == 403 || message.contains("webhook") {
            Self::Namespace
        } else {
            Self::All
        }
    }
}

#[derive(Debug)]
struct Rest {
    until: Instant,
    backoff: Backoff,
}

impl Rest {
    fn refused(rest: &mut Option<Self>, now: Instant) -> bool {
        let first = rest.is_none();
        let rest = rest.get_or_insert_with(|| Self {
            until: now,
            backoff: Backoff::new(REST.0, REST.1),
        });
        // Writes on the way together are one refusal.
        if rest.until <= now {
            rest.until = now + rest.backoff.wait();
        }
        first
    }
}

/// All rests.
#[derive(Debug, Default)]
pub(super) struct Rests {
    all: Option<Rest>,
    namespaces: HashMap<Arc<str>, Option<Rest>>,
}

impl Rests {
    /// When writes in the namespace may go on, if they rest.
    pub(super) fn until(&self, namespace: &str) -> Option<Instant> {
        let own = self.namespaces.get(namespace).and_then(Option::as_ref);
        let rests = [self.all.as_ref(), own].into_iter().flatten();
        rests.map(|rest| rest.until).max()
    }

    /// Notes a refusal. Returns whether it is to be told: the first one of all, or of one of a few namespaces.
    pub(super) fn refused(&mut self, namespace: &Arc<str>, breadth: Breadth, now: Instant) -> bool {
        match breadth {
            Breadth::All => Rest::refused(&mut self.all, now),
            Breadth::Namespace => {
                let rest = self.namespaces.entry(namespace.clone()).or_default();
                Rest::refused(rest, now) && self.namespaces.len() <= TOLD
            }
        }
    }

    /// Notes that a write in the namespace was accepted.
    pub(super) fn accepted(&mut self, namespace: &str) {
        self.all = None;
        self.namespaces.remove(namespace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_rests_alone_and_longer_each_time() {
        let (shop, other): (Arc<str>, Arc<str>) = (Arc::from("shop"), Arc::from("other"));
        let mut now = Instant::now();
        let mut rests = Rests::default();
        assert!(rests.refused(&shop, Breadth::of(403, ""), now));
        let first = rests.until("shop").unwrap() - now;
        assert!(first <= REST.0 && rests.until("other").is_none());
        // Another one that was on the way changes nothing.
        assert!(!rests.refused(&shop, Breadth::of(403, ""), now));
        assert_eq!(rests.until("shop").unwrap() - now, first);
        for _ in 0..10 {
            now = rests.until("shop").unwrap();
            assert!(!rests.refused(&shop, Breadth::of(403, ""), now));
        }
        assert!(rests.until("shop").unwrap() - now >= REST.1 / 2);
        rests.accepted(&other);
        assert!(rests.until("shop").is_some());
        rests.accepted(&shop);
        assert!(rests.refused(&shop, Breadth::of(403, ""), now));
    }

    #[test]
    fn what_is_missing_everywhere_is_told_a_few_times() {
        let (mut rests, now) = (Rests::default(), Instant::now());
        let broken = Breadth::of(500, "failed calling webhook \"x\"");
        let namespaces = (0..100).map(|n| Arc::from(format!("n{n}")));
        let told = namespaces.filter(|namespace| rests.refused(namespace, broken, now));
        assert_eq!(told.count(), TOLD);
    }

    #[test]
    fn other_refusals_concern_all() {
        let now = Instant::now();
        let mut rests = Rests::default();
        assert!(rests.refused(&Arc::from("shop"), Breadth::of(500, ""), now));
        assert!(rests.until("other").is_some());
        rests.accepted("other");
        assert!(rests.until("shop").is_none());
    }
}
