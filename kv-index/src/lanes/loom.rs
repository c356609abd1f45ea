//! Every interleaving (with up to [`PREEMPTIONS`] forced switches of threads) of small scenes of the scheduling protocol.
//! A lost wake-up is a deadlock, which loom reports.
//!
//! ```sh
//! RUSTFLAGS="--cfg kv_loom" cargo test -p kv-index --release --lib lanes
//! ```

use super::reply::promise;
use super::scene::{Event, Log, assert_listed_once, event, options};
use super::schedule::Schedule;
use super::*;
use crate::sync::{Arc, thread};

/// Forced switches of threads in one run. Loom's own advice is 2 or 3: most faults need no more.
const PREEMPTIONS: usize = 3;

fn model(preemptions: usize, scene: impl Fn() + Send + Sync + 'static) {
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(preemptions));
    builder.check(scene);
}

/// A lane that does its first item and then something else.
fn take_one(schedule: &Schedule<u32>, lane: usize) -> u32 {
    loop {
        if let Some(item) = schedule.take_or_park(lane) {
            schedule.pass_on(lane);
            return item;
        }
    }
}

#[test]
fn a_listed_item_wakes_a_lane_that_is_about_to_park() {
    model(PREEMPTIONS, || {
        let schedule = Arc::new(Schedule::new(2));
        let lane = thread::spawn({
            let schedule = Arc::clone(&schedule);
            move || take_one(&schedule, 0)
        });
        schedule.list(1, 7);
        assert_eq!(lane.join().unwrap(), 7);
    });
}

#[test]
fn two_items_on_one_list_are_taken_by_two_lanes_once_each() {
    model(PREEMPTIONS, || {
        let schedule = Arc::new(Schedule::new(2));
        let lanes = [0, 1].map(|lane| {
            let schedule = Arc::clone(&schedule);
            thread::spawn(move || take_one(&schedule, lane))
        });
        schedule.list(0, 1);
        schedule.list(0, 2);
        let mut taken = lanes.map(|lane| lane.join().unwrap());
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
    });
}

#[test]
fn a_lane_that_leaves_passes_its_wake_up_on() {
    model(PREEMPTIONS, || {
        let schedule = Arc::new(Schedule::new(2));
        let staying = thread::spawn({
            let schedule = Arc::clone(&schedule);
            move || take_one(&schedule, 1)
        });
        let leaving = thread::spawn({
            let schedule = Arc::clone(&schedule);
            move || {
                // Woken by its waker, if not by the item.
                let found = schedule.take_or_park(0);
                found.into_iter().for_each(|item| schedule.list_again(0, item));
                schedule.pass_on(0);
            }
        });
        schedule.waker(0).wake();
        schedule.list(0, 7);
        assert_eq!(staying.join().unwrap(), 7);
        leaving.join().unwrap();
    });
}

#[test]
fn a_stop_reaches_a_lane_that_is_about_to_park() {
    model(PREEMPTIONS, || {
        let schedule = Arc::new(Schedule::<u32>::new(1));
        let lane = thread::spawn({
            let schedule = Arc::clone(&schedule);
            move || {
                while !schedule.is_stopped() {
                    assert_eq!(schedule.take_or_park(0), None);
                }
            }
        });
        schedule.stop();
        lane.join().unwrap();
    });
}

/// A pool whose lanes run on threads, which end with the pool.
fn running(lanes: usize) -> (Pool<Log>, Vec<thread::JoinHandle<()>>) {
    let (pool, lanes) = Pool::new(lanes).unwrap();
    (pool, lanes.into_iter().map(|mut lane| thread::spawn(move || lane.run())).collect())
}

/// Ends the pool and the threads of its lanes.
fn end(pool: Pool<Log>, lanes: Vec<thread::JoinHandle<()>>, ending: Ending) -> Vec<Retired<Log>> {
    let remains = pool.shutdown(ending);
    lanes.into_iter().for_each(|lane| lane.join().unwrap());
    remains.streams
}

fn all_numbers(retired: &Retired<Log>) -> Vec<u32> {
    let unapplied = retired.unapplied.iter().map(|event| event.number);
    retired.stream.applied.iter().copied().chain(unapplied).collect()
}

#[test]
fn an_event_reaches_a_lane_that_is_about_to_park() {
    model(PREEMPTIONS, || {
        let (pool, lanes) = running(1);
        let handle = pool.add(Log::default(), options(4, 1));
        handle.enqueue(event(0)).unwrap();
        let applied = handle.with(|log| log.applied.clone()).unwrap();
        assert_eq!(applied.wait().unwrap(), [0]);
        assert_listed_once(&pool.shared);
        end(pool, lanes, Ending::Stop);
    });
}

#[test]
fn an_event_for_a_lane_that_stops_working_reaches_another() {
    model(PREEMPTIONS, || {
        let (pool, lanes) = Pool::new(2).unwrap();
        let [mut leaving, mut staying] = lanes.try_into().unwrap();
        let handle = pool.add(Log::default(), options(4, 1));
        let (promise, reply) = promise();
        let leaving = thread::spawn(move || leaving.run_until(reply));
        let staying = thread::spawn(move || staying.run());
        promise.fulfil(());
        handle.enqueue(event(0)).unwrap();
        let drained = pool.drain().wait();
        assert_eq!(drained, Drained { streams: 1, lost: 0 });
        leaving.join().unwrap().unwrap();
        end(pool, vec![staying], Ending::Stop);
    });
}

