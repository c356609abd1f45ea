//! The whole pool under random schedules of its threads: larger scenes than loom can exhaust. A schedule that fails is
//! printed, and `shuttle::replay` runs it again.
//!
//! ```sh
//! RUSTFLAGS="--cfg kv_shuttle" cargo test -p kv-index --release --lib lanes
//! ```

use super::scene::{Event, Log, assert_listed_once, event, options};
use super::*;
use crate::sync::{Arc, thread};

const LANES: usize = 3;
const STREAMS: usize = 5;
const EVENTS: u32 = 6;
const RANDOM_SCHEDULES: usize = 2_000;
const PRIORITY_SCHEDULES: usize = 2_000;
/// Changes of priority in one schedule.
const DEPTH: usize = 4;

fn in_many_schedules(scene: impl Fn() + Send + Sync + Copy + 'static) {
    ::shuttle::check_random(scene, RANDOM_SCHEDULES);
    ::shuttle::check_pct(scene, PRIORITY_SCHEDULES, DEPTH);
}

/// The stream at 2 fails in the middle; every third event comes in slices.
fn event_of(stream: usize, number: u32) -> Event {
    Event { slices: 1 + number % 3 / 2, panics: stream == 2 && number == EVENTS / 2, ..event(number) }
}

/// Offers every event of one stream until it is taken or the stream has ended. How many were taken.
fn feed(stream: usize, handle: &StreamHandle<Log>) -> u32 {
    for number in 0..EVENTS {
        let mut offered = event_of(stream, number);
        while let Err(refused) = handle.enqueue(offered) {
            if !matches!(refused.why, Refusal::Full { .. }) {
                return number;
            }
            offered = refused.item;
            handle.room().wait();
        }
    }
    EVENTS
}

fn feeders(handles: &[Arc<StreamHandle<Log>>]) -> Vec<thread::JoinHandle<u32>> {
    let feeder = |(stream, handle): (usize, Arc<StreamHandle<Log>>)| thread::spawn(move || feed(stream, &handle));
    handles.iter().cloned().enumerate().map(feeder).collect()
}

/// `retired` applied what was taken, in order, and gave back the rest.
fn check(taken: u32, retired: &Retired<Log>) {
    let unapplied = retired.unapplied.iter().map(|event| event.number);
    let bad = retired.failure.as_ref().map(|_| EVENTS / 2);
    let all: Vec<_> = retired.stream.applied.iter().copied().chain(bad).chain(unapplied).collect();
    assert_eq!(all, (0..taken).collect::<Vec<_>>());
}

#[test]
fn streams_that_are_fed_fail_and_leave_beside_each_other() {
    in_many_schedules(|| {
        let pool = Pool::spawn(LANES, |_| ()).unwrap();
        let handles: Vec<_> = (0..STREAMS).map(|_| Arc::new(pool.add(Log::default(), options(2, 2)))).collect();
        let feeders = feeders(&handles);
        let leaver = thread::spawn({
            let handle = Arc::clone(&handles[1]);
            move || handle.remove().wait().unwrap()
        });
        let seen = handles[0].with(|log| log.applied.len()).unwrap();
        assert!(seen.wait().unwrap() <= EVENTS as usize);

        let removed = leaver.join().unwrap();
        let taken: Vec<_> = feeders.into_iter().map(|feeder| feeder.join().unwrap()).collect();
        let drained = pool.drain().wait();
        assert_eq!(drained, Drained { streams: STREAMS - 2, lost: 1 });
        assert_listed_once(&pool.shared);
        assert_eq!(pool.failures().len(), 1);

        let shared = Arc::clone(&pool.shared);
        let mut retired = pool.shutdown(Ending::Stop).streams;
        retired.insert(1, removed);
        taken.iter().zip(&retired).for_each(|(taken, retired)| check(*taken, retired));
        let counts = shared.registry.departed();
        assert_eq!(counts.accepted, u64::from(taken.iter().sum::<u32>()));
        assert_eq!(counts.accepted, counts.applied + counts.panicked + counts.unapplied);
    });
}

#[test]
fn a_pool_may_end_at_any_moment() {
    for ending in [Ending::Drain, Ending::Stop] {
        let scene = move || {
            let pool = Pool::spawn(2, |_| ()).unwrap();
            let handles: Vec<_> = (0..STREAMS).map(|_| Arc::new(pool.add(Log::default(), options(2, 2)))).collect();
            let feeders = feeders(&handles);
            thread::yield_now();
            let remains = pool.shutdown(ending);
            for (feeder, retired) in feeders.into_iter().zip(&remains.streams) {
                check(feeder.join().unwrap(), retired);
                assert!(ending == Ending::Stop || retired.failure.is_some() || retired.unapplied.is_empty());
            }
        };
        in_many_schedules(scene);
    }
}

#[test]
fn lanes_that_are_stepped_and_lanes_that_run_share_the_work() {
    in_many_schedules(|| {
        let (pool, lanes) = Pool::new(2).unwrap();
        let [mut stepping, mut running] = lanes.try_into().unwrap();
        let handles: Vec<_> = (0..STREAMS).map(|_| Arc::new(pool.add(Log::default(), options(2, 2)))).collect();
        let feeders = feeders(&handles);
        let stepping = thread::spawn(move || (0..4).filter(|_| stepping.step()).count());
        let running = thread::spawn(move || running.run());
        let taken: Vec<_> = feeders.into_iter().map(|feeder| feeder.join().unwrap()).collect();
        stepping.join().unwrap();
        assert_eq!(pool.drain().wait().streams, STREAMS - 1, "though nobody steps any more");
        let remains = pool.shutdown(Ending::Drain);
        taken.iter().zip(&remains.streams).for_each(|(taken, retired)| check(*taken, retired));
        running.join().unwrap();
    });
}
