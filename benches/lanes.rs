//! A lane pool's own share of an event: queuing it, and bringing it to its stream. One lane, stepped on the same thread, and
//! streams whose `apply` is one addition.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime};
use kv_index::lanes::{Lane, Pool, Stream, StreamHandle, StreamOptions};

/// As large as a decoded batch: three vectors, a number, an option.
type Event = [u64; 12];

#[derive(Default)]
struct Sum(u64);

impl Stream for Sum {
    type Event = Event;

    fn apply(&mut self, event: Event) -> Option<Event> {
        self.0 = self.0.wrapping_add(event[0]);
        None
    }

    fn cost(_: &Event) -> u64 {
        size_of::<Event>() as u64
    }
}

/// A pool of one lane with `streams` streams.
struct Setup {
    _pool: Pool<Sum>,
    lane: Lane<Sum>,
    handles: Vec<StreamHandle<Sum>>,
}

fn setup(streams: usize) -> Setup {
    let (pool, mut lanes) = Pool::new(1).unwrap();
    let handles = (0..streams).map(|_| pool.add(Sum::default(), StreamOptions::default())).collect();
    Setup { _pool: pool, lane: lanes.pop().unwrap(), handles }
}

/// Queues `events` for every stream, then lets the lane apply them. How long each took.
fn round(setup: &mut Setup, events: u64) -> (Duration, Duration) {
    let began = Instant::now();
    for handle in &setup.handles {
        (0..events).for_each(|number| handle.enqueue(black_box([number; 12])).unwrap());
    }
    let queued = Instant::now();
    setup.lane.run_until_idle();
    (queued - began, queued.elapsed())
}

fn lanes(c: &mut Criterion) {
    let mut group = c.benchmark_group("lanes");
    for (name, streams, events) in [("a_burst_of_32_to_one_stream", 1, 32), ("one_event_to_each_of_1000_streams", 1_000, 1)] {
        assert_eq!(sum_after_a_round(streams, events), events * (events - 1) / 2);
        group.throughput(Throughput::Elements(streams as u64 * events));
        time(&mut group, &format!("enqueue/{name}"), streams, events, |(enqueue, _)| enqueue);
        time(&mut group, &format!("apply/{name}"), streams, events, |(_, apply)| apply);
    }
    group.finish();
}

fn time(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    streams: usize,
    events: u64,
    part: fn((Duration, Duration)) -> Duration,
) {
    let mut setup = setup(streams);
    group.bench_function(name, |b| b.iter_custom(|rounds| (0..rounds).map(|_| part(round(&mut setup, events))).sum()));
}

fn sum_after_a_round(streams: usize, events: u64) -> u64 {
    let mut setup = setup(streams);
    round(&mut setup, events);
    let reply = setup.handles[0].with(|sum| sum.0).unwrap();
    setup.lane.run_until(reply).unwrap()
}

criterion_group!(benches, lanes);
criterion_main!(benches);
