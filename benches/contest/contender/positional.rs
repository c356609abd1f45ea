//! dynamo's positional indexer: hash maps by position.
//!
//! Its documentation promises exact scores only while what a worker holds is contiguous from position 0, so its answers
//! after holes are counted, not required. Writes are plain calls with the lane's map; no thread is needed.

use std::hint::black_box;
use std::sync::Arc;

use dynamo_kv_router::indexer::SyncIndexer;
use dynamo_kv_router::indexer::positional::{LevelIndex, PositionalIndexer};
use dynamo_kv_router::protocols::{
    ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheRemoveData, KvCacheStoreData, KvCacheStoredBlockData,
    LocalBlockHash, RouterEvent, WorkerWithDpRank,
};
use rustc_hash::FxHashMap;

use super::{Contender, Deepest, Reader};
use crate::measure::clock::thread_ns;
use crate::workload::{Batch, Block, Event};

pub struct Positional {
    index: Arc<PositionalIndexer>,
    lane: FxHashMap<WorkerWithDpRank, LevelIndex>,
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
        Self { index: Arc::new(PositionalIndexer::new(JUMP)), lane: FxHashMap::default() }
    }

    fn prepare(&self, batch: &Batch) -> Vec<RouterEvent> {
        router_events(batch)
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
