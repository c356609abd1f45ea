//! How a worker without a cache comes by one.
//!
//! Affinity sends prompts where their prefixes are, so a worker that has just come, or has lost its cache, gets nothing: every
//! prompt has a better holder. A [`Warmup`] knows how much of each worker the index holds, says which workers are *thin* or *young*, and
//! gives them a slice of the requests that nobody holds, and of the hits, if need be, one in a while.
//!
//! ```
//! use std::time::Duration;
//!
//! use kv_routing::warmup::{Branch, Options, Question, Warmup};
//!
//! let now = Duration::from_secs(100);
//! let mut warmup = Warmup::new(Options::default());
//! (0..4).for_each(|worker| _ = warmup.handle_admitted(Duration::ZERO, worker));
//! // Worker 3 has lost its cache.
//! warmup.handle_sizes(now, [(0, 40_000), (1, 50_000), (2, 45_000), (3, 0)]);
//! assert!(warmup.is_thin(3) && !warmup.is_thin(0));
//!
//! // Every prompt has a holder; one in eight goes to worker 3 all the same.
//! let hit = Question { best_blocks: 40, request_blocks: 100 };
//! let choices: Vec<_> = (0..16).map(|seed| warmup.choose(now, hit, |_| Some(0), seed)).collect();
//! assert_eq!(choices.iter().flatten().filter(|choice| choice.worker == 3 && choice.branch == Branch::Divert).count(), 2);
//! ```
//!
//! # Who is warmed
//! ```text
//!    admitted                    60 s, or 1,024 blocks more
//!   ----------> young --------------------------------------> settled
//!                 |  ^                                        |  ^
//!                 |  | admitted again                         |  |
//!     size < level / 2                            size < level / 2
//!                 v  |       size >= level / 2                v  |
//!                thin <-------------------------------------> thin
//! ```
//! * The **level** of a fleet is the upper median of its workers' sizes in the index. Below 1,024 blocks nobody is thin.
//! * **Thin** is who has nothing or less than half of the level, however old and however much it has gained: neither time nor a number
//!   of blocks ends it, only the ratio.
//! * **Young** is who was admitted less than 60 s ago and has gained less than 1,024 blocks since. An index that shrinks under it forgot
//!   the blocks of an earlier life, so gains count from 0 then.
//! * Thin workers are warmed if there are any; else young ones, unless everybody is.
//!
//! # What they get
//! * **A slice of misses.** Every fourth request of which nobody holds much (a share of at most 0.3, or at most 4 blocks that are less than
//!   half of it) goes to the least loaded of them.
//! * **Diversions of hits**, for thin workers only: after 8 hits, the next shallow one (at most half of the request), or any if no shallow
//!   one was seen since the last diversion; after 16, any. A worker with requests under way gets no second one within 2 s. What is
//!   lost is one request's reuse; what is won is that its prefix has two holders.
//!
//! Who has no candidate counts nothing, and an empty list costs nothing.
//!
//! # Driving it
//! Tell it who joins, returns ([`Transition::readmits`](crate::liveness::Transition::readmits)) and leaves, and the sizes once a
//! second ([`Warmup::next_timeout`]). [`Warmup::choose`] is asked with every decision, before the policy. Fleets are
//! small lists here: a lock around it is held for tens of nanoseconds, and for a pass over the thin workers when there are any.
//!
//! # Known limit
//! A publisher that restarts with its engine's cache kept announces nothing that it kept. The worker is thin in the index and not in
//! fact; the slice goes to it until what is announced anew has reached the ratio.

mod fleet;
mod options;
mod turns;

use std::time::Duration;

use fleet::Fleet;
pub use options::Options;
use turns::Turns;

use crate::select::cheapest;

/// What a decision found before it asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// The most that any worker holds of the request, in blocks.
    pub best_blocks: u64,
    /// The request's length in blocks.
    pub request_blocks: u64,
}

/// Why a worker is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Branch {
    /// Nobody holds much of the request.
    Slice,
    /// Somebody does, and the worker holds too little.
    Divert,
}

/// A worker that gets a request in order to get its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The caller's number for it.
    pub worker: u32,
    /// Why.
    pub branch: Branch,
}

