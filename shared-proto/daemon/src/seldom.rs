//! Bounds how often something is logged that strangers can cause.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(10);
/// Lines that may come one after the other.
const BURST: u32 = 5;

/// Lets some lines through, and counts the others.
#[derive(Debug, Default)]
pub struct Seldom(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    since: Option<Instant>,
    said: u32,
    left_out: u64,
}

impl Seldom {
    /// Whether to say it at `now`; if so, how many were left out since the last one.
    pub fn permit(&self, now: Instant) -> Option<u64> {
        // The state is whole at any time, so a panic elsewhere does it no harm.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = state
            .since
            .is_none_or(|since| now.duration_since(since) >= INTERVAL);
        if fresh {
            state.since = Some(now);
            state.said = 0;
        }
        if state.said >= BURST {
            state.left_out += 1;
            return None;
        }
        state.said += 1;
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted() {
        let (seldom, start) = (Seldom::default(), Instant::now());
        for _ in 0..BURST {
            assert_eq!(seldom.permit(start), Some(0));
        }
        assert_eq!(seldom.permit(start), None);
        assert_eq!(seldom.permit(start + INTERVAL / 2), None);
        assert_eq!(seldom.permit(start + INTERVAL), Some(2));
        assert_eq!(seldom.permit(start + INTERVAL), Some(0));
    }
}