#[test]
fn events_of_two_threads_list_their_stream_once() {
    model(PREEMPTIONS, || {
        let (pool, mut lanes) = Pool::new(1).unwrap();
        let handle = Arc::new(pool.add(Log::default(), options(4, 1)));
        let feeder = thread::spawn({
            let handle = Arc::clone(&handle);
            move || handle.enqueue(event(0)).unwrap()
        });
        handle.enqueue(event(1)).unwrap();
        lanes[0].step();
        feeder.join().unwrap();
        assert_listed_once(&pool.shared);
        lanes[0].run_until_idle();
        assert_eq!(handle.metrics().counts.applied, 2);
    });
}

#[test]
fn order_holds_when_a_stream_is_stolen_between_its_events() {
    model(2, || {
        let (pool, lanes) = running(2);
        let handle = pool.add(Log::default(), options(4, 1));
        (0..2).for_each(|number| handle.enqueue(event(number)).unwrap());
        let retired = end(pool, lanes, Ending::Drain);
        assert_eq!(retired[0].stream.applied, [0, 1]);
    });
}

#[test]
fn an_event_that_comes_while_the_stream_comes_to_rest_is_applied() {
    model(PREEMPTIONS, || {
        let (pool, mut lanes) = Pool::new(1).unwrap();
        let handle = pool.add(Log::default(), options(4, 4));
        handle.enqueue(event(0)).unwrap();
        let mut lane = lanes.pop().unwrap();
        let lane = thread::spawn(move || {
            lane.step();
            lane
        });
        handle.enqueue(event(1)).unwrap();
        let mut lane = lane.join().unwrap();
        assert_listed_once(&pool.shared);
        lane.run_until_idle();
        assert_eq!(handle.metrics().counts.applied, 2);
    });
}

#[test]
fn a_removal_beside_a_lane_gets_the_stream_and_every_event() {
    model(PREEMPTIONS, || {
        let (pool, mut lanes) = Pool::new(1).unwrap();
        let handle = pool.add(Log::default(), options(4, 4));
        (0..2).for_each(|number| handle.enqueue(event(number)).unwrap());
        let mut lane = lanes.pop().unwrap();
        let lane = thread::spawn(move || lane.run_until_idle());
        let retired = handle.remove().wait().unwrap();
        assert_eq!(all_numbers(&retired), [0, 1]);
        lane.join().unwrap();
        let counts = pool.metrics().counts;
        assert_eq!((counts.accepted, counts.applied + counts.unapplied), (2, 2));
    });
}

#[test]
fn a_dropped_handle_leaves_nothing_behind() {
    model(PREEMPTIONS, || {
        let (pool, mut lanes) = Pool::new(1).unwrap();
        let handle = pool.add(Log::default(), options(4, 4));
        handle.enqueue(event(0)).unwrap();
        let drain = pool.drain();
        let mut lane = lanes.pop().unwrap();
        let lane = thread::spawn(move || lane.run_until_idle());
        drop(handle);
        lane.join().unwrap();
        let drained = drain.wait();
        assert_eq!(drained.streams + drained.lost, 1);
        assert_eq!(pool.metrics().streams, 0);
    });
}

#[test]
fn a_shutdown_beside_a_feeder_applies_or_gives_back_what_was_taken() {
    for ending in [Ending::Drain, Ending::Stop] {
        model(2, move || {
            let (pool, lanes) = running(1);
            let handle = Arc::new(pool.add(Log::default(), options(4, 1)));
            let feeder = thread::spawn({
                let handle = Arc::clone(&handle);
                move || handle.enqueue(event(0)).is_ok()
            });
            let retired = end(pool, lanes, ending);
            let taken = feeder.join().unwrap();
            assert_eq!(all_numbers(&retired[0]).len(), usize::from(taken));
            assert!(ending == Ending::Stop || retired[0].unapplied.is_empty());
            assert!(handle.enqueue(event(1)).is_err());
        });
    }
}

#[test]
fn a_shutdown_drains_what_a_stepping_lane_leaves() {
    model(PREEMPTIONS, || {
        let (pool, mut lanes) = Pool::new(1).unwrap();
        let handle = pool.add(Log::default(), options(4, 1));
        (0..2).for_each(|number| handle.enqueue(event(number)).unwrap());
        let mut lane = lanes.pop().unwrap();
        let lane = thread::spawn(move || lane.step());
        let remains = pool.shutdown(Ending::Drain);
        assert_eq!(remains.streams[0].stream.applied, [0, 1]);
        lane.join().unwrap();
    });
}

#[test]
fn room_wakes_a_feeder_that_is_about_to_sleep() {
    model(PREEMPTIONS, || {
        let (pool, mut lanes) = Pool::new(1).unwrap();
        let handle = pool.add(Log::default(), options(1, 1));
        handle.enqueue(event(0)).unwrap();
        let mut lane = lanes.pop().unwrap();
        let lane = thread::spawn(move || lane.step());
        handle.room().wait();
        handle.enqueue(event(1)).unwrap();
        lane.join().unwrap();
    });
}

#[test]
fn a_failure_beside_a_feeder_and_a_task_leaves_nobody_waiting() {
    model(PREEMPTIONS, || {
        let (pool, mut lanes) = Pool::new(1).unwrap();
        let handle = pool.add(Log::default(), options(1, 1));
        handle.enqueue(Event { panics: true, ..event(0) }).unwrap();
        let mut lane = lanes.pop().unwrap();
        let lane = thread::spawn(move || lane.run_until_idle());
        let reply = handle.with(|_| ());
        assert!(reply.map_or(true, |reply| reply.wait().is_err()));
        handle.room().wait();
        assert_eq!(handle.enqueue(event(1)).unwrap_err().why, Refusal::Failed);
        lane.join().unwrap();
        assert_eq!(pool.failures().len(), 1);
    });
}
