//! One engine's prefix cache, by whole blocks: the least recently used goes first, and of one request its end.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::workload::Block;

/// A prefix cache of a fixed number of blocks.
#[derive(Debug)]
pub(super) struct Engine {
    capacity: usize,
    /// When each held block was used last, in requests.
    used: FxHashMap<u64, u32>,
    /// Uses in order; one that `used` does not confirm was followed by a later one.
    queue: VecDeque<(u32, u64)>,
    now: u32,
}

impl Engine {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, used: FxHashMap::default(), queue: VecDeque::new(), now: 0 }
    }

    /// How many blocks of `path` are cached from its start.
    pub(super) fn hits(&self, path: &[Block]) -> usize {
        path.iter().take_while(|block| self.used.contains_key(&block.name)).count()
    }

    /// How many blocks are cached.
    pub(super) fn held(&self) -> usize {
        self.used.len()
    }

    /// Serves a request: its blocks are cached, and what must go for them is added to `evicted`.
    pub(super) fn serve(&mut self, path: &[Block], evicted: &mut Vec<u64>) {
        assert!(path.len() <= self.capacity, "a request of {} blocks in a cache of {}", path.len(), self.capacity);
        self.now += 1;
        // The end first, so that it is evicted first and no hole comes to be.
        for block in path.iter().rev() {
            self.used.insert(block.name, self.now);
            self.queue.push_back((self.now, block.name));
        }
        while self.used.len() > self.capacity {
            let (at, name) = self.queue.pop_front().expect("every held block stands in the queue");
            if self.used.get(&name) == Some(&at) {
                self.used.remove(&name);
                evicted.push(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(names: std::ops::Range<u64>) -> Vec<Block> {
        names.map(|name| Block { name, content: name }).collect()
    }

    #[test]
    fn the_oldest_request_goes_first_and_of_it_the_end() {
        let (mut engine, mut evicted) = (Engine::new(10), Vec::new());
        engine.serve(&path(0..4), &mut evicted);
        engine.serve(&path(10..14), &mut evicted);
        engine.serve(&path(0..2), &mut evicted);
        assert!(evicted.is_empty());
        engine.serve(&path(20..25), &mut evicted);
        assert_eq!(evicted, [3, 2, 13], "blocks 0 and 1 were used again later");
        assert_eq!([engine.hits(&path(0..4)), engine.hits(&path(10..14)), engine.held()], [2, 3, 10]);
    }
}
