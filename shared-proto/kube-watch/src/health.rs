//! How a feed is: which of its failures are told, and how long it waits after them.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::metrics::FeedMetrics;

/// Waits after failures: first and longest.
pub(crate) const RETRY: (Duration, Duration) =
    (Duration::from_millis(200), Duration::from_secs(10));
/// A watch that lasted for so long did not fail as the ones before it: waits begin anew.
const STEADY: Duration = Duration::from_secs(2);
/// A wait that the API server asks for is kept up to this.
const LONGEST_ASKED: Duration = Duration::from_secs(60);
/// Reasons that are told of one outage. The cause may change, for example from a refused connection to missing rights;
/// texts that differ each time must not fill the log.
const REASONS: usize = 5;

/// Failures since the API server answered last.
#[derive(Debug)]
pub(crate) struct Health {
    failures: u32,
    told: BTreeSet<String>,
    backoff: Backoff,
    pub(crate) metrics: FeedMetrics,
}

impl Health {
    pub(crate) fn new(metrics: FeedMetrics) -> Self {
        Self {
            failures: 0,
            told: BTreeSet::new(),
            backoff: Backoff::new(RETRY.0, RETRY.1),
            metrics,
        }
    }

    /// There were no failures, or they are over.
    pub(crate) fn is_well(&self) -> bool {
        self.failures == 0
    }

    /// Notes a failure. The first one is often just a broken stream and passes; from the second on each reason is to be
    /// told once. Returns whether this one is.
    pub(crate) fn failed(&mut self, reason: &str) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.metrics.errors.inc();
        if self.failures < 2 {
            return false;
        }
        self.metrics.set_failing(true);
        self.told.len() < REASONS && self.told.insert(reason.to_owned())
    }

    /// Notes that the API server answers. Returns whether that is to be told.
    pub(crate) fn well(&mut self) -> bool {
        self.metrics.set_failing(false);
        self.told.clear();
        std::mem::take(&mut self.failures) >= 2
    }

    /// The wait after a watch that ended now and had lasted for `lived`; `asked` is what the API server asks for.
    ///
    /// An answer alone does not make waits short again: lists that succeed and watches that then fail, in turns, would
    /// keep the API server busy.
    pub(crate) fn wait(&mut self, lived: Duration, asked: Option<Duration>) -> Duration {
        if lived > STEADY {
            self.backoff.reset();
        }
        let asked = asked.unwrap_or_default().min(LONGEST_ASKED);
        self.backoff.wait().max(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::WatchMetrics;

    fn health() -> Health {
        Health::new(WatchMetrics::default().of_feed("ConfigMap"))
    }

    #[test]
    fn each_reason_of_an_outage_is_told_once() {
        let mut health = health();
        assert!(!health.failed("refused") && health.metrics.failing.get() == 0);
        assert!(health.failed("refused") && health.metrics.failing.get() == 1);
        assert!(!health.failed("refused"));
        // It is up again, but does not allow it any more.
        assert!(health.failed("forbidden"));
        assert!(!health.failed("refused"));
        let told = (0..100).filter(|n| health.failed(&n.to_string())).count();
        assert!(told < REASONS);
        assert!(health.well() && health.metrics.failing.get() == 0);
        assert!(!health.well());
        assert!(!health.failed("refused") && health.failed("refused"));
        assert_eq!(health.metrics.errors.get(), 107);
    }

    #[test]
    fn waits_grow_until_a_watch_lasted() {
        let mut health = health();
        let short = Duration::from_millis(1);
        for _ in 0..20 {
            health.well();
            health.wait(short, None);
        }
        assert!(health.wait(short, None) >= RETRY.1 / 2);
        assert!(health.wait(STEADY * 2, None) <= RETRY.0);
        assert_eq!(health.wait(short, Some(RETRY.1 * 2)), RETRY.1 * 2);
        assert_eq!(health.wait(short, Some(LONGEST_ASKED * 9)), LONGEST_ASKED);
    }

    #[test]
    fn what_a_feed_adds_goes_with_it() {
        let metrics = WatchMetrics::default();
        let (mut one, mut two) = (metrics.of_feed("Secret"), metrics.of_feed("Secret"));
        one.set_objects(5);
        two.set_objects(2);
        one.set_failing(true);
        assert_eq!((two.objects.get(), two.failing.get()), (7, 1));
        drop(one);
        assert_eq!((two.objects.get(), two.failing.get()), (2, 0));
    }
}
