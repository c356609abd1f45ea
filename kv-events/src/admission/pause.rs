//! Pauses between tries, each twice as long as the one before.

use std::time::Duration;

/// The next pause, between the two bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    bounds: (Duration, Duration),
    next: Duration,
    /// When the last try was due.
    tried: Option<Duration>,
}

impl Pause {
    pub(crate) fn new(bounds: (Duration, Duration)) -> Self {
        Self { bounds, next: bounds.0, tried: None }
    }

    /// When to try again after a failure at `now`. After a peace of twice the longest pause, the pauses begin anew.
    pub(crate) fn after(&mut self, now: Duration) -> Duration {
        let (first, longest) = self.bounds;
        if self.tried.is_some_and(|tried| now >= tried.saturating_add(longest * 2)) {
            self.next = first;
        }
        let due = now.saturating_add(self.next);
        self.next = longest.min(self.next * 2);
        self.tried = Some(due);
        due
    }

    /// A try went well.
    pub(super) fn reset(&mut self) {
        self.next = self.bounds.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_and_shrink_after_peace() {
        let (first, longest) = (Duration::from_millis(250), Duration::from_secs(30));
        let (mut pause, mut now) = (Pause::new((first, longest)), Duration::ZERO);
        let mut pauses = Vec::new();
        for _ in 0..20 {
            let due = pause.after(now);
            pauses.push(due.saturating_sub(now));
            now = due;
        }
        assert_eq!((pauses[0], pauses[1], pauses[19]), (first, first * 2, longest));
        assert!(pauses.is_sorted());
        now += longest * 2;
        assert_eq!(pause.after(now), now + first);
        pause.reset();
        assert_eq!(pause.after(now), now + first);
    }
}
