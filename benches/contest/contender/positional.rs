//! dynamo's positional indexer: hash maps by position.
//!
//! It knows a block by dynamo's own chain hash, which lookups compute from the request, and scores nothing under any other
//! name; so this adapter says that chain hash wherever an event says a name, and keeps a map of them that neither the
//! clock nor the bytes see. Its documentation promises exact scores only while what a worker holds is contiguous from
//! position 0, so its answers after holes are counted, not required. Writes are plain calls; no thread is needed.

use std::hint::black_box;
use std::sync::Arc;

use dynamo_kv_router::indexer::SyncIndexer;
use dynamo_kv_router::indexer::positional::{LevelIndex, PositionalIndexer};
use dynamo_kv_router::protocols::{
    ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheRemoveData, KvCacheStoreData, KvCacheStoredBlockData,
    LocalBlockHash, RouterEvent, WorkerWithDpRank, compute_next_seq_hash,
};
use rustc_hash::FxHashMap;

use super::{Contender, Deepest, Reader};
use crate::measure::alloc::live_bytes;
use crate::measure::clock::thread_ns;
use crate::workload::{Batch, Block, Event};

pub struct Positional {
    index: Arc<PositionalIndexer>,
    lane: FxHashMap<WorkerWithDpRank, LevelIndex>,
    chains: Chains,
}

/// The chain hash of each held block, by worker and name.
#[derive(Default)]
struct Chains {
    of: FxHashMap<(u32, u64), u64>,
    bytes: i64,
}

#[derive(Clone)]
pub struct PositionalReader {
    index: Arc<PositionalIndexer>,
}

/// The example of its documentation.
const JUMP: usize = 32;

impl Contender for Positional {
    const NAME: &'static str = "positional";

    type Prepared = Vec<RouterEvent>;
    type Reader = PositionalReader;

    fn with_workers(_workers: u32) -> Self {
        Self { index: Arc::new(PositionalIndexer::new(JUMP)), lane: FxHashMap::default(), chains: Chains::default() }
    }

    fn prepare(&mut self, batch: &Batch) -> Vec<RouterEvent> {
        router_events(&self.chains.rename(batch))
    }

    fn apply(&mut self, prepared: &mut Vec<RouterEvent>) -> u64 {
        let began = thread_ns();
        for event in prepared.drain(..) {
            self.index.apply_event(&mut self.lane, event, None).expect("the workloads hold what they name");
        }
        thread_ns() - began
    }

    fn reader(&self) -> PositionalReader {
        PositionalReader { index: Arc::clone(&self.index) }
    }

    fn excuse(answers: &str) -> Option<&'static str> {
        (answers == "scattered").then_some("documented: exact only while holdings are contiguous from position 0")
    }

    fn extra_bytes(&self) -> i64 {
        -self.chains.bytes
    }
}

impl Chains {
    /// The batch with chain hashes in place of names.
    fn rename(&mut self, batch: &Batch) -> Batch {
        let mut renamed = batch.clone();
        let before = live_bytes();
        for event in &mut renamed.events {
            match event {
                Event::Store { worker, parent, start, end } => {
                    let above = parent.map(|name| self.of[&(*worker, name)]);
                    *parent = above;
                    self.store(*worker, above, &mut renamed.blocks[*start as usize..*end as usize]);
                }
                Event::Remove { worker, start, end } => {
                    let names = &mut renamed.names[*start as usize..*end as usize];
                    names.iter_mut().for_each(|name| *name = self.of.remove(&(*worker, *name)).unwrap_or(*name));
                }
                Event::Clear { worker } => self.of.retain(|key, _| key.0 != *worker),
            }
        }
        self.bytes += live_bytes() - before;
        renamed
    }

    /// "The first block's sequence hash equals its block hash", the others' chain on.
    fn store(&mut self, worker: u32, mut above: Option<u64>, blocks: &mut [Block]) {
        for block in blocks {
            let chain = above.map_or(block.content, |above| compute_next_seq_hash(above, LocalBlockHash(block.content)));
            self.of.insert((worker, block.name), chain);
            block.name = chain;
            above = Some(chain);
        }
    }
}

impl Reader for PositionalReader {
    type Request = Vec<LocalBlockHash>;

    fn request(contents: &[u64]) -> Vec<LocalBlockHash> {
        contents.iter().copied().map(LocalBlockHash).collect()
    }

    fn find(&mut self, request: &Vec<LocalBlockHash>) {
        black_box(self.index.find_matches(request, false));
    }

    fn deepest(&mut self, request: &Vec<LocalBlockHash>) -> (u32, u32) {
        Deepest::of(self.index.find_matches(request, false).scores.values().copied())
    }

    fn rows(&mut self, request: &Vec<LocalBlockHash>, rows: &mut Vec<(u32, u32)>) {
        rows.clear();
        rows.extend(
            self.index.find_matches(request, false).scores.iter().map(|(worker, &depth)| (worker.worker_id as u32, depth)),
        );
    }
}

/// Events in dynamo's form: owned, each with its blocks.
pub(super) fn router_events(batch: &Batch) -> Vec<RouterEvent> {
    (0..).zip(&batch.events).map(|(event_id, event)| router_event(event_id, event, batch)).collect()
}

fn router_event(event_id: u64, event: &Event, batch: &Batch) -> RouterEvent {
    let (worker, data) = match *event {
        Event::Store { worker, parent, start, end } => {
            let blocks = batch.blocks[start as usize..end as usize].iter().map(stored_block).collect();
            let parent_hash = parent.map(ExternalSequenceBlockHash);
            (worker, KvCacheEventData::Stored(KvCacheStoreData { parent_hash, start_position: None, blocks }))
        }
        Event::Remove { worker, start, end } => {
            let names = &batch.names[start as usize..end as usize];
            let block_hashes = names.iter().copied().map(ExternalSequenceBlockHash).collect();
            (worker, KvCacheEventData::Removed(KvCacheRemoveData { block_hashes }))
        }
        Event::Clear { worker } => (worker, KvCacheEventData::Cleared),
    };
    RouterEvent::new(u64::from(worker), KvCacheEvent { event_id, data, dp_rank: 0 })
}

fn stored_block(block: &Block) -> KvCacheStoredBlockData {
    KvCacheStoredBlockData {
        block_hash: ExternalSequenceBlockHash(block.name),
        tokens_hash: LocalBlockHash(block.content),
        mm_extra_info: None,
    }
}
