//! The last batches of one life of one rank: a window of its sequence, with holes where batches were lost.
//!
//! It is also what live readers read: a reader is a place in this window and nothing else, so one that is slow costs
//! nothing, and one that the window has left behind has lost data.

use std::collections::VecDeque;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::Batch;
use crate::limits::{HISTORY_ENTRY_BYTES, PAYLOAD_BYTES_MAX};
use crate::wire::decode_batch;

/// A batch as its publisher sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its number in its publisher's life.
    pub sequence: u64,
    payload: Arc<[u8]>,
    digest: u64,
}

/// The window.
#[derive(Debug)]
pub(super) struct History {
    batches_max: usize,
    bytes_max: usize,
    /// The number of the first slot.
    first: u64,
    /// Nothing where a batch was lost.
    slots: VecDeque<Option<Kept>>,
    holes: usize,
    bytes: usize,
}

/// What the window knows of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The very same message.
    Same,
    /// Another message.
    Other,
    /// Nothing: a hole, or not in the window.
    Unknown,
}

/// What follows a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Nothing was relayed yet.
    Empty,
    /// The position lies beyond the newest batch.
    Ahead { newest: u64 },
    /// Batches between the position and the window are gone.
    Behind { oldest: u64 },
    /// The window's batches from this number on, which may be yet to come.
    From { next: u64 },
}

impl Kept {
    /// `payload` as it came. One that is too long to be read is not kept, but known again.
    pub(super) fn new(sequence: u64, payload: &[u8]) -> Self {
        let kept = if payload.len() <= PAYLOAD_BYTES_MAX { payload } else { &[] };
        Self { sequence, payload: kept.into(), digest: xxh3_64(payload) }
    }

    /// The publisher's own bytes.
    pub fn payload(&self) -> &Arc<[u8]> {
        &self.payload
    }

    /// What the bytes say. A payload that cannot be read is an empty batch with its losses counted.
    pub fn decode(&self) -> Batch {
        decode_batch(&self.payload)
    }

    fn cost(&self) -> usize {
        self.payload.len() + HISTORY_ENTRY_BYTES
    }
}

