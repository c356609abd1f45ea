//! dynamo's concurrent radix tree, compressed, behind its own thread pool with one lane.
//!
//! Its writes go through a queue to the pool's thread, so what is timed is the CPU time of that thread until the queue is
//! drained; the thread that enqueues is not charged. Lookups run on the caller's thread, straight on the tree.

use std::hint::black_box;
use std::sync::Arc;

use dynamo_kv_router::ConcurrentRadixTreeCompressed;
use dynamo_kv_router::indexer::{SyncIndexer, ThreadPoolIndexer};
use dynamo_kv_router::protocols::{LocalBlockHash, RouterEvent};

use super::{Contender, Deepest, Reader};
use crate::contender::positional::router_events;
use crate::measure::clock::{lanes_ns, lanes_since};
use crate::runner::block_on;
use crate::workload::Batch;

pub struct Crtc {
    pool: ThreadPoolIndexer<ConcurrentRadixTreeCompressed>,
}

#[derive(Clone)]
pub struct CrtcReader {
    tree: Arc<ConcurrentRadixTreeCompressed>,
}

/// Only kept by the pool; the events carry hashes.
const BLOCK_TOKENS: u32 = 16;

impl Contender for Crtc {
    const NAME: &'static str = "crtc";

    type Prepared = Vec<RouterEvent>;
    type Reader = CrtcReader;

    fn with_workers(_workers: u32) -> Self {
        // Workers need no introduction: their first event is one.
        Self { pool: ThreadPoolIndexer::new(ConcurrentRadixTreeCompressed::new(), 1, BLOCK_TOKENS) }
    }

    fn prepare(&mut self, batch: &Batch) -> Vec<RouterEvent> {
        router_events(batch)
    }

    fn apply(&mut self, prepared: &mut Vec<RouterEvent>) -> u64 {
        let began = lanes_ns();
        for event in prepared.drain(..) {
            self.pool.enqueue_event(event).expect("the lane lives as long as the pool");
        }
        block_on(self.pool.flush_and_wait()).expect("the lane lives as long as the pool");
        lanes_since(began)
    }

    fn reader(&self) -> CrtcReader {
        CrtcReader { tree: self.pool.backend_arc() }
    }
}

impl Reader for CrtcReader {
    type Request = Vec<LocalBlockHash>;

    fn request(contents: &[u64]) -> Vec<LocalBlockHash> {
        contents.iter().copied().map(LocalBlockHash).collect()
    }

    fn find(&mut self, request: &Vec<LocalBlockHash>) {
        black_box(self.tree.find_matches(request, false));
    }

    fn deepest(&mut self, request: &Vec<LocalBlockHash>) -> (u32, u32) {
        Deepest::of(self.tree.find_matches(request, false).scores.values().copied())
    }

    fn rows(&mut self, request: &Vec<LocalBlockHash>, rows: &mut Vec<(u32, u32)>) {
        rows.clear();
        rows.extend(
            self.tree.find_matches(request, false).scores.iter().map(|(worker, &depth)| (worker.worker_id as u32, depth)),
        );
    }
}
