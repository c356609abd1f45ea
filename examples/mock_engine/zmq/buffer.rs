//! The batches that can be asked for again.

use std::collections::VecDeque;

use bytes::Bytes;

/// The last batches of one stream with their sequence numbers, oldest first.
#[derive(Debug)]
pub(super) struct ReplayBuffer {
    limit: usize,
    batches: VecDeque<(u64, Bytes)>,
}

impl ReplayBuffer {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, batches: VecDeque::new() }
    }

    pub(super) fn push(&mut self, sequence: u64, payload: Bytes) {
        if self.batches.len() == self.limit {
            self.batches.pop_front();
        }
        self.batches.push_back((sequence, payload));
    }

    /// Everything from `start` on. Like a real engine it does not say so when the first ones are no longer there.
    pub(super) fn since(&self, start: u64) -> Vec<(u64, Bytes)> {
        let first = self.batches.partition_point(|&(sequence, _)| sequence < start);
        self.batches.range(first..).cloned().collect()
    }

    pub(super) fn clear(&mut self) {
        self.batches.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_newest_and_starts_where_it_can() {
        let mut buffer = ReplayBuffer::new(3);
        (0..5).for_each(|sequence| buffer.push(sequence, Bytes::new()));
        let sequences = |start| buffer.since(start).iter().map(|batch| batch.0).collect::<Vec<_>>();
        assert_eq!(sequences(0), [2, 3, 4]);
        assert_eq!(sequences(4), [4]);
        assert_eq!(sequences(5), [0; 0]);
    }
}
