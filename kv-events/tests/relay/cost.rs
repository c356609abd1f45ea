//! What a relay costs: bytes for a block, CPU for a batch, and how long a snapshot keeps the batches waiting.
//!
//! `cargo test --release -p kv-events --test relay cost -- --ignored --nocapture --test-threads 1` measures; the bytes are always
//! checked.

use std::fs;
use std::time::{Duration, Instant};

use kv_events::namespace::Namespaces;
use kv_events::normalize::Normalizer;
use kv_events::relay::{Next, Options, Relay};
use kv_events::wire::decode_batch;
use kv_events::{EngineHash, Event, Removed, Stored, Stream, StreamOptions, Tiers, Tokens};
use kv_index::{ChainIndex, Index, View};

use crate::allocator::peak_bytes;
use crate::encode::payload;

const NOW: Duration = Duration::ZERO;
const BLOCK: u32 = 16;
const STEP: u64 = 100;

/// Batches that are timed together.
const GROUP: u64 = 20;

/// An engine that computes prompts of `STEP` new blocks each, every fourth below a recent one.
struct Engine {
    next: u64,
    sequence: u64,
}

impl Engine {
    fn step(&mut self) -> Vec<u8> {
        let first = self.next;
        self.next += STEP;
        let parent = (first > 0 && (first / STEP).is_multiple_of(4)).then(|| EngineHash::from(name(first - 2 * STEP - 1)));
        let tokens = (0..STEP * u64::from(BLOCK)).map(|token| ((first + token).wrapping_mul(2_654_435_761) % 150_000) as u32);
        let store = Stored {
            hashes: (first..self.next).map(|block| EngineHash::from(name(block))).collect(),
            parent,
            tokens: Tokens::Ids(tokens.collect()),
            block_size: BLOCK,
            medium: Some("GPU".into()),
            ..Stored::default()
        };
        self.sequence += 1;
        payload(self.time(), &[store.into()])
    }

    /// A step that evicts `STEP` blocks scattered over what is held.
    fn evict(&mut self, salt: u64) -> Vec<u8> {
        let hashes = (0..STEP).map(|nth| EngineHash::from(name((nth * 7_919 * 104_729 + salt * 31) % self.next))).collect();
        let removal: Event = Removed { hashes, medium: Some("GPU".into()), ..Removed::default() }.into();
        self.sequence += 1;
        payload(self.time(), &[removal])
    }

    /// A step that evicts the `STEP` blocks from `first` on.
    fn evict_from(&mut self, first: u64) -> Vec<u8> {
        let hashes = (first..first + STEP).map(|block| EngineHash::from(name(block))).collect();
        let removal: Event = Removed { hashes, medium: Some("GPU".into()), ..Removed::default() }.into();
        self.sequence += 1;
        payload(self.time(), &[removal])
    }

    fn time(&self) -> f64 {
        f64::from(u32::try_from(self.sequence).unwrap())
    }

    fn last(&self) -> u64 {
        self.sequence - 1
    }
}

