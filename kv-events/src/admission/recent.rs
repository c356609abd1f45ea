//! What the last batches looked like, so that a number that comes again can be told from a number of another life.

use std::collections::VecDeque;

use crate::limits::RECENT_BATCHES_MAX;

/// Fingerprints of the last batches, one after the other. A batch that never came, or has no fingerprint, leaves a hole.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    /// The sequence of the first of them.
    first: u64,
    prints: VecDeque<Option<u64>>,
}

impl Recent {
    /// Notes the next batch.
    pub(super) fn push(&mut self, sequence: u64, print: Option<u64>) {
        let next = self.first.saturating_add(self.prints.len() as u64);
        let hole = sequence.saturating_sub(next);
        if self.prints.is_empty() || sequence < next || hole >= RECENT_BATCHES_MAX as u64 {
            self.prints.clear();
            self.first = sequence;
        } else {
            self.prints.extend((0..hole).map(|_| None));
        }
        self.prints.push_back(print);
        while self.prints.len() > RECENT_BATCHES_MAX {
            self.prints.pop_front();
            self.first += 1;
        }
    }

    /// Whether the batch under `sequence` is the one that was noted under it; nothing where they cannot be compared.
    pub(super) fn is_same(&self, sequence: u64, print: Option<u64>) -> Option<bool> {
        Some(self.print(sequence)? == print?)
    }

    /// What was noted under `sequence`.
    pub(super) fn print(&self, sequence: u64) -> Option<u64> {
        let place = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.prints.get(place).copied()?
    }

    pub(super) fn clear(&mut self) {
        self.prints.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_noted_is_compared() {
        let mut recent = Recent::default();
        recent.push(5, Some(50));
        recent.push(6, None);
        recent.push(9, Some(90));
        let compared: Vec<_> = (4..=10).map(|sequence| recent.is_same(sequence, Some(sequence * 10))).collect();
        assert_eq!(compared, [None, Some(true), None, None, None, Some(true), None]);
        assert_eq!((recent.is_same(9, Some(1)), recent.is_same(9, None)), (Some(false), None));
    }

    #[test]
    fn no_more_than_the_bound_is_kept_whatever_comes() {
        let mut recent = Recent::default();
        for sequence in (0..3000).chain([5000, 2, u64::MAX - 1, u64::MAX]) {
            recent.push(sequence, Some(sequence));
            assert!(recent.prints.len() <= RECENT_BATCHES_MAX);
            assert_eq!(recent.is_same(sequence, Some(sequence)), Some(true));
        }
        assert_eq!(recent.is_same(2, Some(2)), None);
    }
}
