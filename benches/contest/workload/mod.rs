//! What the contenders are fed: events in batches, and requests. Nothing here depends on a contender or is ever timed.

pub mod decode;
pub mod ladder;
pub mod mooncake;
pub mod names;
pub mod prompts;
pub mod requests;
pub mod siblings;
pub mod steps;

/// One block: what every worker would call it if names agreed, and its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub name: u64,
    pub content: u64,
}

/// One event, its blocks or names as a range of the batch's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Store { worker: u32, parent: Option<u64>, start: u32, end: u32 },
    Remove { worker: u32, start: u32, end: u32 },
    Clear { worker: u32 },
}

/// Some events in order, in two flat arrays, so that building one costs no allocation for each event.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub events: Vec<Event>,
    pub blocks: Vec<Block>,
    pub names: Vec<u64>,
}

impl Batch {
    /// Adds a store of `blocks` after `parent`.
    pub fn store(&mut self, worker: u32, parent: Option<u64>, blocks: impl IntoIterator<Item = Block>) {
        let start = self.blocks.len() as u32;
        self.blocks.extend(blocks);
        self.events.push(Event::Store { worker, parent, start, end: self.blocks.len() as u32 });
    }

    /// Adds a removal of `names`.
    pub fn remove(&mut self, worker: u32, names: impl IntoIterator<Item = u64>) {
        let start = self.names.len() as u32;
        self.names.extend(names);
        self.events.push(Event::Remove { worker, start, end: self.names.len() as u32 });
    }

    /// Adds a clear of everything that `worker` holds.
    pub fn clear_worker(&mut self, worker: u32) {
        self.events.push(Event::Clear { worker });
    }

    /// Blocks stored and names removed.
    pub fn len(&self) -> usize {
        self.blocks.len() + self.names.len()
    }

    /// Whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Forgets the events and keeps the memory.
    pub fn reset(&mut self) {
        self.events.clear();
        self.blocks.clear();
        self.names.clear();
    }
}
