//! The trace at an offered rate: how fast it can come before the contender falls behind.
//!
//! Requests and events are due at fixed times, whether or not earlier ones are done. A run keeps up when everything, the
//! lane's drain included, is done within 110 % of the offered time. The rate doubles until a run falls behind, and is
//! then halved in between until the last that kept up and the first that did not are 10 % apart.

use std::hint::spin_loop;
use std::thread;
use std::time::{Duration, Instant};

use super::lookups::{Depth, look_up};
use super::{Trial, replay};
use crate::contender::{Contender, Reader};
use crate::measure::latency::{Latencies, Stopwatch};
use crate::workload::mooncake::{Replay, Step};
use crate::workload::{Batch, mooncake};

/// Cores beyond the two that the harness and the system take.
const SPARE_CORES_MIN: usize = 4;
/// Threads that look up.
const READERS: usize = 2;
/// Done within so many times the offered time: kept up.
const KEPT_UP: f64 = 1.1;
/// The first rate tried, in block operations a second.
const FIRST_RATE: f64 = 1e6;
/// Where the search ends when a contender never falls behind, or always.
const LAST_RATE: f64 = 1e10;
const LOWEST_RATE: f64 = 1e3;
/// The last rate that was kept up with and the first that was not lie so close together at the end.
const BRACKET: f64 = 1.1;
/// Requests whose events are prepared together.
const TOGETHER: usize = 8;

/// One run at one rate.
struct Run {
    kept_up: bool,
    lookups: Latencies,
}

/// Events of some requests, and when they are due, in block operations since the start.
struct Due<T> {
    at: usize,
    item: T,
}

/// The sustained rate and the lookups' percentiles at it. Skipped, with a printed line, without cores to spare.
pub fn open_loop<C: Contender>(trial: &mut Trial) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    if trial.checks() || cores < 2 + SPARE_CORES_MIN {
        eprintln!("open loop: skipped, it needs {SPARE_CORES_MIN} spare cores and this machine has {cores} in all");
        return;
    }
    let Some(replay) = replay::load(trial) else { return };
    let Some((rate, mut run)) = bracket(|rate| offer::<C>(&replay, rate)) else { return };
    trial.report("sustained", "M operations/s", rate / 1e6, replay.steps.len());
    for (name, percent) in [("p50", 50.0), ("p99", 99.0)] {
        let value = run.lookups.percentile(percent);
        trial.report(format!("lookup at the sustained rate {name}"), "ns", value, run.lookups.len());
    }
}

/// The highest rate found, from [`FIRST_RATE`] on, whose run kept up, with that run; nothing if none did.
fn bracket(mut offer: impl FnMut(f64) -> Run) -> Option<(f64, Run)> {
    let (mut kept, mut lost): (Option<(f64, Run)>, Option<f64>) = (None, None);
    let mut rate = FIRST_RATE;
    while (LOWEST_RATE..=LAST_RATE).contains(&rate) {
        let run = offer(rate);
        if run.kept_up {
            kept = Some((rate, run))
        } else {
            lost = Some(rate)
        }
        rate = match (&kept, lost) {
            (Some((kept, _)), Some(lost)) if lost / kept <= BRACKET => break,
            (Some((kept, _)), Some(lost)) => (kept * lost).sqrt(),
            (Some((kept, _)), None) => kept * 2.0,
            (None, _) => rate / 2.0,
        };
    }
    kept
}

