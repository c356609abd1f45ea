//! A pool by example. Lanes are stepped by hand where nothing else is said, so each test has one schedule.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};

use super::scene::{Event, Log, assert_listed_once, event, options};
use super::*;
use crate::limits::{LANE_LOOK_AROUND_TURNS, LANE_TASKS_MAX, LANES_MAX};

fn one_lane() -> (Pool<Log>, Lane<Log>) {
    let (pool, mut lanes) = Pool::new(1).unwrap();
    (pool, lanes.pop().unwrap())
}

fn two_lanes() -> (Pool<Log>, Lane<Log>, Lane<Log>) {
    let (pool, lanes) = Pool::new(2).unwrap();
    let [first, second] = lanes.try_into().unwrap();
    (pool, first, second)
}

fn enqueue(handle: &StreamHandle<Log>, numbers: impl IntoIterator<Item = u32>) {
    numbers.into_iter().for_each(|number| handle.enqueue(event(number)).unwrap());
}

fn bad(number: u32) -> Event {
    Event { panics: true, ..event(number) }
}

fn numbers(events: &[Event]) -> Vec<u32> {
    events.iter().map(|event| event.number).collect()
}

fn log_of(handle: &StreamHandle<Log>, lane: &mut Lane<Log>) -> Vec<u32> {
    lane.run_until(handle.with(|log| log.applied.clone()).unwrap()).unwrap()
}

/// Counts its wake-ups.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn poll_with<F: Future + Unpin>(bell: &Arc<Bell>, future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(&Waker::from(Arc::clone(bell))))
}

#[test]
fn events_are_applied_in_order() {
    let (pool, mut lane) = one_lane();
    let handle = pool.add(Log::default(), options(100, 8));
    enqueue(&handle, 0..50);
    assert_listed_once(&pool.shared);
    assert_eq!(lane.run_until_idle(), 7, "turns of eight");
    assert_listed_once(&pool.shared);
    assert_eq!(log_of(&handle, &mut lane), (0..50).collect::<Vec<_>>());
}

#[test]
fn at_the_bound_on_events_the_event_comes_back() {
    let (pool, mut lane) = one_lane();
    let handle = pool.add(Log::default(), options(2, 8));
    enqueue(&handle, 0..2);
    let refused = handle.enqueue(event(2)).unwrap_err();
    let bound = Load { events: 2, cost: u64::MAX };
    assert_eq!(refused, Refused { item: event(2), why: Refusal::Full { held: Load { events: 2, cost: 2 }, bound } });
    assert!(refused.to_string().starts_with("2 events of cost 2 wait, of at most 2 of cost"), "{refused}");
    lane.run_until_idle();
    handle.enqueue(refused.item).unwrap();
    assert_eq!(log_of(&handle, &mut lane), [0, 1, 2]);
    assert_eq!(handle.metrics().counts.returned, 1);
}

#[test]
fn the_bound_on_cost_is_passed_by_one_event_at_most() {
    let (pool, mut lane) = one_lane();
    let bounded = StreamOptions { queue: Load { events: 100, cost: 10 }, ..StreamOptions::default() };
    let handle = pool.add(Log::default(), bounded);
    let costly = |number, cost| Event { cost, ..event(number) };
    handle.enqueue(costly(0, 9)).unwrap();
    handle.enqueue(costly(1, 1_000)).unwrap();
    assert!(matches!(handle.enqueue(costly(2, 0)), Err(Refused { why: Refusal::Full { .. }, .. })));
    lane.run_until_idle();
    assert_eq!(handle.metrics().held, Load::default(), "what is applied gives its cost back");
    handle.enqueue(costly(2, u64::MAX)).unwrap();
    lane.run_until_idle();
    assert_eq!(handle.metrics().held, Load::default());
}

#[test]
fn what_a_lane_applies_counts_against_the_bound_until_it_is_done() {
    let (pool, mut lane) = one_lane();
    let handle = pool.add(Log::default(), options(1, 8));
    handle.enqueue(Event { slices: 3, ..event(0) }).unwrap();
    for _ in 0..2 {
        assert!(lane.step());
        assert!(handle.enqueue(event(1)).is_err(), "two slices of three");
    }
    assert!(lane.step());
    handle.enqueue(event(1)).unwrap();
}

