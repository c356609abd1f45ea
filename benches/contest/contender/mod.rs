//! Who takes part: one trait, and one small file for each contender.
//!
//! A contender's own form of an event or request is made before the clock runs ([`Contender::prepare`],
//! [`Contender::request`]); what is timed is the call that its documentation names, and the lane's drain where events go
//! through a queue. A peer's peculiarities stay in its adapter.

mod crtc;
mod ours;
mod positional;
mod smg;

pub use crtc::Crtc;
pub use ours::{Chain, Entrant, OurIndex, Reference};
pub use positional::Positional;
pub use smg::Smg;

use std::cmp::Ordering;

use crate::workload::Batch;

/// An index under test, with all its workers taken in. Workers are numbered from 0.
pub trait Contender: Sized {
    /// Its name in tables.
    const NAME: &'static str;
    /// The most workers it takes.
    const WORKERS_MAX: u32 = u32::MAX;
    /// The most blocks under one place that it bears.
    const SIBLINGS_MAX: u64 = u64::MAX;

    /// Events in its own form.
    type Prepared;
    /// Its lookups, usable beside a writer.
    type Reader: Reader;

    /// An empty index with `workers` workers.
    fn with_workers(workers: u32) -> Self;

    /// Puts events into the contender's form.
    fn prepare(&mut self, batch: &Batch) -> Self::Prepared;

    /// Applies events and waits until lookups see them all. The CPU time it took, in ns, on whatever thread.
    fn apply(&mut self, prepared: &mut Self::Prepared) -> u64;

    /// A reader of this index.
    fn reader(&self) -> Self::Reader;

    /// Why its answers called `answers` may differ from ours; otherwise a difference ends the run.
    fn excuse(_answers: &str) -> Option<&'static str> {
        None
    }

    /// Bytes it holds outside of the global allocator; negative for what its adapter keeps inside.
    fn extra_bytes(&self) -> i64 {
        0
    }
}

/// The lookups of a contender. What a lookup found stays in the reader or is dropped, as its API has it.
pub trait Reader: Clone + Send {
    /// A request in the contender's form.
    type Request: Send + Sync;

    /// Puts a request into the contender's form.
    fn request(contents: &[u64]) -> Self::Request;

    /// Looks up and reads nothing.
    fn find(&mut self, request: &Self::Request);

    /// Looks up and reads who holds most: the depth, and how many workers reach it.
    fn deepest(&mut self, request: &Self::Request) -> (u32, u32);

    /// Looks up and reads every (worker, depth) into `rows`, in any order.
    fn rows(&mut self, request: &Self::Request, rows: &mut Vec<(u32, u32)>);

    /// Every (worker, depth), in any order.
    fn answer(&mut self, request: &Self::Request) -> Vec<(u32, u32)> {
        let mut rows = Vec::new();
        self.rows(request, &mut rows);
        rows
    }

    /// Lookups that had to start again because of a writer, where the contender counts them.
    fn retries(&self) -> Option<u64> {
        None
    }
}

/// The deepest of some rows, and how many there are of it: for contenders that have no levels.
#[derive(Clone, Copy, Debug, Default)]
struct Deepest {
    depth: u32,
    holders: u32,
}

impl Deepest {
    fn of(depths: impl Iterator<Item = u32>) -> (u32, u32) {
        let mut best = Self::default();
        depths.for_each(|depth| best.see(depth));
        best.into()
    }

    fn see(&mut self, depth: u32) {
        match depth.cmp(&self.depth) {
            Ordering::Greater => *self = Self { depth, holders: 1 },
            Ordering::Equal => self.holders += 1,
            Ordering::Less => (),
        }
    }
}

impl From<Deepest> for (u32, u32) {
    fn from(best: Deepest) -> Self {
        (best.depth, best.holders)
    }
}
