//! A snapshot is written while other workers' streams go on, and lookups.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use kv_index::snapshot::{Writer, load};
use kv_index::testing::{Driver, Fleet, Op, fleet_ops, holdings};
use kv_index::{ChainIndex, ChainWorker, Index, Matches, ReferenceIndex, View, Worker};

use crate::shared::chain;

/// Turns of the whole: events for all, then a snapshot of one after the other.
const SNAPSHOTS: usize = if cfg!(debug_assertions) { 4 } else { 40 };
const BATCHES: usize = 60;

/// What one worker is told, in order.
fn streams(fleet: &Fleet) -> Vec<Vec<Op>> {
    let mut streams = vec![Vec::new(); fleet.workers];
    for op in fleet_ops(11, BATCHES * fleet.workers * 4, fleet) {
        if let Op::Store { seat, .. } | Op::Remove { seat, .. } | Op::Clear { seat, .. } = op {
            streams[seat].push(op);
        }
    }
    streams
}

/// Applies one operation to the only worker that it can be meant for.
fn apply(worker: &mut ChainWorker, op: &Op) {
    match op {
        Op::Store { view, parent, blocks, .. } => {
            _ = worker.store(View(view % worker.views()), *parent, blocks, &mut Vec::new());
        }
        Op::Remove { view, names, .. } => worker.remove(View(view % worker.views()), names, &mut Vec::new()),
        Op::Clear { .. } => worker.clear(),
        _ => {}
    }
}

/// The reference, told the first `count` operations of a stream.
fn expected(stream: &[Op], count: usize, views: u8) -> Driver<ReferenceIndex> {
    let mut driver = Driver::new(ReferenceIndex::new());
    driver.apply(&Op::Add { views });
    for op in &stream[..count] {
        match op {
            Op::Clear { .. } => driver.apply(&Op::Clear { seat: 0, view: None }),
            op => driver.apply(op),
        };
    }
    driver
}

/// Each worker has a thread that applies its stream over and over, and hands the worker over to be written between two events. The
/// cursor that goes with it must belong to exactly what is in the snapshot.
fn written_beside_writers(fleet: &Fleet) {
    let streams = streams(fleet);
    let index = chain();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        // However the scope ends: the threads end too, and a failure is not a test that hangs.
        let _over = Over(&done);
        scope.spawn(|| look_up(&index, &streams, &done));
        let lines = streams.iter().map(|stream| {
            let mut worker = index.add_worker().unwrap();
            (1..fleet.views).for_each(|_| _ = worker.add_view().unwrap());
            let (hand_over, take) = sync_channel(0);
            let (give_back, take_back) = sync_channel(1);
            scope.spawn(move || live(worker, stream, &hand_over, &take_back));
            (take, give_back)
        });
        let lines: Vec<_> = lines.collect();
        for _ in 0..SNAPSHOTS {
            let mut snapshot = Writer::new(Vec::new()).unwrap();
            for (take, give_back) in &lines {
                let (worker, cursor) = take.recv().unwrap();
                snapshot.worker(&cursor.to_le_bytes(), &worker).unwrap();
                give_back.send(worker).unwrap();
            }
            compare(&snapshot.finish().unwrap(), &streams, fleet.views);
        }
    });
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Applies a stream over and over, until nobody wants the worker any more.
fn live(mut worker: ChainWorker, stream: &[Op], hand_over: &SyncSender<(ChainWorker, usize)>, take_back: &Receiver<ChainWorker>) {
    for at in (0..=stream.len()).cycle() {
        // At the end it begins anew, with nothing.
        match stream.get(at) {
            Some(op) => apply(&mut worker, op),
            None => worker.clear(),
        }
        let cursor = (at + 1) % (stream.len() + 1);
        worker = match hand_over.try_send((worker, cursor)) {
            Ok(()) => match take_back.recv() {
                Ok(worker) => worker,
                Err(_) => return,
            },
            // Nobody waits for it: on with the events.
            Err(TrySendError::Full((worker, _))) => worker,
            Err(TrySendError::Disconnected(_)) => return,
        };
    }
}

fn look_up(index: &ChainIndex, streams: &[Vec<Op>], done: &AtomicBool) {
    let mut matches = Matches::new();
    while !done.load(Ordering::Relaxed) {
        for op in streams.iter().flatten() {
            if let Op::Store { blocks, .. } = op {
                let request: Vec<_> = blocks.iter().map(|block| block.content).collect();
                index.find(&request, &mut matches);
            }
        }
    }
}

fn compare(bytes: &[u8], streams: &[Vec<Op>], views: u8) {
    let index = chain();
    let all = load(bytes, &index).unwrap();
    assert_eq!(all.len(), streams.len());
    for (loaded, stream) in all.iter().zip(streams) {
        let cursor = usize::from_le_bytes(loaded.bytes[..].try_into().unwrap());
        let reference = expected(stream, cursor, views);
        let theirs = reference.workers().next().unwrap();
        assert_eq!(holdings(&index, loaded.worker.id()), holdings(reference.index(), theirs.id()), "after {cursor} events");
    }
}

#[test]
fn what_is_written_beside_writers_that_agree_is_what_the_cursor_says() {
    written_beside_writers(&Fleet::AGREEING);
}

#[test]
fn what_is_written_beside_writers_in_conflict_is_what_the_cursor_says() {
    written_beside_writers(&Fleet::MIXED);
}