#[test]
fn room_wakes_at_half_the_bound_and_at_the_end() {
    let (pool, mut lane) = one_lane();
    let handle = pool.add(Log::default(), options(4, 1));
    let bell = Arc::<Bell>::default();
    let rings = || bell.0.load(Ordering::Relaxed);
    assert!(poll_with(&bell, &mut handle.room()).is_ready());
    enqueue(&handle, 0..4);
    assert!(poll_with(&bell, &mut handle.room()).is_pending());
    assert!(poll_with(&bell, &mut handle.room()).is_pending(), "who asks twice is told once");
    lane.step();
    assert_eq!(rings(), 0, "three of four");
    lane.step();
    assert_eq!(rings(), 1, "two of four");
    assert!(poll_with(&bell, &mut handle.room()).is_ready());
    enqueue(&handle, 4..6);
    assert!(poll_with(&bell, &mut handle.room()).is_pending());
    drop(handle.remove());
    assert_eq!(rings(), 2, "nobody waits for room in what has ended");
    assert!(poll_with(&bell, &mut handle.room()).is_ready());
}

#[test]
fn room_wakes_when_the_stream_fails_or_the_pool_ends() {
    let (pool, mut lane) = one_lane();
    let [failing, staying] = [(); 2].map(|()| pool.add(Log::default(), options(2, 1)));
    let bell = Arc::<Bell>::default();
    failing.enqueue(bad(0)).unwrap();
    enqueue(&failing, 1..2);
    enqueue(&staying, 0..2);
    assert!(poll_with(&bell, &mut failing.room()).is_pending());
    lane.step();
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    let mut room = staying.room();
    lane.step();
    enqueue(&staying, 2..3);
    assert!(poll_with(&bell, &mut room).is_pending());
    pool.shutdown(Ending::Stop);
    assert_eq!(bell.0.load(Ordering::Relaxed), 2);
    staying.room().wait();
}