/// Who of a fleet is to be warmed, and when. See the [module](self).
#[derive(Debug)]
pub struct Warmup {
    options: Options,
    fleet: Fleet,
    turns: Turns,
}

impl Question {
    /// At most half of the request would be reused, so that little is lost elsewhere.
    fn is_shallow(self) -> bool {
        self.best_blocks.saturating_mul(2) <= self.request_blocks
    }
}

impl Warmup {
    /// A fleet of nobody.
    pub fn new(options: Options) -> Self {
        Self { options, fleet: Fleet::default(), turns: Turns::default() }
    }

    /// A worker joins the fleet, or returns to it: its age begins. False if there is no room for another one.
    pub fn handle_admitted(&mut self, now: Duration, worker: u32) -> bool {
        self.fleet.admit(now, worker)
    }

    /// A worker leaves.
    pub fn handle_removed(&mut self, worker: u32) {
        self.fleet.remove(worker);
    }

    /// How many blocks the index holds of each worker. Who is not named has none; who was not admitted is not counted.
    pub fn handle_sizes(&mut self, now: Duration, blocks: impl IntoIterator<Item = (u32, u64)>) {
        self.fleet.measure(now, blocks, &self.options);
    }

    /// When the sizes should be told again. Nothing while there are no workers.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Duration> {
        self.fleet.due()
    }

    /// Whether the worker has too little for its fleet, by the last sizes.
    pub fn is_thin(&self, worker: u32) -> bool {
        self.fleet.is_thin(worker)
    }

    /// Whether the worker is thin or young.
    pub fn is_warming(&self, now: Duration, worker: u32) -> bool {
        self.options.share > 0.0 && self.fleet.is_warming(now, worker, &self.options)
    }

    /// The upper median of the workers' sizes, in blocks.
    pub fn level(&self) -> u64 {
        self.fleet.level()
    }

    /// Whether this request goes to a worker that is to be warmed. `in_flight` tells a worker's load, and nothing if it may not be
    /// chosen.
    pub fn choose(
        &mut self,
        now: Duration,
        question: Question,
        in_flight: impl Fn(u32) -> Option<u32>,
        seed: u64,
    ) -> Option<Choice> {
        if self.options.slice_every().is_none() || self.fleet.candidates().is_empty() {
            return None;
        }
        if self.options.is_miss(question) {
            self.slice(now, in_flight, seed)
        } else {
            self.divert(now, question, in_flight, seed)
        }
    }

    fn slice(&mut self, now: Duration, in_flight: impl Fn(u32) -> Option<u32>, seed: u64) -> Option<Choice> {
        let warming = |&worker: &u32| self.fleet.is_warming(now, worker, &self.options);
        let candidates: Vec<_> = self.fleet.candidates().iter().copied().filter(warming).collect();
        let worker = least_loaded(&candidates, in_flight, seed)?;
        self.turns.miss_is_due(self.options.slice_every()?).then_some(Choice { worker, branch: Branch::Slice })
    }

    fn divert(&mut self, now: Duration, question: Question, in_flight: impl Fn(u32) -> Option<u32>, seed: u64) -> Option<Choice> {
        let every = self.options.divert_every.filter(|_| self.fleet.any_is_thin())?;
        if !self.turns.hit_is_due(every, question.is_shallow()) {
            return None;
        }
        // One that works off an earlier diversion has to show its blocks first.
        let rested = |worker: u32| in_flight(worker).filter(|&load| load == 0 || self.fleet.is_rested(now, worker));
        let worker = least_loaded(self.fleet.candidates(), rested, seed)?;
        self.turns.diverted();
        self.fleet.diverted(now, worker);
        Some(Choice { worker, branch: Branch::Divert })
    }
}

/// The least loaded of those that may be chosen, drawn among equals.
fn least_loaded(candidates: &[u32], in_flight: impl Fn(u32) -> Option<u32>, seed: u64) -> Option<u32> {
    let (workers, loads): (Vec<_>, Vec<_>) =
        candidates.iter().filter_map(|&worker| Some((worker, f64::from(in_flight(worker)?)))).unzip();
    cheapest(loads.into_iter(), seed).map(|place| workers[place])
}
