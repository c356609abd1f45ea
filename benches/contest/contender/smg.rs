//! `kv-index` 2.0.0 of the registry, smg's chain index.
//!
//! One block map for each worker, kept by the caller. Lookups go through `score_into`, the call that its documentation
//! calls free of allocation; `find_matches`, which builds a hash map, is slower.

use std::hint::black_box;
use std::sync::Arc;

use smg_kv_index::{ChainBlockMap, ChainIndex, ContentHash, SequenceHash, StoredBlock};

use super::{Contender, Deepest, Reader};
use crate::measure::clock::thread_ns;
use crate::workload::{Batch, Block, Event};

pub struct Smg {
    index: Arc<ChainIndex>,
    maps: Vec<ChainBlockMap>,
}

/// Events in smg's form, in flat arrays.
pub struct Prepared {
    events: Vec<Event>,
    blocks: Vec<StoredBlock>,
    names: Vec<SequenceHash>,
}

#[derive(Clone)]
pub struct SmgReader {
    index: Arc<ChainIndex>,
}

impl Contender for Smg {
    const NAME: &'static str = "smg";
    /// "At most 1024", its documentation says.
    const WORKERS_MAX: u32 = 1_024;
    /// Beyond 2^18 children of one place a store panics, and every later lookup hangs.
    const SIBLINGS_MAX: u64 = 200_000;

    type Prepared = Prepared;
    type Reader = SmgReader;

    fn with_workers(workers: u32) -> Self {
        // A capacity for these workers and no more: coverage costs a bit for each in every run.
        let index = ChainIndex::with_max_workers(workers as usize);
        for seat in 0..workers {
            let id = index.intern_worker(&format!("worker-{seat}"));
            assert_eq!(id.ok(), Some(seat), "ids are dense, from 0");
        }
        let maps = (0..workers).map(|_| ChainBlockMap::new()).collect();
        Self { index: Arc::new(index), maps }
    }

    fn prepare(&mut self, batch: &Batch) -> Prepared {
        let block = |block: &Block| StoredBlock { seq_hash: SequenceHash(block.name), content_hash: ContentHash(block.content) };
        Prepared {
            events: batch.events.clone(),
            blocks: batch.blocks.iter().map(block).collect(),
            names: batch.names.iter().copied().map(SequenceHash).collect(),
        }
    }

    fn apply(&mut self, prepared: &mut Prepared) -> u64 {
        let began = thread_ns();
        for event in &prepared.events {
            self.apply_one(event, prepared);
        }
        thread_ns() - began
    }

    fn reader(&self) -> SmgReader {
        SmgReader { index: Arc::clone(&self.index) }
    }
}

impl Smg {
    fn apply_one(&mut self, event: &Event, prepared: &Prepared) {
        match *event {
            Event::Store { worker, parent, start, end } => {
                let blocks = &prepared.blocks[start as usize..end as usize];
                let map = &mut self.maps[worker as usize];
                let stored = self.index.apply_stored(worker, blocks, parent.map(SequenceHash), map);
                stored.expect("the workloads name no parent that is not held");
            }
            Event::Remove { worker, start, end } => {
                let names = &prepared.names[start as usize..end as usize];
                self.index.apply_removed(worker, names, &mut self.maps[worker as usize]);
            }
            Event::Clear { worker } => self.index.apply_cleared(worker, &mut self.maps[worker as usize]),
        }
    }
}

impl Reader for SmgReader {
    type Request = Vec<u64>;

    fn request(contents: &[u64]) -> Vec<u64> {
        contents.to_vec()
    }

    fn find(&mut self, request: &Vec<u64>) {
        let mut reported = 0_u32;
        self.index.score_into(request, |&content| content, false, |_, _| reported += 1);
        black_box(reported);
    }

    fn deepest(&mut self, request: &Vec<u64>) -> (u32, u32) {
        let mut best = Deepest::default();
        self.index.score_into(request, |&content| content, false, |_, depth| best.see(depth));
        best.into()
    }

    fn rows(&mut self, request: &Vec<u64>, rows: &mut Vec<(u32, u32)>) {
        rows.clear();
        self.index.score_into(request, |&content| content, false, |worker, depth| rows.push((worker, depth)));
    }
}
