//! The whole event path of this workspace: normalizer, copies, orphans and index, fed with an engine's events.

use kv_events::{Batch, EngineHash, Event, Removed, Stored, Stream, StreamOptions, Tokens};

use super::Trial;
use crate::contender::Entrant;
use crate::measure::alloc::live_bytes;
use crate::measure::clock::thread_ns;
use crate::workload;

/// Tokens of a block here: enough that the 64 bits of a content make them different.
const BLOCK_TOKENS: u32 = 2;

/// Store in store order, every event by way of a stream: bytes of all of it for each membership, and time for each block.
pub fn path<I: Entrant>(trial: &mut Trial) {
    if trial.checks() {
        return;
    }
    let prompts = trial.prompts();
    let before = live_bytes();
    let index = I::default();
    let worker = |_| index.add_worker().expect("no shape has more workers than an index takes");
    let mut streams: Vec<_> =
        (0..prompts.shape.workers).map(worker).map(|worker| Stream::new(worker, StreamOptions::default())).collect();
    let mut ns = 0;
    for pair in prompts.pairs() {
        let mut events = workload::Batch::default();
        prompts.store(pair, &mut events);
        let batch = announced(&events);
        let began = thread_ns();
        streams[pair.worker as usize].apply(&batch);
        ns += thread_ns() - began;
    }
    let blocks = prompts.memberships();
    let stored: u64 = streams.iter().map(|stream| stream.counts().stored).sum();
    assert_eq!(stored, blocks as u64, "every block went in, new");
    let bytes = live_bytes() - before + index.mapped_bytes() as i64;
    trial.report("event path bytes", "B/membership", bytes as f64 / blocks as f64, blocks);
    trial.report("event path store", "ns/block", ns as f64 / blocks as f64, blocks);
}

/// The events as a vLLM with one full-attention group says them.
fn announced(batch: &workload::Batch) -> Batch {
    let events = batch.events.iter().map(|event| match *event {
        workload::Event::Store { parent, start, end, .. } => {
            Event::Stored(Box::new(stored(parent, &batch.blocks[start as usize..end as usize])))
        }
        workload::Event::Remove { start, end, .. } => {
            let hashes = batch.names[start as usize..end as usize].iter().copied().map(EngineHash::from).collect();
            Event::Removed(Removed { hashes, medium: Some("GPU".into()), group: Some(0), ..Removed::default() })
        }
        workload::Event::Clear { .. } => Event::Cleared(kv_events::Cleared::default()),
    });
    Batch { events: events.collect(), ..Batch::default() }
}

fn stored(parent: Option<u64>, blocks: &[workload::Block]) -> Stored {
    Stored {
        hashes: blocks.iter().map(|block| EngineHash::from(block.name)).collect(),
        parent: parent.map(EngineHash::from),
        tokens: Tokens::Ids(blocks.iter().flat_map(|block| [block.content as u32, (block.content >> 32) as u32]).collect()),
        block_size: BLOCK_TOKENS,
        group: Some(0),
        kind: Some("full_attention".into()),
        medium: Some("GPU".into()),
        ..Stored::default()
    }
}
