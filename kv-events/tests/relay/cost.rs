//! What a relay costs: bytes for a block, CPU for a batch, and how long a snapshot keeps the batches waiting.
//!
//! `cargo test --release -p kv-events --test relay cost -- --ignored --nocapture --test-threads 1` measures; the bytes are always
//! checked.

use std::fs;
use std::time::{Duration, Instant};

use kv_events::relay::{Next, Options, Relay};
use kv_events::{EngineHash, Event, Removed, Stored, Stream, StreamOptions, Tokens};
use kv_index::{ChainIndex, Index, View};

use crate::allocator::peak_bytes;
use crate::encode::payload;

const NOW: Duration = Duration::ZERO;
const BLOCK: u32 = 16;
const STEP: u64 = 100;

/// An engine that computes prompts of `STEP` new blocks each, every fourth below an earlier one.
struct Engine {
    next: u64,
    sequence: u64,
}

impl Engine {
    fn step(&mut self) -> Vec<u8> {
        let first = self.next;
        self.next += STEP;
        let parent =
            (first > 0 && (first / STEP).is_multiple_of(4)).then(|| EngineHash::from(name(first / 2 / STEP * STEP + STEP - 1)));
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
        payload(self.sequence as f64, &[store.into()])
    }

    /// A step that evicts `STEP` blocks scattered over what is held.
    fn evict(&mut self, salt: u64) -> Vec<u8> {
        let hashes = (0..STEP).map(|nth| EngineHash::from(name((nth * 7_919 * 104_729 + salt * 31) % self.next))).collect();
        let removal: Event = Removed { hashes, medium: Some("GPU".into()), ..Removed::default() }.into();
        self.sequence += 1;
        payload(self.sequence as f64, &[removal])
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
    for blocks in [10_000, 70_000, 131_000, 200_000] {
        let ((relay, _), peak) = peak_bytes(|| filled(blocks));
        let held = relay.status(0).unwrap().live_blocks as u64;
        assert!(held >= blocks);
        let bytes = peak as u64 / held - 4 * u64::from(BLOCK);
        println!("{held} blocks: {bytes} bytes a block besides its tokens");
        assert!(bytes < 200, "{bytes} bytes for each of {held} blocks");
    }
}

#[test]
#[ignore = "measures"]
fn a_batch_of_100_blocks_is_kept_within_20_us() {
    for blocks in [20_000, 1_000_000] {
        let (mut relay, mut engine) = filled(blocks);
        let payloads: Vec<_> = (0..2_000).map(|_| (engine.step(), engine.last())).collect();
        let (began, wall) = (thread_time(), Instant::now());
        payloads.iter().for_each(|(payload, sequence)| relay.handle_live(NOW, 0, *sequence, payload));
        let (each, wall) = ((thread_time() - began) / 2_000, wall.elapsed() / 2_000);
        let bytes = payloads[0].0.len();
        println!("beside {blocks} blocks: {each:?} of CPU for a batch of 100 blocks, {bytes} bytes ({wall:?} in all)");
        assert!(each < Duration::from_micros(20));
    }
}

#[test]
#[ignore = "measures"]
fn a_snapshot_of_a_million_blocks_keeps_no_batch_waiting() {
    let (mut relay, mut engine) = filled(1_000_000);
    let stores: Vec<_> =
        (0..400).map(|nth| (if nth % 2 == 0 { engine.step() } else { engine.evict(nth) }, engine.last())).collect();
    let begins = Instant::now();
    let subscriber = relay.subscribe(NOW, &[]).unwrap();
    let cut = begins.elapsed();
    let Next::Snapshot(snapshot) = relay.poll(NOW, subscriber) else { panic!("a snapshot comes first") };
    let mut longest = Duration::ZERO;
    for (payload, sequence) in &stores {
        let begins = Instant::now();
        relay.handle_live(NOW, 0, *sequence, payload);
        longest = longest.max(begins.elapsed());
    }
    let index = ChainIndex::new();
    let mut stream = Stream::new(index.add_worker().unwrap(), StreamOptions::default());
    let begins = Instant::now();
    let (mut chunks, mut total, mut events) = (0, 0, 0);
    for chunk in *snapshot {
        stream.apply(&chunk.batch);
        (chunks, total, events) = (chunks + 1, chunk.total, events + chunk.batch.events.len());
    }
    let told = begins.elapsed();
    println!(
        "cut in {cut:?}, longest batch beside it {longest:?}, {total} blocks in {chunks} chunks and {events} events read in {told:?}"
    );
    assert_eq!(index.digest(stream.worker(), View::MAIN).count, total);
    assert!(cut < Duration::from_millis(5) && longest < Duration::from_millis(5) && told < Duration::from_secs(2));
}
