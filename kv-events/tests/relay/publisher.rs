//! A publisher with the cache of a small engine behind it: copies on two tiers, any of them evicted at any time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kv_events::{Cleared, EngineHash, Event, Removed, Stored, Tokens};

use crate::encode::payload;

const BLOCK: u32 = 2;
const MEDIA: [&str; 2] = ["GPU", "CPU"];

/// One data-parallel rank of an engine, through all its lives.
#[derive(Default)]
pub(crate) struct Publisher {
    copies: BTreeMap<Vec<u8>, [u32; 2]>,
    /// Goes on through all lives: no two messages are the same.
    clock_s: f64,
    next: u64,
    buffer: VecDeque<(u64, Vec<u8>)>,
    buffer_max: usize,
    /// What was held after each message, by its time.
    truth: BTreeMap<u64, BTreeSet<u64>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Computes a path; blocks that are held are stored again as copies if `again`.
    Serve {
        path: Vec<u8>,
        tier: usize,
        again: bool,
    },
    /// Drops one copy of the `nth` block.
    Evict {
        nth: usize,
        tier: usize,
    },
    Clear,
}

impl Publisher {
    /// A publisher that keeps so many messages for replay.
    pub(crate) fn new(buffer_max: usize) -> Self {
        Self { buffer_max, ..Self::default() }
    }

    /// Does `work` and publishes it; the message.
    pub(crate) fn publish(&mut self, work: &[Work]) -> (u64, Vec<u8>) {
        let events: Vec<Event> = work.iter().flat_map(|work| self.work(work)).collect();
        self.clock_s += 1.0;
        let message = (self.next, payload(self.clock_s, &events));
        self.truth.insert(self.clock_s.to_bits(), self.names());
        self.next += 1;
        self.buffer.push_back(message.clone());
        while self.buffer.len() > self.buffer_max {
            self.buffer.pop_front();
        }
        message
    }

    /// Begins another life, with an empty cache. Only some engines say so.
    pub(crate) fn restart(&mut self) {
        self.copies.clear();
        self.buffer.clear();
        self.next = 0;
    }

    /// What its replay socket answers.
    pub(crate) fn replay(&self, from: u64) -> Vec<(u64, Vec<u8>)> {
        self.buffer.iter().filter(|message| message.0 >= from).cloned().collect()
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// What was held after the message of this time.
    pub(crate) fn held_at(&self, timestamp_s: f64) -> Option<&BTreeSet<u64>> {
        self.truth.get(&timestamp_s.to_bits())
    }

    /// What is held now.
    pub(crate) fn names(&self) -> BTreeSet<u64> {
        self.copies.keys().map(|path| name(path)).collect()
    }

    fn work(&mut self, work: &Work) -> Vec<Event> {
        match work {
            Work::Serve { path, tier, again } => self.serve(path, *tier, *again),
            Work::Evict { nth, tier } => self.evict(*nth, *tier).into_iter().collect(),
            Work::Clear => {
                self.copies.clear();
                vec![Event::Cleared(Cleared::default())]
            }
        }
    }

    fn serve(&mut self, path: &[u8], tier: usize, again: bool) -> Vec<Event> {
        let held = (1..=path.len()).take_while(|&len| self.copies.contains_key(&path[..len])).count();
        let from = if again { held.saturating_sub(1) } else { held };
        if from == path.len() {
            return Vec::new();
        }
        (from + 1..=path.len()).for_each(|len| self.copies.entry(path[..len].to_vec()).or_default()[tier] += 1);
        let tokens = path[from..].iter().flat_map(|&block| (0..BLOCK).map(move |token| u32::from(block) * BLOCK + token));
        let store = Stored {
            hashes: (from + 1..=path.len()).map(|len| EngineHash::from(name(&path[..len]))).collect(),
            parent: (from > 0).then(|| EngineHash::from(name(&path[..from]))),
            tokens: Tokens::Ids(tokens.collect()),
            block_size: BLOCK,
            medium: Some(MEDIA[tier].into()),
            ..Stored::default()
        };
        vec![store.into()]
    }

    fn evict(&mut self, nth: usize, tier: usize) -> Option<Event> {
        let path = self.copies.keys().nth(nth.checked_rem(self.copies.len())?)?.clone();
        let copies = self.copies.get_mut(&path)?;
        copies[tier] = copies[tier].checked_sub(1)?;
        if *copies == [0, 0] {
            self.copies.remove(&path);
        }
        let hashes = vec![EngineHash::from(name(&path))];
        Some(Removed { hashes, medium: Some(MEDIA[tier].into()), ..Removed::default() }.into())
    }
}

/// Chained, as an engine's hash is.
fn name(path: &[u8]) -> u64 {
    path.iter().fold(1, |name, &block| name * 31 + u64::from(block) + 1)
}
