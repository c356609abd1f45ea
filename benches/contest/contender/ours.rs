//! Ours: any index of this workspace.

use std::hint::black_box;
use std::sync::Arc;

use kv_index::{Block, BlockName, ChainIndex, ContentHash, Index, Matches, ReferenceIndex, Removed, Stored, View, Worker};

use super::{Contender, Reader};
use crate::measure::clock::thread_ns;
use crate::workload::{Batch, Event};

/// An index of this workspace that takes part.
pub trait Entrant: Index + Default + 'static {
    const NAME: &'static str;

    /// Bytes mapped outside of the global allocator and in use.
    fn mapped_bytes(&self) -> usize {
        0
    }
}

impl Entrant for ReferenceIndex {
    const NAME: &'static str = "reference";
}

impl Entrant for ChainIndex {
    const NAME: &'static str = "ours";

    fn mapped_bytes(&self) -> usize {
        self.stats().mapped_bytes
    }
}

/// An index of this workspace, with the handles of its workers.
pub struct Ours<I: Entrant> {
    index: Arc<I>,
    workers: Vec<I::Worker>,
    stored: Vec<Stored>,
    removed: Vec<Removed>,
}

/// The model that all are measured by; slow.
pub type Reference = Ours<ReferenceIndex>;
/// The index that the contest is about.
pub type OurIndex = ChainIndex;
/// The same, as a contender.
pub type Chain = Ours<OurIndex>;

/// Events in our form, in flat arrays.
pub struct Prepared {
    events: Vec<Event>,
    blocks: Vec<Block>,
    names: Vec<BlockName>,
}

pub struct OurReader<I> {
    index: Arc<I>,
    matches: Matches,
    retries: u64,
}

impl<I: Entrant> Contender for Ours<I> {
    const NAME: &'static str = I::NAME;

    type Prepared = Prepared;
    type Reader = OurReader<I>;

    fn with_workers(workers: u32) -> Self {
        let index = Arc::new(I::default());
        let workers: Vec<I::Worker> =
            (0..workers).map(|_| index.add_worker().expect("no shape has more workers than an index takes")).collect();
        assert!((0..).zip(&workers).all(|(seat, worker)| worker.id().0 == seat), "ids are dense, from 0");
        Self { index, workers, stored: Vec::new(), removed: Vec::new() }
    }

    fn prepare(&mut self, batch: &Batch) -> Prepared {
        let block = |block: &crate::workload::Block| Block::named(BlockName(block.name), ContentHash(block.content));
        Prepared {
            events: batch.events.clone(),
            blocks: batch.blocks.iter().map(block).collect(),
            names: batch.names.iter().copied().map(BlockName).collect(),
        }
    }

    fn apply(&mut self, prepared: &mut Prepared) -> u64 {
        let began = thread_ns();
        for event in &prepared.events {
            self.apply_one(event, prepared);
        }
        thread_ns() - began
    }

    fn reader(&self) -> OurReader<I> {
        OurReader { index: Arc::clone(&self.index), matches: Matches::new(), retries: 0 }
    }

    fn extra_bytes(&self) -> i64 {
        self.index.mapped_bytes() as i64
    }
}

impl<I: Entrant> Ours<I> {
    /// The index itself.
    pub fn index(&self) -> &I {
        &self.index
    }

    fn apply_one(&mut self, event: &Event, prepared: &Prepared) {
        match *event {
            Event::Store { worker, parent, start, end } => {
                let blocks = &prepared.blocks[start as usize..end as usize];
                let worker = &mut self.workers[worker as usize];
                let stored = worker.store(View::MAIN, parent.map(BlockName), blocks, &mut self.stored);
                stored.expect("the workloads name no parent that is not held");
            }
            Event::Remove { worker, start, end } => {
                let names = &prepared.names[start as usize..end as usize];
                self.workers[worker as usize].remove(View::MAIN, names, &mut self.removed);
            }
            Event::Clear { worker } => self.workers[worker as usize].clear(),
        }
    }
}

impl<I: Entrant> Reader for OurReader<I> {
    type Request = Vec<ContentHash>;

    fn request(contents: &[u64]) -> Vec<ContentHash> {
        contents.iter().copied().map(ContentHash).collect()
    }

    fn find(&mut self, request: &Vec<ContentHash>) {
        self.look_up(request);
        black_box(&self.matches);
    }

    fn deepest(&mut self, request: &Vec<ContentHash>) -> (u32, u32) {
        self.look_up(request);
        self.matches.levels().next().map_or((0, 0), |level| (level.depth, level.len() as u32))
    }

    fn rows(&mut self, request: &Vec<ContentHash>, rows: &mut Vec<(u32, u32)>) {
        self.look_up(request);
        rows.clear();
        self.matches.iter().for_each(|row| rows.push((row.worker.0, row.depth)));
    }

    fn retries(&self) -> Option<u64> {
        Some(self.retries)
    }
}

impl<I: Entrant> OurReader<I> {
    fn look_up(&mut self, request: &[ContentHash]) {
        self.index.find(request, &mut self.matches);
        self.retries += u64::from(self.matches.retries());
    }
}

impl<I> Clone for OurReader<I> {
    fn clone(&self) -> Self {
        Self { index: Arc::clone(&self.index), matches: Matches::new(), retries: 0 }
    }
}
