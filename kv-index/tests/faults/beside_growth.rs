//! Readers while the tables grow.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use kv_index::{Block, BlockName, ChainIndex, ContentHash, Index, Matches, View, Worker};

use crate::scene::{agreed, request};

/// How often the calling thread has waited for something, as Linux counts it.
fn waits() -> Option<u64> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
}

/// The peer's readers stood still for up to 8 ms while a table grew. Time is no measure on a busy machine; what can be seen is
/// whether a reader waits for anybody, and how often it has to look again.
#[test]
fn readers_wait_for_nobody_while_the_tables_grow() {
    let index = ChainIndex::new();
    let mut worker = index.add_worker().unwrap();
    worker.store(View::MAIN, None, &agreed(0..200), &mut Vec::new()).unwrap();
    let done = AtomicBool::new(false);
    let (lookups, retries, waited) = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (request, mut matches) = (request(0..200), Matches::new());
            index.find(&request, &mut matches);
            let (before, mut lookups, mut retries) = (waits(), 0_u64, 0);
            while !done.load(Ordering::Relaxed) {
                index.find(&request, &mut matches);
                assert_eq!(matches.depth(worker.id(), View::MAIN), 200);
                lookups += 1;
                retries = retries.max(matches.retries());
            }
            (lookups, retries, waits().zip(before).map(|(after, before)| after - before))
        });
        let mut writer = index.add_worker().unwrap();
        for number in 1_000..200_000_u64 {
            let word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            writer.store(View::MAIN, None, &[Block::named(BlockName(word), ContentHash(word))], &mut Vec::new()).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    println!("{lookups} lookups, {retries} retries at most, {waited:?} waits");
    assert!(lookups > 100, "{lookups} lookups");
    assert!(retries <= 100, "{retries} retries of one lookup");
    // A page that the system has to map may make a thread wait; a lock would in every growth.
    assert!(waited.is_none_or(|waited| waited <= 5), "{waited:?} waits in {lookups} lookups");
}