#[test]
fn an_idle_lane_steals_whole_streams_from_one_that_does_not_run() {
    let (pool, first, mut second) = two_lanes();
    let handles: Vec<_> = (0..4).map(|_| pool.add(Log::default(), options(100, 2))).collect();
    handles.iter().for_each(|handle| enqueue(handle, 0..5));
    second.run_until_idle();
    handles.iter().for_each(|handle| assert_eq!(log_of(handle, &mut second), [0, 1, 2, 3, 4]));
    let lanes = pool.metrics().lanes;
    assert_eq!((lanes[0].turns, lanes[0].stolen), (0, 0));
    assert_eq!(lanes[1].stolen, 2, "a stolen stream stays where it was taken to");
    assert_eq!(lanes[1].applied, 20);
    drop(first);
    enqueue(&handles[0], 5..6);
    assert_eq!(log_of(&handles[0], &mut second), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_lane_serves_the_next_stream_after_a_turn() {
    let (pool, mut lane) = one_lane();
    let [long, short] = [(); 2].map(|()| pool.add(Log::default(), options(1_000, 4)));
    enqueue(&long, 0..1_000);
    enqueue(&short, 0..1);
    lane.step();
    lane.step();
    assert_eq!(long.metrics().counts.applied, 4);
    assert_eq!(short.metrics().counts.applied, 1);
}

#[test]
fn a_turn_ends_at_its_cost_as_well() {
    let (pool, mut lane) = one_lane();
    let bounded = StreamOptions { turn: Load { events: 100, cost: 10 }, ..StreamOptions::default() };
    let handle = pool.add(Log::default(), bounded);
    (0..9).for_each(|number| handle.enqueue(Event { cost: 4, ..event(number) }).unwrap());
    lane.step();
    assert_eq!(handle.metrics().counts.applied, 3, "4 and 4 are below 10, 12 is not");
}

#[test]
fn a_turn_of_nothing_still_applies_one_event() {
    let (pool, mut lane) = one_lane();
    let handle = pool.add(Log::default(), options(9, 0));
    enqueue(&handle, 0..3);
    assert_eq!(lane.run_until_idle(), 3);
}

#[test]
fn a_long_event_yields_its_lane_and_keeps_its_place() {
    let (pool, mut lane) = one_lane();
    let [long, short] = [(); 2].map(|()| pool.add(Log::default(), options(100, 100)));
    long.enqueue(Event { slices: 3, ..event(0) }).unwrap();
    enqueue(&long, 1..3);
    enqueue(&short, 0..1);
    lane.step();
    lane.step();
    assert_eq!(short.metrics().counts.applied, 1, "after the first slice");
    assert_eq!(long.metrics().counts.applied, 0);
    assert_eq!(log_of(&long, &mut lane), [0, 1, 2]);
    assert_eq!(lane.run_until(long.with(|log| log.slices).unwrap()), Ok(2));
}

#[test]
fn a_panic_costs_its_stream_only() {
    let (pool, mut lane) = one_lane();
    let [good, failing] = [(); 2].map(|()| pool.add(Log::default(), options(100, 8)));
    enqueue(&failing, 0..2);
    failing.enqueue(bad(2)).unwrap();
    enqueue(&failing, 3..5);
    let task = failing.with(|_| ()).unwrap();
    enqueue(&good, 0..9);
    lane.run_until_idle();
    assert_eq!(log_of(&good, &mut lane), (0..9).collect::<Vec<_>>());
    assert_eq!(task.wait(), Err(Lost), "nobody waits for a task that never comes");

    let failure = Failure { stream: failing.id(), message: "event 2 is bad".into(), unapplied: 2 };
    assert_eq!(pool.failures(), std::slice::from_ref(&failure));
    assert_eq!((failing.failure(), good.failure()), (Some(failure), None));
    assert_eq!(failing.metrics().state, StreamState::Failed);
    assert_eq!(failing.enqueue(event(9)), Err(Refused { item: event(9), why: Refusal::Failed }));
    assert_eq!(failing.with(|_| ()).map(drop).unwrap_err().why, Refusal::Failed);
    let metrics = pool.metrics();
    assert_eq!((metrics.streams, metrics.failed, metrics.counts.panicked), (2, 1, 1));

    let retired = failing.remove().wait().unwrap();
    assert_eq!(retired.stream.applied, [0, 1]);
    assert_eq!(numbers(&retired.unapplied), [3, 4]);
    assert_eq!(retired.failure.as_deref(), Some("event 2 is bad"));
    assert!(pool.failures().is_empty());
}

#[test]
fn a_panic_in_a_task_fails_the_stream() {
    let (pool, mut lane) = one_lane();
    let handle = pool.add(Log::default(), options(100, 8));
    let reply = handle.with(|_| -> u32 { resume_unwind(Box::new("the task is bad")) }).unwrap();
    let nameless = pool.add(Log::default(), options(100, 8));
    drop(nameless.with(|_| -> u32 { resume_unwind(Box::new(7)) }).unwrap());
    lane.run_until_idle();
    assert_eq!(reply.wait(), Err(Lost));
    assert_eq!(handle.failure().unwrap().message, "the task is bad");
    assert_eq!(nameless.failure().unwrap().message, "a panic without a text");
    assert_eq!(pool.metrics().counts.panicked, 0, "no event did");
}

#[test]
fn removal_gives_the_stream_and_its_events_back() {
    let (pool, mut lane) = one_lane();
    let handle = pool.add(Log::default(), options(100, 2));
    enqueue(&handle, 0..5);
    let task = handle.with(|_| ()).unwrap();
    lane.step();
    let retired = handle.remove().wait().unwrap();
    assert_eq!(retired.id, handle.id());
    assert_eq!(retired.stream.applied, [0, 1]);
    assert_eq!(numbers(&retired.unapplied), [2, 3, 4]);
    assert_eq!(retired.failure, None);
    assert_eq!(task.wait(), Err(Lost));
    assert_eq!(handle.remove().wait().unwrap_err(), Lost, "it can be had once");
    assert_eq!(handle.enqueue(event(9)).unwrap_err().why, Refusal::Closed);
    assert_eq!(handle.with(|_| ()).map(drop).unwrap_err().why, Refusal::Closed);
    assert_eq!(lane.run_until_idle(), 1, "its place on the list is found empty");
    let metrics = pool.metrics();
    assert_eq!((metrics.streams, metrics.held), (0, Load::default()));
    assert_eq!((metrics.counts.accepted, metrics.counts.applied, metrics.counts.unapplied), (5, 2, 3));
}

#[test]
fn removal_of_a_running_stream_waits_for_the_event_in_hand() {
    let (pool, mut lane) = one_lane();
    let handle = Arc::new(pool.add(Log::default(), options(100, 8)));
    let (sender, receiver) = mpsc::channel();
    let remover = Arc::clone(&handle);
    let during = handle.with(move |log| {
        sender.send(remover.remove()).unwrap();
        assert_eq!(remover.metrics().state, StreamState::Removed);
        assert_eq!(remover.enqueue(event(9)).unwrap_err().why, Refusal::Closed);
        assert_eq!(remover.remove().wait().unwrap_err(), Lost);
        log.applied.push(77);
    });
    enqueue(&handle, 0..3);
    lane.run_until_idle();
    during.unwrap().wait().unwrap();
    let retired = receiver.recv().unwrap().wait().unwrap();
    assert_eq!(retired.stream.applied, [77]);
    assert_eq!(numbers(&retired.unapplied), [0, 1, 2]);
    assert_eq!(pool.metrics().streams, 0);
}

#[test]
fn a_stream_that_panics_while_it_leaves_leaves_with_the_failure() {
    let (pool, mut lane) = one_lane();
    let handle = Arc::new(pool.add(Log::default(), options(100, 8)));
    let (sender, receiver) = mpsc::channel();
    let remover = Arc::clone(&handle);
    let task = move |_: &mut Log| {
        sender.send(remover.remove()).unwrap();
        resume_unwind(Box::new("too late"));
    };
    drop(handle.with(task).unwrap());
    enqueue(&handle, 0..1);
    lane.run_until_idle();
    let retired = receiver.recv().unwrap().wait().unwrap();
    assert_eq!(retired.failure.as_deref(), Some("too late"));
    assert_eq!(numbers(&retired.unapplied), [0]);
    assert!(pool.failures().is_empty());
}

/// A stream that is nothing but its owner's token, and that may refuse to go quietly.
struct Token(#[allow(dead_code, reason = "what counts is that it is dropped")] Arc<()>, bool);

impl Stream for Token {
    type Event = Arc<()>;

    fn apply(&mut self, _: Arc<()>) -> Option<Arc<()>> {
        None
    }

    fn cost(_: &Arc<()>) -> u64 {
        1
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if self.1 {
            resume_unwind(Box::new("a bad drop"));
        }
    }
}

#[test]
fn dropping_the_handle_drops_the_stream_and_its_events() {
    let (pool, mut lanes) = Pool::<Token>::new(1).unwrap();
    let token = Arc::new(());
    let handle = pool.add(Token(Arc::clone(&token), false), options(100, 8));
    handle.enqueue(Arc::clone(&token)).unwrap();
    drop(handle);
    assert_eq!(Arc::strong_count(&token), 1);
    lanes[0].run_until_idle();
    assert_eq!(pool.metrics().counts.unapplied, 1);
}

#[test]
fn nothing_is_left_of_a_pool_that_is_dropped() {
    let token = Arc::new(());
    let (pool, lanes) = Pool::<Token>::new(2).unwrap();
    let handle = pool.add(Token(Arc::clone(&token), false), options(100, 8));
    handle.enqueue(Arc::clone(&token)).unwrap();
    let held = Arc::clone(&token);
    let reply = handle.with(move |_| drop(held)).unwrap();
    drop(pool);
    assert_eq!(reply.wait(), Err(Lost));
    drop(lanes);
    assert_eq!(Arc::strong_count(&token), 1, "the handle that is left holds nothing");
    assert_eq!(handle.enqueue(Arc::clone(&token)).unwrap_err().why, Refusal::Closed);
}

#[test]
fn a_drop_that_panics_on_a_lane_does_not_end_the_lane() {
    let (pool, mut lanes) = Pool::<Token>::new(1).unwrap();
    let handle = pool.add(Token(Arc::new(()), true), options(100, 8));
    let remover = Arc::new(std::sync::Mutex::new(None::<StreamHandle<Token>>));
    let task = Arc::clone(&remover);
    drop(handle.with(move |_| drop(task.lock().unwrap().take())).unwrap());
    *remover.lock().unwrap() = Some(handle);
    assert_eq!(lanes[0].run_until_idle(), 1, "it removes itself, and nobody waits for it");
    assert_eq!(pool.metrics().streams, 0);
}

#[test]
fn tasks_run_in_order_with_the_events() {
    let (pool, mut lane) = one_lane();
    let handle = pool.add(Log::default(), options(100, 8));
    enqueue(&handle, 0..3);
    let before = handle.with(|log| std::mem::take(&mut log.applied)).unwrap();
    enqueue(&handle, 3..5);
    let after = handle.with(|log| log.applied.clone()).unwrap();
    lane.run_until_idle();
    assert_eq!(before.wait().unwrap(), [0, 1, 2]);
    assert_eq!(after.wait().unwrap(), [3, 4]);
}

#[test]
fn tasks_have_a_bound_of_their_own() {
    let (pool, mut lane) = one_lane();
    let handle = pool.add(Log::default(), options(1, 8));
    enqueue(&handle, 0..1);
    (0..LANE_TASKS_MAX).for_each(|_| drop(handle.with(|log| log.applied.push(77)).unwrap()));
    let refused = handle.with(|log| log.applied.push(78)).map(drop).unwrap_err();
    assert_eq!(refused.why, Refusal::TasksFull { max: LANE_TASKS_MAX });
    let drain = pool.drain();
    lane.run_until_idle();
    assert_eq!(drain.wait(), Drained { streams: 1, lost: 0 }, "the pool's own marks have no bound");
    drop(handle.with(refused.item).unwrap());
    assert_eq!(log_of(&handle, &mut lane).len(), 1 + LANE_TASKS_MAX + 1);
}

#[test]
fn a_drain_waits_for_what_came_before_it() {
    let (pool, mut lane) = one_lane();
    let handle = pool.add(Log::default(), options(100, 2));
    enqueue(&handle, 0..3);
    let mut drain = pool.drain();
    enqueue(&handle, 3..50);
    let bell = Arc::<Bell>::default();
    assert!(poll_with(&bell, &mut drain).is_pending());
    lane.step();
    assert!(poll_with(&bell, &mut drain).is_pending(), "two of three");
    lane.step();
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    assert_eq!(poll_with(&bell, &mut drain), Poll::Ready(Drained { streams: 1, lost: 0 }));
    assert_eq!(handle.metrics().counts.applied, 3, "and for no more");
}

#[test]
fn a_drain_counts_the_streams_that_cannot_come_to_it() {
    let (pool, mut lane) = one_lane();
    let [failed, failing, removed, good] = [(); 4].map(|()| pool.add(Log::default(), options(100, 2)));
    failed.enqueue(bad(0)).unwrap();
    lane.run_until_idle();
    failing.enqueue(bad(0)).unwrap();
    enqueue(&removed, 0..1);
    enqueue(&good, 0..1);
    let drain = pool.drain();
    drop(removed.remove());
    lane.run_until_idle();
    assert_eq!(drain.wait(), Drained { streams: 1, lost: 3 });
    drop((failed, failing, removed, good));
    assert_eq!(pool.drain().wait(), Drained::default(), "no stream, no wait");
}

#[test]
fn a_shutdown_drains_without_any_lane() {
    let (pool, lanes) = Pool::new(3).unwrap();
    let handles: Vec<_> = (0..5).map(|_| pool.add(Log::default(), options(100, 2))).collect();
    handles.iter().for_each(|handle| enqueue(handle, 0..9));
    let remains = pool.shutdown(Ending::Drain);
    assert_eq!(remains.streams.len(), 5);
    for (retired, handle) in remains.streams.iter().zip(&handles) {
        assert_eq!(retired.id, handle.id());
        assert_eq!(retired.stream.applied, (0..9).collect::<Vec<_>>());
        assert!(retired.unapplied.is_empty());
        assert_eq!(handle.enqueue(event(9)).unwrap_err().why, Refusal::Closed);
    }
    for mut lane in lanes {
        lane.run();
    }
}

#[test]
fn a_shutdown_that_does_not_drain_gives_the_events_back() {
    let (pool, mut lane) = one_lane();
    let handle = pool.add(Log::default(), options(100, 2));
    enqueue(&handle, 0..5);
    lane.step();
    let remains = pool.shutdown(Ending::Stop);
    assert_eq!(remains.streams[0].stream.applied, [0, 1]);
    assert_eq!(numbers(&remains.streams[0].unapplied), [2, 3, 4]);
}

#[test]
fn a_pool_with_threads_of_its_own() {
    let (sender, receiver) = mpsc::channel();
    let on_start = move |lane| {
        let name = std::thread::current().name().map(str::to_owned);
        sender.send((lane, name)).unwrap();
    };
    let pool = Pool::spawn(3, on_start).unwrap();
    let mut started: Vec<_> = receiver.iter().take(3).collect();
    started.sort();
    let expected: Vec<_> = (0..3).map(|lane| (lane, Some(format!("kv-lane-{lane}")))).collect();
    assert_eq!(started, expected);
    let handles: Vec<_> = (0..20).map(|_| pool.add(Log::default(), options(100, 2))).collect();
    handles.iter().for_each(|handle| enqueue(handle, 0..50));
    assert_eq!(pool.drain().wait(), Drained { streams: 20, lost: 0 });
    let reply = handles[7].with(|log| log.applied.clone()).unwrap();
    assert_eq!(reply.wait().unwrap(), (0..50).collect::<Vec<_>>());
    let remains = pool.shutdown(Ending::Stop);
    assert_eq!(remains.streams.len(), 20);
    assert!(remains.lost_lanes.is_empty());
}

#[test]
fn the_others_do_the_work_of_a_lane_that_did_not_start() {
    let on_start = |lane| {
        if lane == 1 {
            resume_unwind(Box::new("no such core"));
        }
    };
    let pool = Pool::spawn(2, on_start).unwrap();
    let handles: Vec<_> = (0..4).map(|_| pool.add(Log::default(), options(100, 2))).collect();
    handles.iter().for_each(|handle| enqueue(handle, 0..50));
    assert_eq!(pool.drain().wait(), Drained { streams: 4, lost: 0 });
    assert_eq!(pool.shutdown(Ending::Drain).lost_lanes, [(1, "no such core".into())]);
}

#[test]
fn a_pool_has_at_least_one_lane_and_not_more_than_a_word_tells_apart() {
    for asked in [0, LANES_MAX + 1] {
        let error = Pool::<Log>::new(asked).unwrap_err().to_string();
        assert_eq!(error, format!("a pool has 1 to 63 lanes, not {asked}"));
    }
    let (pool, mut lanes) = Pool::new(LANES_MAX).unwrap();
    let handle = pool.add(Log::default(), options(100, 2));
    enqueue(&handle, 0..3);
    let drain = pool.drain();
    assert_eq!(lanes[LANES_MAX - 1].run_until(drain).streams, 1);
}

#[test]
fn a_busy_lane_looks_after_the_list_of_one_that_does_not_run() {
    let (pool, first, mut second) = two_lanes();
    let [stranded, busy] = [(); 2].map(|()| pool.add(Log::default(), options(10_000, 1)));
    enqueue(&stranded, 0..1);
    let turns = 3 * LANE_LOOK_AROUND_TURNS;
    enqueue(&busy, (0..).take(2 * turns));
    (0..turns).for_each(|_| _ = second.step());
    assert_eq!(stranded.metrics().counts.applied, 1);
    assert_eq!(busy.metrics().state, StreamState::Queued, "it was never idle");
    drop(first);
}

#[test]
fn ids_are_not_given_out_twice() {
    let (pool, _lane) = one_lane();
    let first = pool.add(Log::default(), options(1, 1)).id();
    let second = pool.add(Log::default(), options(1, 1)).id();
    assert_ne!(first, second);
}
