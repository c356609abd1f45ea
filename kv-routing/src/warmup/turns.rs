//! Whose turn it is.

use std::num::NonZeroU32;

/// Counts of requests since somebody was warmed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    misses: u32,
    hits: u32,
    shallow_seen: bool,
}

impl Turns {
    /// A miss that a worker could take. Every `every`th is due.
    pub(super) fn miss_is_due(&mut self, every: u32) -> bool {
        self.misses += 1;
        let due = self.misses >= every;
        if due {
            self.misses = 0;
        }
        due
    }

    /// A hit that a thin worker could take. It stays due until somebody takes it ([`diverted`](Self::diverted)).
    pub(super) fn hit_is_due(&mut self, every: NonZeroU32, shallow: bool) -> bool {
        self.hits = self.hits.saturating_add(1);
        let due = self.hits >= every.get() && (shallow || !self.shallow_seen);
        self.shallow_seen |= shallow;
        due || self.hits >= every.get().saturating_mul(2)
    }

    pub(super) fn diverted(&mut self) {
        (self.hits, self.shallow_seen) = (0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the hits that are due, when each one due is taken.
    fn due(shallow: impl Fn(u32) -> bool, hits: u32) -> Vec<u32> {
        let (mut turns, every) = (Turns::default(), NonZeroU32::new(8).unwrap());
        let mut take = |hit: &u32| {
            let due = turns.hit_is_due(every, shallow(*hit));
            if due {
                turns.diverted();
            }
            due
        };
        (1..=hits).filter(|hit| take(hit)).collect()
    }

    #[test]
    fn shallow_hits_are_taken_first_and_deep_ones_if_there_are_no_others() {
        assert_eq!(due(|_| true, 24), [8, 16, 24]);
        assert_eq!(due(|_| false, 24), [8, 16, 24]);
        assert_eq!(due(|hit| hit == 2, 24), [16, 24], "one was seen, so it is waited for, not for ever");
        assert_eq!(due(|hit| hit == 2 || hit == 11, 24), [11, 19]);
    }

    #[test]
    fn every_fourth_miss() {
        let mut turns = Turns::default();
        assert_eq!((1..=9).filter(|_| turns.miss_is_due(4)).collect::<Vec<u32>>(), [4, 8]);
    }
}
