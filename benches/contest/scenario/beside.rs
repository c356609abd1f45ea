//! Lookups beside a writer at full speed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::fill::store_all;
use super::lookups::{Depth, Requests, look_up};
use super::{Lane, Trial};
use crate::contender::{Contender, Reader};
use crate::measure::latency::{Latencies, Stopwatch};
use crate::random::SplitMix64;
use crate::workload::prompts::Prompts;
use crate::workload::{Batch, requests};

/// Turns that the writer makes while the reader reads.
const TURNS: u32 = 2;

/// Store; lookups with no writer; then the same lookups over and over while every suffix is replaced, its events
/// prepared before, so that the writer does nothing but write.
pub fn beside<C: Contender>(trial: &mut Trial) {
    if trial.checks() {
        return;
    }
    let prompts = trial.prompts();
    let requests = Requests::<C>::draw(trial, |seed| requests::draw(&prompts, 0, trial.settings.lookups, seed));
    let mut lane = Lane::<C>::open(prompts.shape.workers);
    store_all(&mut lane, &prompts);
    lane.lap();
    requests.time_hot(trial, "lookup idle", &mut lane.reader(), Depth::Deepest);
    let mut work = lane.prepare_all(turns(&prompts, trial.settings.seed));
    let (done, reader) = (AtomicBool::new(false), lane.reader());
    let (mut times, retries) = thread::scope(|scope| {
        let reading = scope.spawn(|| read_until(&done, reader, &requests));
        work.iter_mut().for_each(|prepared| lane.apply(prepared));
        done.store(true, Ordering::Release);
        reading.join().expect("a reader does not panic")
    });
    let written = lane.lap();
    trial.report("write beside a reader", "ns/block", written.ns_per_block(), written.blocks);
    for (name, percent) in [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9)] {
        let value = times.percentile(percent);
        trial.report(format!("lookup beside a writer {name}"), "ns", value, times.len());
    }
    if let Some(retries) = retries {
        trial.report("retries", "of a million lookups", retries as f64 * 1e6 / times.len() as f64, times.len());
    }
}

/// All requests, again and again until the writer is done; what each took, and how many had to start again.
fn read_until<C: Contender>(done: &AtomicBool, mut reader: C::Reader, requests: &Requests<C>) -> (Latencies, Option<u64>) {
    let watch = Stopwatch::calibrated();
    let (mut times, mut rows) = (Latencies::default(), Vec::new());
    let before = reader.retries();
    while !done.load(Ordering::Acquire) {
        for request in &requests.timed {
            times.push(watch.time(|| look_up(&mut reader, request, Depth::Deepest, &mut rows)).1);
        }
    }
    let retries = reader.retries().zip(before).map(|(after, before)| after - before);
    (times, retries)
}

fn turns(prompts: &Prompts, seed: u64) -> impl Iterator<Item = impl FnOnce(&mut Batch)> {
    let mut random = SplitMix64::new(!seed);
    (1..=TURNS).flat_map(move |turn| {
        let mut pairs = prompts.pairs().to_vec();
        random.shuffle(&mut pairs);
        pairs.into_iter().map(move |pair| {
            move |batch: &mut Batch| {
                prompts.remove_suffix(&pair, turn - 1, batch);
                prompts.store_suffix(&pair, turn, batch);
            }
        })
    })
}
