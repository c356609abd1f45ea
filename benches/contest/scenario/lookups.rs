//! Timing lookups one by one.

use std::hint::black_box;

use super::Trial;
use crate::contender::{Contender, Reader};
use crate::measure::latency::{Latencies, Stopwatch};

/// How much of an answer is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Nothing.
    Find,
    /// The deepest level: how deep, and how many.
    Deepest,
    /// Every (worker, depth).
    Rows,
}

/// Requests in the contender's form, and as many others of the same kind to warm the index with.
pub struct Requests<C: Contender> {
    pub timed: Vec<<C::Reader as Reader>::Request>,
    pub warm: Vec<<C::Reader as Reader>::Request>,
}

impl<C: Contender> Requests<C> {
    /// Two sets of requests from one source.
    pub fn draw(trial: &Trial, draw: impl Fn(u64) -> Vec<Vec<u64>>) -> Self {
        let prepared = |seed| draw(seed).iter().map(|request| C::Reader::request(request)).collect();
        let seed = trial.settings.seed;
        Self { timed: prepared(seed ^ 1), warm: if trial.checks() { Vec::new() } else { prepared(seed ^ 2) } }
    }

    /// Times every request once and reports the percentiles under `op`. The request is cold: it was not touched since the
    /// caches were flushed; the index is warm from as many other lookups.
    pub fn time_cold(&self, trial: &mut Trial, op: &str, reader: &mut C::Reader, depth: Depth) {
        flush_caches();
        let mut rows = Vec::new();
        self.warm.iter().for_each(|request| look_up(reader, request, depth, &mut rows));
        report(trial, op, self.pass(reader, depth));
    }

    /// Times every request once, right after it was read, and reports the percentiles under `op`.
    pub fn time_hot(&self, trial: &mut Trial, op: &str, reader: &mut C::Reader, depth: Depth) {
        let watch = Stopwatch::calibrated();
        let (mut rows, mut times) = (Vec::new(), Latencies::default());
        for request in &self.timed {
            look_up(reader, request, depth, &mut rows);
            times.push(watch.time(|| look_up(reader, request, depth, &mut rows)).1);
        }
        report(trial, op, times);
    }

    fn pass(&self, reader: &mut C::Reader, depth: Depth) -> Latencies {
        let watch = Stopwatch::calibrated();
        let (mut rows, mut times) = (Vec::new(), Latencies::default());
        for request in &self.timed {
            times.push(watch.time(|| look_up(reader, request, depth, &mut rows)).1);
        }
        times
    }
}

/// One lookup, its answer read as far as `depth` says.
pub fn look_up<R: Reader>(reader: &mut R, request: &R::Request, depth: Depth, rows: &mut Vec<(u32, u32)>) {
    match depth {
        Depth::Find => reader.find(request),
        Depth::Deepest => _ = black_box(reader.deepest(request)),
        Depth::Rows => reader.rows(request, rows),
    }
    black_box(rows);
}

fn report(trial: &mut Trial, op: &str, mut times: Latencies) {
    for (name, percent) in [("p50", 50.0), ("p99", 99.0)] {
        let value = times.percentile(percent);
        trial.report(format!("{op} {name}"), "ns", value, times.len());
    }
}

/// Reads more memory than the last-level cache holds.
fn flush_caches() {
    let words = vec![1_u64; FLUSH_BYTES / 8];
    black_box(words.iter().step_by(8).sum::<u64>());
}

/// Twice a large last-level cache of today's servers; one core sees a slice of it.
const FLUSH_BYTES: usize = 128 << 20;
