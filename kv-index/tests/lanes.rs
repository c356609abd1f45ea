//! The lane pool under load, from outside.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ThreadId};

use kv_index::lanes::{Ending, Load, Pool, Refusal, Refused, Stream, StreamHandle, StreamOptions};

const LANES: usize = 16;
const STREAMS: u64 = 2_000;
const EVENTS: u64 = 150;
const FEEDERS: u64 = 4;

/// Checks that its events come in order, one at a time.
#[derive(Default)]
struct Sequence {
    next: u64,
    threads: Vec<ThreadId>,
    /// Set while an event is applied.
    busy: Arc<AtomicBool>,
}

struct Event {
    number: u64,
    slices: u64,
    panics: bool,
}

impl Stream for Sequence {
    type Event = Event;

    fn apply(&mut self, mut event: Event) -> Option<Event> {
        assert!(!self.busy.swap(true, Ordering::Relaxed), "applied by two threads at a time");
        let thread = thread::current().id();
        if self.threads.last() != Some(&thread) {
            self.threads.push(thread);
        }
        spin(event.number % 64);
        self.busy.store(false, Ordering::Relaxed);
        assert_eq!(event.number, self.next, "out of order");
        if event.panics {
            // Without the panic hook's noise.
            resume_unwind(Box::new("a bad event"));
        }
        if event.slices > 0 {
            event.slices -= 1;
            return Some(event);
        }
        self.next += 1;
        None
    }

    fn cost(event: &Event) -> u64 {
        event.slices + 1
    }
}

fn spin(rounds: u64) {
    (0..rounds * 8).for_each(|_| std::hint::spin_loop());
}

fn options() -> StreamOptions {
    StreamOptions { queue: Load { events: 16, cost: 32 }, turn: Load { events: 4, cost: 8 } }
}

fn event(stream: u64, number: u64) -> Event {
    // One stream in 16 fails in the middle.
    Event { number, slices: (stream + number) % 5 / 3, panics: stream % 16 == 7 && number == EVENTS / 2 }
}

/// Offers `event` until it is taken. Whether it was: the stream may end before.
fn feed(handle: &StreamHandle<Sequence>, mut event: Event) -> bool {
    loop {
        match handle.enqueue(event) {
            Ok(()) => return true,
            Err(Refused { item, why: Refusal::Full { .. } }) => event = item,
            Err(_) => return false,
        }
        handle.room().wait();
    }
}

/// Feeds every stream of one feeder, round by round. How many events were taken of each.
fn feed_all(handles: &[(u64, Arc<StreamHandle<Sequence>>)]) -> Vec<u64> {
    let mut taken = vec![0; handles.len()];
    for number in 0..EVENTS {
        for ((stream, handle), taken) in handles.iter().zip(&mut taken) {
            *taken += u64::from(feed(handle, event(*stream, number)));
        }
    }
    taken
}

#[test]
fn order_holds_under_stealing_failures_and_removals() {
    let pool = Pool::spawn(LANES, |_| ()).unwrap();
    let handles: Vec<_> = (0..STREAMS).map(|stream| (stream, Arc::new(pool.add(Sequence::default(), options())))).collect();
    let removed_unapplied = AtomicU64::new(0);
    let taken: Vec<u64> = thread::scope(|scope| {
        let of = |feeder| handles.iter().filter(|(stream, _)| stream % FEEDERS == feeder).cloned().collect::<Vec<_>>();
        let feeders = (0..FEEDERS).map(of).map(|own| scope.spawn(move || feed_all(&own))).collect::<Vec<_>>();
        // Meanwhile every sixteenth is removed, at whatever point it has come to.
        for (_, handle) in handles.iter().filter(|(stream, _)| stream % 16 == 3) {
            let retired = handle.remove().wait().unwrap();
            assert!(retired.failure.is_none());
            let numbers = retired.unapplied.iter().map(|event| event.number);
            assert!(numbers.eq((retired.stream.next..).take(retired.unapplied.len())), "without a gap");
            removed_unapplied.fetch_add(retired.unapplied.len() as u64, Ordering::Relaxed);
        }
        feeders.into_iter().flat_map(|feeder| feeder.join().unwrap()).collect()
    });

    let drained = pool.drain().wait();
    let failed = pool.failures();
    assert_eq!(failed.len(), (0..STREAMS).filter(|stream| stream % 16 == 7).count());
    assert!(failed.iter().all(|failure| failure.message == "a bad event"), "{:?}", failed[0]);
    assert_eq!(drained.lost, failed.len());

    let metrics = pool.metrics();
    assert_eq!(metrics.held.events, failed.iter().map(|failure| failure.unapplied).sum::<usize>());
    assert_eq!(metrics.counts.accepted, taken.iter().sum::<u64>());
    assert_eq!(metrics.counts.unapplied, removed_unapplied.into_inner());
    let settled = metrics.counts.applied + metrics.counts.panicked + metrics.counts.unapplied + metrics.held.events as u64;
    assert_eq!(metrics.counts.accepted, settled);
    assert_eq!(metrics.lanes.iter().map(|lane| lane.applied).sum::<u64>(), metrics.counts.applied);

    let moves: usize = pool.shutdown(Ending::Drain).streams.iter().map(check).sum();
    let stolen: u64 = metrics.lanes.iter().map(|lane| lane.stolen).sum();
    println!("{} events, {stolen} steals, {moves} moves between threads", metrics.counts.accepted);
    assert!(moves > 0, "nothing was ever stolen: the test shows nothing");
}

/// A stream that was not removed has applied everything, or everything up to its bad event. How often it changed threads.
fn check(retired: &kv_index::lanes::Retired<Sequence>) -> usize {
    let expected = if retired.failure.is_some() { EVENTS / 2 } else { EVENTS };
    assert_eq!(retired.stream.next, expected);
    retired.stream.threads.len() - 1
}

#[test]
fn a_pool_that_ends_beside_its_feeders_loses_nothing_silently() {
    for round in 0..50 {
        let ending = if round % 2 == 0 { Ending::Drain } else { Ending::Stop };
        let pool = Pool::spawn(3, |_| ()).unwrap();
        let handles: Vec<_> = (0..8).map(|_| Arc::new(pool.add(Sequence::default(), options()))).collect();
        let feeders: Vec<_> = handles.iter().cloned().map(|handle| thread::spawn(move || feed_until_closed(&handle))).collect();
        spin(round * 100);
        let remains = pool.shutdown(ending);
        assert!(remains.lost_lanes.is_empty());
        for (retired, feeder) in remains.streams.into_iter().zip(feeders) {
            let taken = feeder.join().unwrap();
            assert_eq!(taken, retired.stream.next + retired.unapplied.len() as u64);
            assert!(ending == Ending::Stop || retired.unapplied.is_empty());
        }
    }
}

/// How many events were taken.
fn feed_until_closed(handle: &StreamHandle<Sequence>) -> u64 {
    let mut taken = 0;
    while feed(handle, event(0, taken)) {
        taken += 1;
    }
    taken
}
