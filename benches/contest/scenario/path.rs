//! The whole event path of this workspace: decoder, normalizer, copies, orphans and index, fed with an engine's messages.

use kv_events::wire::decode_batch;
use kv_events::{Stream, StreamOptions};
use kv_index::{Block, BlockName, ContentHash, View, Worker};

use super::Trial;
use super::wire::message;
use crate::contender::Entrant;
use crate::measure::alloc::live_bytes;
use crate::measure::clock::thread_ns;
use crate::workload::prompts::Prompts;
use crate::workload::{self, Batch, Event};

/// Store in store order, every message by way of a stream: bytes of all of it for each membership, by part, and time for each
/// block.
pub fn path<I: Entrant>(trial: &mut Trial) {
    if trial.checks() {
        return;
    }
    let prompts = trial.prompts();
    let blocks = prompts.memberships();
    let index = bytes_of_index::<I>(&prompts);
    let plain = cost_of_path::<I>(&prompts, 0);
    let copied = cost_of_path::<I>(&prompts, COPIED_EVERY);
    let each = |bytes: i64| bytes as f64 / blocks as f64;
    trial.report("event path bytes", "B/membership", each(plain.bytes), blocks);
    trial.report("event path bytes, the index", "B/membership", each(index), blocks);
    trial.report("event path bytes, the streams", "B/membership", each(plain.bytes - index), blocks);
    trial.report("event path bytes, a tenth stored twice", "B/membership", each(copied.bytes), blocks);
    trial.report("event path decode", "ns/block", plain.decode_ns as f64 / blocks as f64, blocks);
    trial.report("event path store", "ns/block", plain.apply_ns as f64 / blocks as f64, blocks);
}

/// In the second run, one event in so many comes again, as a second physical copy: the copy counter must keep it.
const COPIED_EVERY: usize = 10;

struct Cost {
    bytes: i64,
    decode_ns: u64,
    apply_ns: u64,
}

fn cost_of_path<I: Entrant>(prompts: &Prompts, copied_every: usize) -> Cost {
    let before = live_bytes();
    let index = I::default();
    let worker = |_| index.add_worker().expect("no shape has more workers than an index takes");
    let mut streams: Vec<_> =
        (0..prompts.shape.workers).map(worker).map(|worker| Stream::new(worker, StreamOptions::default())).collect();
    let mut cost = Cost { bytes: 0, decode_ns: 0, apply_ns: 0 };
    let mut copies = 0;
    for (nth, pair) in prompts.pairs().iter().enumerate() {
        let mut events = Batch::default();
        prompts.store(pair, &mut events);
        let times = 1 + usize::from(copied_every > 0 && nth % copied_every == 0);
        copies += (times - 1) * events.blocks.len();
        let payload = message(&events);
        for _ in 0..times {
            let began = thread_ns();
            let batch = decode_batch(&payload);
            let decoded = thread_ns();
            streams[pair.worker as usize].apply(&batch);
            cost.apply_ns += thread_ns() - decoded;
            cost.decode_ns += decoded - began;
        }
    }
    let counts = streams.iter().map(Stream::counts);
    let (stored, again, lost) = counts.fold((0, 0, 0), |(stored, again, lost), counts| {
        (stored + counts.stored, again + counts.stored_again, lost + counts.losses.total())
    });
    assert_eq!((stored, again, lost), (prompts.memberships() as u64, copies as u64, 0), "every block went in, and every copy");
    cost.bytes = live_bytes() - before + index.mapped_bytes() as i64;
    cost
}

/// The same blocks in an index alone.
fn bytes_of_index<I: Entrant>(prompts: &Prompts) -> i64 {
    let before = live_bytes();
    let index = I::default();
    let worker = |_| index.add_worker().expect("no shape has more workers than an index takes");
    let mut workers: Vec<_> = (0..prompts.shape.workers).map(worker).collect();
    let mut stored = Vec::new();
    for pair in prompts.pairs() {
        let mut batch = Batch::default();
        prompts.store(pair, &mut batch);
        for event in &batch.events {
            let Event::Store { parent, start, end, .. } = *event else { unreachable!("a fill only stores") };
            let named = |block: &workload::Block| Block::named(BlockName(block.name), ContentHash(block.content));
            let blocks: Vec<_> = batch.blocks[start as usize..end as usize].iter().map(named).collect();
            workers[pair.worker as usize].store(View::MAIN, parent.map(BlockName), &blocks, &mut stored).expect("it has room");
        }
    }
    // As the streams' own buffer of outcomes is counted with them.
    drop(stored);
    live_bytes() - before + index.mapped_bytes() as i64
}