impl History {
    /// An empty window of at most so many batches (at least one) and bytes.
    pub(super) fn new(batches_max: usize, bytes_max: usize) -> Self {
        Self { batches_max: batches_max.max(1), bytes_max, first: 0, slots: VecDeque::new(), holes: 0, bytes: 0 }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.batches_max, self.bytes_max);
    }

    /// Takes in the next batch. Numbers between it and the newest one are holes.
    pub(super) fn push(&mut self, kept: Kept) {
        let sequence = kept.sequence;
        match self.newest() {
            None => self.first = sequence,
            Some(newest) => self.push_holes(sequence - newest - 1),
        }
        self.bytes += kept.cost();
        self.slots.push_back(Some(kept));
        while self.slots.len() > 1 && (self.slots.len() > self.batches_max || self.bytes > self.bytes_max) {
            self.pop();
        }
    }

    /// A run longer than the window leaves nothing of what was before it.
    fn push_holes(&mut self, holes: u64) {
        let room = self.batches_max as u64;
        if holes >= room {
            let next = self.first + self.slots.len() as u64;
            self.clear();
            self.first = next + (holes - room);
        }
        for _ in 0..holes.min(room) {
            self.bytes += HISTORY_ENTRY_BYTES;
            self.holes += 1;
            self.slots.push_back(None);
            if self.slots.len() > self.batches_max {
                self.pop();
            }
        }
    }

    fn pop(&mut self) {
        let Some(slot) = self.slots.pop_front() else { return };
        self.first += 1;
        self.holes -= usize::from(slot.is_none());
        self.bytes -= slot.map_or(HISTORY_ENTRY_BYTES, |kept| kept.cost());
    }

    /// The number of the oldest slot.
    pub(super) fn oldest(&self) -> Option<u64> {
        (!self.slots.is_empty()).then_some(self.first)
    }

    /// The number of the newest batch.
    pub(super) fn newest(&self) -> Option<u64> {
        (self.first + self.slots.len() as u64).checked_sub(1).filter(|_| !self.slots.is_empty())
    }

    /// Whether the window holds every batch of its publisher's life.
    pub(super) fn is_complete_from_start(&self) -> bool {
        self.oldest() == Some(0) && self.holes == 0
    }

    pub(super) fn get(&self, sequence: u64) -> Option<&Kept> {
        let at = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.slots.get(at)?.as_ref()
    }

    /// What is known of a message like this one under its number.
    pub(super) fn seen(&self, message: &Kept) -> Seen {
        match self.get(message.sequence) {
            None => Seen::Unknown,
            Some(kept) if kept.digest == message.digest => Seen::Same,
            Some(_) => Seen::Other,
        }
    }

    /// The first batch numbered `from` or higher.
    pub(super) fn next(&self, from: u64) -> Option<&Kept> {
        let skipped = usize::try_from(from.saturating_sub(self.first)).ok()?;
        self.slots.range(skipped.min(self.slots.len())..).flatten().next()
    }

    /// What follows the batch numbered `position`.
    pub(super) fn after(&self, position: u64) -> After {
        let (Some(oldest), Some(newest)) = (self.oldest(), self.newest()) else { return After::Empty };
        if position > newest {
            return After::Ahead { newest };
        }
        // Not beyond the newest, so it has a successor.
        let next = position + 1;
        if next < oldest { After::Behind { oldest } } else { After::From { next } }
    }

    /// Batches kept, holes among them.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// What the window is charged for.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(sequence: u64) -> Kept {
        Kept::new(sequence, &sequence.to_be_bytes())
    }

    fn window(sequences: &[u64]) -> History {
        let mut history = History::new(5, 1 << 20);
        sequences.iter().for_each(|&sequence| history.push(kept(sequence)));
        history
    }

    fn after(history: &History, position: u64) -> Result<Vec<u64>, String> {
        match history.after(position) {
            After::From { next } => {
                let batches = std::iter::successors(history.next(next), |kept| history.next(kept.sequence + 1));
                Ok(batches.map(|kept| kept.sequence).collect())
            }
            After::Empty => Err("empty".into()),
            After::Ahead { newest } => Err(format!("ahead of {newest}")),
            After::Behind { oldest } => Err(format!("behind {oldest}")),
        }
    }

    #[test]
    fn positions_are_in_the_window_or_ahead_or_behind() {
        assert_eq!(after(&window(&[]), 0), Err("empty".into()));
        let history = window(&[3, 4, 5, 6, 7, 8]);
        assert_eq!(after(&history, 2), Err("behind 4".into()));
        assert_eq!(after(&history, 3), Ok(vec![4, 5, 6, 7, 8]), "nothing between the position and the window is gone");
        assert_eq!(after(&history, 7), Ok(vec![8]));
        assert_eq!(after(&history, 8), Ok(vec![]));
        assert_eq!(after(&history, 9), Err("ahead of 8".into()));
        assert_eq!(after(&history, u64::MAX), Err("ahead of 8".into()));
    }

    #[test]
    fn a_lost_batch_is_a_hole() {
        let history = window(&[0, 1, 4]);
        assert_eq!((after(&history, 0), history.len()), (Ok(vec![1, 4]), 5));
        assert_eq!(history.bytes(), 3 * (8 + HISTORY_ENTRY_BYTES) + 2 * HISTORY_ENTRY_BYTES);
        assert!(!history.is_complete_from_start() && window(&[0, 1, 2]).is_complete_from_start());
        assert!(!window(&[1, 2]).is_complete_from_start() && !window(&[]).is_complete_from_start());
        assert!(!window(&[0, 1, 2, 3, 4, 5]).is_complete_from_start());
    }

    #[test]
    fn a_lost_run_longer_than_the_window_restarts_it_at_its_newest_slots() {
        let history = window(&[0, 1, 1_000_000]);
        assert_eq!((history.oldest(), history.newest(), history.len()), (Some(999_996), Some(1_000_000), 5));
        assert_eq!(after(&history, 999_995), Ok(vec![1_000_000]));
        let history = window(&[0, u64::MAX - 1]);
        assert_eq!((history.newest(), history.len()), (Some(u64::MAX - 1), 5));
    }

    #[test]
    fn the_newest_batch_stays_whatever_its_size() {
        let mut history = History::new(0, 0);
        (0..3).for_each(|sequence| history.push(kept(sequence)));
        assert_eq!((history.oldest(), history.newest(), history.len()), (Some(2), Some(2), 1));
    }

    #[test]
    fn a_message_is_known_by_its_bytes() {
        let history = window(&[0, 1, 3]);
        let seen = |sequence, payload: u64| history.seen(&Kept::new(sequence, &payload.to_be_bytes()));
        assert_eq!([seen(1, 1), seen(1, 2), seen(2, 2), seen(9, 9)], [Seen::Same, Seen::Other, Seen::Unknown, Seen::Unknown]);
    }

    proptest! {
        #[test]
        fn it_stays_within_its_bounds_and_counts_right(gaps in proptest::collection::vec((0u64..9, 0usize..300), 1..80)) {
            let mut history = History::new(7, 1_000);
            let mut sequence = 0;
            for (gap, size) in gaps {
                sequence += gap + 1;
                history.push(Kept::new(sequence, &vec![0; size]));
                prop_assert!(history.len() <= 7 && (history.bytes() <= 1_000 || history.len() == 1));
                prop_assert_eq!(history.newest(), Some(sequence));
                let cost = |slot: &Option<Kept>| slot.as_ref().map_or(HISTORY_ENTRY_BYTES, Kept::cost);
                prop_assert_eq!(history.bytes(), history.slots.iter().map(cost).sum::<usize>());
                prop_assert_eq!(history.holes, history.slots.iter().filter(|slot| slot.is_none()).count());
                let oldest = history.oldest().unwrap();
                for (at, slot) in (oldest..).zip(&history.slots) {
                    prop_assert_eq!(slot.as_ref().map_or(at, |kept| kept.sequence), at);
                }
            }
        }
    }
}