fn name(block: u64) -> u64 {
    (block + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn filled(blocks: u64) -> (Relay, Engine) {
    let mut relay = Relay::new(NOW, 1, Options { replays: false, history_batches: 1, ..Options::default() });
    let mut engine = Engine { next: 0, sequence: 0 };
    while engine.next < blocks {
        let payload = engine.step();
        relay.handle_live(NOW, 0, engine.last(), &payload);
    }
    (relay, engine)
}

/// CPU time of this thread, as the scheduler counts it.
fn thread_time() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").expect("a Linux with scheduler statistics");
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn a_live_block_takes_less_than_200_bytes_besides_its_tokens() {
    let sizes: &[u64] = if cfg!(debug_assertions) { &[10_000, 70_000] } else { &[10_000, 70_000, 131_000, 200_000] };
    for &blocks in sizes {
        let ((relay, _), peak) = peak_bytes(|| filled(blocks));
        let held = relay.status(0).unwrap().live_blocks as u64;
        assert!(held >= blocks);
        let bytes = peak as u64 / held - 4 * u64::from(BLOCK);
        println!("{held} blocks: {bytes} bytes a block besides its tokens");
        assert!(bytes < 200, "{bytes} bytes for each of {held} blocks");
    }
}

/// How long `run` takes, unless the machine gave this thread's core to another meanwhile.
fn undisturbed<T>(run: impl FnOnce() -> T) -> (T, Option<Duration>) {
    let preempted = || {
        let status = fs::read_to_string("/proc/thread-self/status").expect("a Linux");
        let line = status.lines().find(|line| line.starts_with("nonvoluntary_ctxt_switches")).expect("a count of switches");
        line.split_whitespace().next_back().unwrap().parse::<u64>().unwrap()
    };
    let (before, began) = (preempted(), Instant::now());
    let result = run();
    let took = began.elapsed();
    (result, (preempted() == before).then_some(took))
}

/// What one batch takes, of several timed together, while the machine is at its best and mostly.
struct Times {
    least: Duration,
    median: Duration,
}

impl Times {
    fn of(mut groups: Vec<Duration>) -> Self {
        groups.sort();
        let batches = u32::try_from(GROUP).unwrap();
        Self { least: groups[0] / batches, median: groups[groups.len() / 2] / batches }
    }
}

/// As a full pool does: it evicts as much as it stores. The evictions are not what is timed.
///
/// The least of the groups is what is judged: it is what the code takes, and the rest is what else the machine did. Decoding and
/// normalizing the same batches, which every gateway does too, is timed in between, so that their ratio can be judged where
/// the clock cannot: of the state, only the memory that it waits for grows with it.
#[test]
#[ignore = "measures"]
fn a_batch_of_100_blocks_is_kept_within_20_us() {
    for blocks in [20_000, 200_000, 1_000_000] {
        let (mut relay, mut engine) = filled(blocks);
        let mut oldest = 0;
        let (mut keep, mut read) = (Vec::new(), Vec::new());
        for _ in 0..400 {
            let removals: Vec<_> = (0..GROUP).map(|nth| (engine.evict_from(oldest + nth * STEP), engine.last())).collect();
            let stores: Vec<_> = (0..GROUP).map(|_| (engine.step(), engine.last())).collect();
            oldest += GROUP * STEP;
            removals.iter().for_each(|(payload, sequence)| relay.handle_live(NOW, 0, *sequence, payload));
            let all = || stores.iter().for_each(|(payload, sequence)| relay.handle_live(NOW, 0, *sequence, payload));
            keep.extend(undisturbed(all).1);
            let (held, mut normalizer) = (Namespaces::default(), Normalizer::new(Tiers::SERVED, None));
            let all = || stores.iter().for_each(|(payload, _)| _ = normalizer.normalize(&decode_batch(payload), &held));
            read.extend(undisturbed(all).1);
        }
        let (keep, read) = (Times::of(keep), Times::of(read));
        let ratio = keep.least.as_secs_f64() / read.least.as_secs_f64();
        println!(
            "beside {blocks} blocks, for a batch of 100: {:?} kept (median {:?}), of which decoded and normalized {:?} (median {:?}); ratio {ratio:.2}",
            keep.least, keep.median, read.least, read.median
        );
        assert!(ratio < 3.5, "{ratio}");
        assert!(keep.least < Duration::from_micros(20) || cfg!(debug_assertions), "{:?}", keep.least);
    }
}

/// Under callgrind, which counts what is done in `measured` only:
///
/// ```text
/// valgrind --tool=callgrind --callgrind-out-file=/tmp/out --toggle-collect='*cost::measured*' \
///   PROGRAM instructions_of_a_batch --ignored --test-threads 1 --nocapture && callgrind_annotate /tmp/out
/// ```
#[test]
#[ignore = "measures, under callgrind"]
fn instructions_of_a_batch() {
    let (mut relay, mut engine) = filled(20_000);
    let mut oldest = 0;
    for _ in 0..GROUP {
        let removal = engine.evict_from(oldest);
        relay.handle_live(NOW, 0, engine.last(), &removal);
        oldest += STEP;
        let store = engine.step();
        measured(&mut relay, engine.last(), &store);
    }
    println!("{} blocks", GROUP * STEP);
}

#[inline(never)]
fn measured(relay: &mut Relay, sequence: u64, payload: &[u8]) {
    relay.handle_live(NOW, 0, sequence, payload);
}

#[test]
#[ignore = "measures"]
fn a_snapshot_of_a_million_blocks_keeps_no_batch_waiting() {
    let (mut relay, mut engine) = filled(1_000_000);
    let mut step = |nth| (if nth % 2 == 0 { engine.step() } else { engine.evict(nth) }, engine.last());
    let steps: Vec<_> = (0..400).map(&mut step).collect();
    let (subscriber, cut) = undisturbed(|| relay.subscribe(NOW, &[]).unwrap());
    let Next::Snapshot(snapshot) = relay.poll(NOW, subscriber) else { panic!("a snapshot comes first") };
    let times = steps.iter().filter_map(|(payload, sequence)| undisturbed(|| relay.handle_live(NOW, 0, *sequence, payload)).1);
    let longest = times.max().unwrap();
    let index = ChainIndex::new();
    let mut stream = Stream::new(index.add_worker().unwrap(), StreamOptions::default());
    let (mut chunks, mut total, mut making, mut reading) = (0, 0, Duration::ZERO, Duration::ZERO);
    let mut snapshot = *snapshot;
    loop {
        let began = thread_time();
        let Some(chunk) = snapshot.next() else { break };
        making += thread_time().saturating_sub(began);
        let began = thread_time();
        stream.apply(&chunk.batch);
        reading += thread_time().saturating_sub(began);
        (chunks, total) = (chunks + 1, chunk.total);
    }
    println!("cut in {cut:?}, longest batch after it {longest:?}");
    println!("{total} blocks in {chunks} chunks: made in {making:?}, read in {reading:?} of CPU");
    assert_eq!(index.digest(stream.worker(), View::MAIN).count, total);
    assert!(cut.is_none_or(|cut| cut < Duration::from_millis(5)) && longest < Duration::from_millis(5));
    assert!(making + reading < Duration::from_secs(2));
}
