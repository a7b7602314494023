//! When to push: how long changes are collected before they are used.

use std::time::{Duration, Instant};

/// How changes are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// A change after quiet is used at once; what follows soon is merged for a time that grows with the cost of a push.
    Adaptive,
    /// Every change waits for `after` without another one, as in Istio.
    Fixed,
}

/// Settings of the debounce.
#[derive(Clone, Copy, Debug)]
pub struct Debounce {
    /// How changes are merged.
    pub mode: Mode,
    /// Fixed: quiet time before a push. Adaptive: longest time that a change waits after a push.
    pub after: Duration,
    /// Longest time that a change waits while others keep coming.
    pub max: Duration,
}

/// Adaptive mode keeps the share of time spent on pushes below one in nine.
const REST: u32 = 8;

/// Times of the changes that wait.
#[derive(Debug)]
pub(crate) struct Timer {
    debounce: Debounce,
    /// Before this, adaptive mode only collects.
    rest_until: Option<Instant>,
    waiting: Option<(Instant, Instant)>,
}

impl Timer {
    pub(crate) fn new(debounce: Debounce) -> Self {
        Self {
            debounce,
            rest_until: None,
            waiting: None,
        }
    }

    /// A change came.
    pub(crate) fn changed(&mut self, now: Instant) {
        let first = self.waiting.map_or(now, |(first, _)| first);
        self.waiting = Some((first, now));
    }

    /// When the waiting changes are to be used; `None` while none waits.
    pub(crate) fn due(&self) -> Option<Instant> {
        let (first, last) = self.waiting?;
        Some(match self.debounce.mode {
            Mode::Adaptive => self.rest_until.map_or(first, |rest| rest.max(first)),
            Mode::Fixed => (last + self.debounce.after).min(first + self.debounce.max),
        })
    }

    /// The waiting changes were used; it took this long.
    pub(crate) fn pushed(&mut self, end: Instant, cost: Duration) {
        self.waiting = None;
        self.rest_until = Some(end + (cost * REST).min(self.debounce.after));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn timer(mode: Mode) -> Timer {
        Timer::new(Debounce {
            mode,
            after: 100 * MS,
            max: 1000 * MS,
        })
    }

    #[test]
    fn adaptive_uses_a_change_after_quiet_at_once() {
        let (mut timer, start) = (timer(Mode::Adaptive), Instant::now());
        assert_eq!(timer.due(), None);
        timer.changed(start);
        assert_eq!(timer.due(), Some(start));
        timer.pushed(start + MS, MS);
        timer.changed(start + 2 * MS);
        assert_eq!(timer.due(), Some(start + 9 * MS));
        timer.pushed(start + 1009 * MS, 1000 * MS);
        timer.changed(start + 1010 * MS);
        assert_eq!(timer.due(), Some(start + 1109 * MS));
    }

    #[test]
    fn fixed_waits_for_quiet_but_not_for_ever() {
        let (mut timer, start) = (timer(Mode::Fixed), Instant::now());
        timer.changed(start);
        assert_eq!(timer.due(), Some(start + 100 * MS));
        timer.changed(start + 90 * MS);
        assert_eq!(timer.due(), Some(start + 190 * MS));
        timer.changed(start + 990 * MS);
        assert_eq!(timer.due(), Some(start + 1000 * MS));
    }
}