/// Offers the whole trace at `rate` block operations a second.
fn offer<C: Contender>(replay: &Replay, rate: f64) -> Run {
    let mut contender = C::with_workers(replay.workers);
    let mut events = events(replay, &mut contender);
    let requests = requests::<C::Reader>(replay);
    let total: usize = replay.steps.iter().map(Step::operations).sum();
    let offered = Duration::from_secs_f64(total as f64 / rate);
    let reader = contender.reader();
    let began = Instant::now() + Duration::from_millis(10);
    let (lookups, lookups_done) = thread::scope(|scope| {
        let readers: Vec<_> = requests.iter().map(|share| (reader.clone(), share)).collect();
        let reading: Vec<_> =
            readers.into_iter().map(|(reader, share)| scope.spawn(move || read_when_due(reader, share, began, rate))).collect();
        for due in &mut events {
            wait_until(began + Duration::from_secs_f64(due.at as f64 / rate));
            contender.apply(&mut due.item);
        }
        let all = reading.into_iter().map(|reader| reader.join().expect("a reader does not panic"));
        all.fold((Latencies::default(), began), |(mut sum, last), (times, done)| {
            sum.extend(times);
            (sum, last.max(done))
        })
    });
    let done = lookups_done.max(Instant::now());
    Run { kept_up: done.saturating_duration_since(began) <= offered.mul_f64(KEPT_UP), lookups }
}

fn read_when_due<R: Reader>(mut reader: R, share: &[Due<R::Request>], began: Instant, rate: f64) -> (Latencies, Instant) {
    let (watch, mut rows, mut times) = (Stopwatch::calibrated(), Vec::new(), Latencies::default());
    for due in share {
        wait_until(began + Duration::from_secs_f64(due.at as f64 / rate));
        times.push(watch.time(|| look_up(&mut reader, &due.item, Depth::Deepest, &mut rows)).1);
    }
    (times, Instant::now())
}

/// Spins: a sleep would be late by more than a lookup takes.
fn wait_until(due: Instant) {
    while Instant::now() < due {
        spin_loop();
    }
}

/// When each request is due: after all operations of the requests before it.
fn due(replay: &Replay) -> impl Iterator<Item = Due<&Step>> {
    replay.steps.iter().scan(0, |at, step| {
        let due = Due { at: *at, item: step };
        *at += step.operations();
        Some(due)
    })
}

fn events<C: Contender>(replay: &mooncake::Replay, contender: &mut C) -> Vec<Due<C::Prepared>> {
    let steps: Vec<_> = due(replay).collect();
    let mut prepare = |steps: &[Due<&Step>]| {
        let mut batch = Batch::default();
        steps.iter().for_each(|due| replay.announce(due.item, &mut batch));
        Due { at: steps[0].at, item: contender.prepare(&batch) }
    };
    steps.chunks(TOGETHER).map(&mut prepare).collect()
}

/// The requests, dealt out to the readers.
fn requests<R: Reader>(replay: &Replay) -> Vec<Vec<Due<R::Request>>> {
    let mut shares: Vec<Vec<_>> = (0..READERS).map(|_| Vec::new()).collect();
    for (number, due) in due(replay).enumerate() {
        shares[number % READERS].push(Due { at: due.at, item: R::request(&replay.request(due.item)) });
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Smg;
    use crate::workload::mooncake::Row;

    #[test]
    fn the_sustained_rate_is_bracketed_from_both_sides() {
        for limit in [3e4, 1e6, 37e6, 2e9] {
            let mut runs = 0;
            let offer = |rate: f64| {
                runs += 1;
                Run { kept_up: rate <= limit, lookups: Latencies::default() }
            };
            let (rate, _) = bracket(offer).expect("a rate that is kept up with");
            assert!(rate <= limit && rate * BRACKET >= limit, "{rate} of {limit}");
            assert!(runs < 24, "{runs}");
        }
        assert!(bracket(|_| Run { kept_up: false, lookups: Latencies::default() }).is_none());
    }

    #[test]
    fn every_request_is_looked_up_and_no_contender_keeps_up_with_everything() {
        let row = |id| Row { timestamp_ms: 0, input_tokens: 4_000, output_tokens: 100, hash_ids: (id..id + 8).collect() };
        let replay = Replay::of(&(0..40).map(|id| row(id * 3)).collect::<Vec<_>>());
        let run = offer::<Smg>(&replay, 1e13);
        assert!(!run.kept_up);
        assert_eq!(run.lookups.len(), 40);
    }
}
