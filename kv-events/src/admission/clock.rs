//! The caller's time, whatever it does.

use std::time::Duration;

/// Time that only passes. A caller's clock that jumps back stands still for one call and goes on from there; one that jumps ahead
/// lets what was due meanwhile happen at once. Neither can make a deadline of one moment wait for the length of the jump.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// The caller's latest time.
    theirs: Duration,
    /// How much of it has passed.
    passed: Duration,
}

impl Clock {
    /// It is `now` by the caller's clock. Returns the time that has passed.
    pub(super) fn advance(&mut self, now: Duration) -> Duration {
        self.passed = self.passed.saturating_add(now.saturating_sub(self.theirs));
        self.theirs = now;
        self.passed
    }

    pub(super) fn now(&self) -> Duration {
        self.passed
    }

    /// A moment of time passed, by the caller's clock.
    pub(super) fn theirs(&self, moment: Duration) -> Duration {
        self.theirs.saturating_add(moment.saturating_sub(self.passed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_neither_stop_time_nor_turn_it_back() {
        let s = Duration::from_secs;
        let mut clock = Clock::default();
        assert_eq!((clock.advance(s(100)), clock.advance(s(101))), (s(100), s(101)));
        assert_eq!((clock.advance(s(5)), clock.advance(s(6))), (s(101), s(102)));
        assert_eq!(clock.theirs(s(105)), s(9));
        assert_eq!(clock.theirs(s(50)), s(6), "what is overdue is due now");
        assert_eq!(clock.advance(Duration::MAX), Duration::MAX);
        assert_eq!((clock.advance(Duration::ZERO), clock.theirs(Duration::MAX)), (Duration::MAX, Duration::ZERO));
    }
}
