//! How long to wait before a request is tried again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Doubling waits with jitter: between half and all of 200 ms, 400 ms ... up to a limit.
#[derive(Clone, Debug)]
pub struct Backoff {
    next: Duration,
    first: Duration,
    longest: Duration,
    random: RandomState,
    count: u64,
}

impl Backoff {
    /// Starts with about `first` and never waits longer than `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self {
            next: first,
            first,
            longest,
            random: RandomState::new(),
            count: 0,
        }
    }

    /// The wait after one more failure.
    pub fn wait(&mut self) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(self.longest);
        self.count += 1;
        let mut hasher = self.random.build_hasher();
        hasher.write_u64(self.count);
        let part = u32::try_from(hasher.finish() % 1024).unwrap_or(0);
        full / 2 + full / 2 * part / 1024
    }

    /// Forgets the failures, after a success.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit_and_start_anew() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, 4 * second);
        for full in [1, 2, 4, 4].map(|n| n * second) {
            let wait = backoff.wait();
            assert!(wait >= full / 2 && wait <= full, "{wait:?} of {full:?}");
        }
        backoff.reset();
        assert!(backoff.wait() <= second);
    }
}
