//! How many Events may be written in a time.

use std::time::Duration;

use tokio::time::Instant;

/// Events that may come at once, and the time in which one more is allowed.
pub(super) const BURST: u32 = 50;
pub(super) const REFILL: Duration = Duration::from_millis(200);

/// Events that may still be written.
pub(super) struct Budget {
    left: u32,
    since: Instant,
}

impl Budget {
    pub(super) fn full(since: Instant) -> Self {
        Self { left: BURST, since }
    }

    /// Whether one may be written now; it counts as written.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let periods = now.duration_since(self.since).as_nanos() / REFILL.as_nanos();
        let periods = u32::try_from(periods).unwrap_or(u32::MAX);
        self.since += REFILL * periods.min(BURST);
        if periods >= BURST {
            self.since = now;
        }
        self.left = self.left.saturating_add(periods).min(BURST);
        let allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_budget_allows_a_burst_and_then_so_many_in_a_time() {
        let mut budget = Budget::full(Instant::now());
        let burst = (0..1000).filter(|_| budget.take(Instant::now())).count();
        assert_eq!(burst, BURST as usize);
        tokio::time::advance(REFILL * 3).await;
        let more = (0..1000).filter(|_| budget.take(Instant::now())).count();
        assert_eq!(more, 3);
        tokio::time::advance(REFILL * 1000).await;
        let full = (0..1000).filter(|_| budget.take(Instant::now())).count();
        assert_eq!(full, BURST as usize);
    }
}
