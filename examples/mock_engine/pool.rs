//! The block pool of one engine: which blocks hold which tokens, who uses them, and what goes first.
//!
//! A block is *anonymous* while it is filled, and *named* once it is full; a name is the hash of the whole prefix, so two
//! requests that fill the same block end up with one named block and two references. A named block without references
//! is *idle*: it can serve a later request and is the first to go when room is needed, least recently idle first.
//!
//! ```text
//!             seal (new name)            release (last reference)
//! anonymous ------------------> in use --------------------------> idle
//!     |                           ^  <------------------------------ |
//!     | discard, or                          acquire                 | evict
//!     v seal (name exists)                                           v
//!    free                                                           free
//! ```
//!
//! Blocks are counted, not numbered: nothing in a simulation depends on which physical block it is.

use std::collections::{BTreeMap, HashMap};

/// Counted blocks with a named cache in front of them. All sizes in blocks.
#[derive(Debug)]
pub struct BlockPool {
    capacity: usize,
    anonymous: usize,
    named: HashMap<u64, Holders>,
    /// Names of idle blocks by the time they became idle.
    idle: BTreeMap<u64, u64>,
    idle_clock: u64,
}

#[derive(Debug)]
enum Holders {
    Sequences(usize),
    IdleSince(u64),
}

impl BlockPool {
    /// An empty pool of `capacity` blocks.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, anonymous: 0, named: HashMap::new(), idle: BTreeMap::new(), idle_clock: 0 }
    }

    /// How many of the first `names` are cached, without a hole.
    pub fn matched(&self, names: &[u64]) -> usize {
        names.iter().take_while(|name| self.named.contains_key(name)).count()
    }

    /// How many of `names` are idle: taking references on them lowers what can still be evicted by this many.
    pub fn idle_among(&self, names: &[u64]) -> usize {
        names.iter().filter(|name| matches!(self.named.get(name), Some(Holders::IdleSince(_)))).count()
    }

    /// Takes a reference on a cached block. Returns whether it was cached.
    pub fn acquire(&mut self, name: u64) -> bool {
        let Some(holders) = self.named.get_mut(&name) else { return false };
        match holders {
            Holders::Sequences(count) => *count += 1,
            Holders::IdleSince(stamp) => {
                self.idle.remove(stamp);
                *holders = Holders::Sequences(1);
            }
        }
        true
    }

    /// Allocates `blocks` anonymous blocks, beyond the capacity if there is no room: the caller made room, or decided
    /// that a lone request may overdraw.
    pub fn allocate(&mut self, blocks: usize) {
        self.anonymous += blocks;
    }

    /// Turns one full anonymous block into a named one. Returns whether the name is new; if not, the caller's block is
    /// freed and it holds a reference on the other one.
    pub fn seal(&mut self, name: u64) -> bool {
        self.discard(1);
        let known = self.acquire(name);
        if !known {
            self.named.insert(name, Holders::Sequences(1));
        }
        !known
    }

    /// Frees `blocks` anonymous blocks.
    pub fn discard(&mut self, blocks: usize) {
        debug_assert!(blocks <= self.anonymous, "discards {blocks} of {} anonymous blocks", self.anonymous);
        self.anonymous -= blocks;
    }

    /// Gives a reference back; the last one makes the block idle.
    pub fn release(&mut self, name: u64) {
        let Some(Holders::Sequences(count)) = self.named.get_mut(&name) else {
            debug_assert!(false, "releases block {name:x}, which nobody holds");
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.idle_clock += 1;
            self.idle.insert(self.idle_clock, name);
            self.named.insert(name, Holders::IdleSince(self.idle_clock));
        }
    }

    /// Frees the block that has been idle longest and returns its name.
    pub fn evict(&mut self) -> Option<u64> {
        let (_, name) = self.idle.pop_first()?;
        self.named.remove(&name);
        Some(name)
    }

    /// How many blocks are missing for `blocks` more.
    pub fn shortfall(&self, blocks: usize) -> usize {
        (self.used() + blocks).saturating_sub(self.capacity)
    }

    /// Whether `blocks` more could be held if every idle block but `kept_idle` were evicted.
    pub fn has_room(&self, blocks: usize, kept_idle: usize) -> bool {
        self.in_use() + kept_idle + blocks <= self.capacity
    }

    /// Drops every idle block; what is still referenced stays. Returns whether the pool is empty now.
    pub fn clear(&mut self) -> bool {
        while self.evict().is_some() {}
        self.used() == 0
    }

    /// Whether the block is cached, in use or idle.
    pub fn contains(&self, name: u64) -> bool {
        self.named.contains_key(&name)
    }

    /// Names of all cached blocks, in no order.
    pub fn names(&self) -> impl Iterator<Item = u64> {
        self.named.keys().copied()
    }

    /// Named blocks, in use or idle.
    pub fn cached(&self) -> usize {
        self.named.len()
    }

    /// Blocks that are not free. May exceed the capacity while a lone request overdraws.
    pub fn used(&self) -> usize {
        self.anonymous + self.named.len()
    }

    /// Blocks that requests hold, each once however many hold it: what vLLM's gauge of cache usage counts.
    pub fn in_use(&self) -> usize {
        self.used() - self.idle.len()
    }

    /// The size that the pool was made with.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_block_goes_idle_with_its_last_reference_and_leaves_in_that_order() {
        let mut pool = BlockPool::new(4);
        pool.allocate(3);
        assert!(pool.seal(1) && pool.seal(2) && pool.seal(3));
        assert!(pool.acquire(1));
        [3, 2, 1].into_iter().for_each(|name| pool.release(name));
        assert_eq!((pool.evict(), pool.evict(), pool.evict()), (Some(3), Some(2), None));
        pool.release(1);
        assert_eq!(pool.evict(), Some(1));
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn a_second_copy_becomes_a_reference() {
        let mut pool = BlockPool::new(4);
        pool.allocate(2);
        assert!(pool.seal(1));
        assert!(!pool.seal(1));
        assert_eq!(pool.used(), 1);
        pool.release(1);
        assert_eq!(pool.evict(), None, "one reference is left");
    }

    #[test]
    fn room_counts_idle_blocks_but_not_those_about_to_be_used() {
        let mut pool = BlockPool::new(4);
        pool.allocate(3);
        assert!(pool.seal(1) && pool.seal(2));
        [2, 1].into_iter().for_each(|name| pool.release(name));
        assert_eq!(pool.idle_among(&[1, 9]), 1);
        assert!(pool.has_room(3, 0));
        assert!(!pool.has_room(3, 1));
        assert_eq!(pool.shortfall(3), 2);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Fill(u64),
        Acquire(u64),
        Release(usize),
        Evict,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..8_u64).prop_map(Step::Fill),
            (0..8_u64).prop_map(Step::Acquire),
            (0..8_usize).prop_map(Step::Release),
            Just(Step::Evict),
        ]
    }

    /// The obvious pool: references as a list of names, idle blocks as a list from oldest to newest.
    #[derive(Debug, Default)]
    struct Model {
        held: Vec<u64>,
        idle: Vec<u64>,
    }

    impl Model {
        fn hold(&mut self, name: u64) {
            self.idle.retain(|&other| other != name);
            self.held.push(name);
        }

        fn cached(&self) -> usize {
            let mut names: Vec<u64> = self.held.iter().chain(&self.idle).copied().collect();
            names.sort_unstable();
            names.dedup();
            names.len()
        }
    }

    fn check(pool: &mut BlockPool, model: &mut Model, step: &Step) {
        match *step {
            Step::Fill(name) => {
                pool.allocate(1);
                let new = !model.held.contains(&name) && !model.idle.contains(&name);
                assert_eq!(pool.seal(name), new);
                model.hold(name);
            }
            Step::Acquire(name) => {
                let known = model.held.contains(&name) || model.idle.contains(&name);
                assert_eq!(pool.acquire(name), known);
                if known {
                    model.hold(name);
                }
            }
            Step::Release(index) if index < model.held.len() => {
                let name = model.held.remove(index);
                pool.release(name);
                if !model.held.contains(&name) {
                    model.idle.push(name);
                }
            }
            Step::Release(_) => {}
            Step::Evict => {
                let oldest = (!model.idle.is_empty()).then(|| model.idle.remove(0));
                assert_eq!(pool.evict(), oldest);
            }
        }
        assert_eq!(pool.cached(), model.cached());
        assert_eq!(pool.used(), model.cached());
    }

    proptest! {
        #[test]
        fn behaves_like_the_obvious_pool(steps in proptest::collection::vec(step(), 0..120)) {
            let (mut pool, mut model) = (BlockPool::new(6), Model::default());
            for step in &steps {
                check(&mut pool, &mut model, step);
            }
        }
    }
}
