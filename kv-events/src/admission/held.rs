//! Live batches that wait until a replay has brought what belongs before them.

use std::collections::VecDeque;

use super::delivery::Delivery;
use crate::limits::{HELD_BATCHES_MAX, HELD_BYTES_MAX};

/// A bounded queue. The newest give way, so that what is kept has one gap, which one further replay fills.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    queue: VecDeque<(u64, Delivery)>,
    bytes: usize,
}

impl Held {
    /// Adds a batch that came when the session `seen` was the latest. Returns whether there was room.
    pub(super) fn push(&mut self, seen: u64, delivery: Delivery) -> bool {
        let fits = self.queue.len() < HELD_BATCHES_MAX && self.bytes.saturating_add(delivery.bytes) <= HELD_BYTES_MAX;
        if fits || self.queue.is_empty() {
            self.bytes += delivery.bytes;
            self.queue.push_back((seen, delivery));
            return true;
        }
        false
    }

    /// Puts the batch back that [`pop`](Self::pop) returned last.
    pub(super) fn put_back(&mut self, seen: u64, delivery: Delivery) {
        self.bytes += delivery.bytes;
        self.queue.push_front((seen, delivery));
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Delivery)> {
        let (seen, delivery) = self.queue.pop_front()?;
        self.bytes -= delivery.bytes;
        Some((seen, delivery))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Drops everything. Returns how many batches that were.
    pub(super) fn clear(&mut self) -> u64 {
        let dropped = self.queue.len() as u64;
        *self = Self::default();
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Batch;

    fn delivery(bytes: usize) -> Delivery {
        Delivery { sequence: 0, incarnation: None, fingerprint: None, bytes, batch: Batch::default() }
    }

    #[test]
    fn the_newest_give_way_at_either_bound() {
        let mut held = Held::default();
        assert!((0..HELD_BATCHES_MAX).all(|_| held.push(1, delivery(1))) && !held.push(1, delivery(1)));
        assert_eq!((held.clear(), held.clear()), (HELD_BATCHES_MAX as u64, 0));
        assert!(held.push(1, delivery(HELD_BYTES_MAX + 1)), "a single one may be of any size");
        assert!(!held.push(2, delivery(0)));
        let (seen, first) = held.pop().unwrap();
        held.put_back(seen, first);
        assert_eq!((held.pop().unwrap().0, held.bytes, held.pop()), (1, 0, None));
    }
}
