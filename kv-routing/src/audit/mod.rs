//! What engines say they reused, against what was expected of them.
//!
//! An answer's `cached_tokens` is the only word on a cache that comes from the engine's own lookup. Compared with what the index
//! said when the request was placed, it shows two kinds of drift that no event shows:
//!
//! * a worker that **holds more**: after its publisher restarted, no wire announces again what the cache kept. It gets part of it back
//!   as predicted credit, as large as what it was seen to reuse;
//! * a worker that **holds less**: events were lost and nobody noticed. It is degraded, so that its overlap is discounted, and is to be
//!   learned anew.
//!
//! ```text
//!                  enough answers reuse more           enough answers reuse less
//!                 .------------------------.          .--------------------------.
//!                 v                        |          |                          v
//!            holds more <---------------- sound ----------------------------> holds less --.
//!                 |    ----------------->    ^          <--------------------   ^    |     | demand to learn it anew:
//!                 |    answers agree again   |   answers agree again, or it was |    |     | at once, then after a pause
//!                 |                          |   learned anew                   |    '-----' that doubles
//!                 '--------------------------+----------------------------------'
//!                    enough answers reuse less
//! ```
//!
//! One [`Audit`] is for a whole fleet: give it each answer ([`handle_answer`](Audit::handle_answer)), take what it demands
//! ([`poll_output`](Audit::poll_output)), and call [`handle_timeout`](Audit::handle_timeout) when [`next_timeout`](Audit::next_timeout)
//! has come. `now` is the time since the caller's own start.

mod state;
mod window;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

pub use state::State;
use state::Worker;

use crate::limits::{AUDIT_OUTPUTS_MAX, AUDIT_WORKERS_MAX};

/// One answered request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// What the index said that the worker holds of it, when it was placed.
    pub indexed_tokens: u64,
    /// What was expected on top of that, booked for siblings that were sent there a moment before: reusing that is no drift.
    pub booked_tokens: u64,
    /// What the engine says it reused.
    pub cached_tokens: u64,
}

/// What the audit wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Discount the worker's overlap: it holds less than its index says.
    Degrade {
        /// The worker.
        worker: u32,
    },
    /// Learn the worker anew, and say so by [`Audit::handle_relearned`].
    Relearn {
        /// The worker.
        worker: u32,
    },
    /// Ask for [`Audit::credit_tokens`] when placing: the worker holds more than its index says.
    Credit {
        /// The worker.
        worker: u32,
    },
    /// Answers agree with the index again, or it was learned anew: neither discount nor credit.
    Restore {
        /// The worker.
        worker: u32,
    },
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditCounts {
    /// Answers that were weighed.
    pub answers: u64,
    /// Of those, how many reused what was expected.
    pub agreed: u64,
    /// More than was expected.
    pub more: u64,
    /// Less than was expected.
    pub less: u64,
    /// Answers that claim to have reused more than their prompt; they are not weighed.
    pub absurd: u64,
    /// Answers of workers beyond [`AUDIT_WORKERS_MAX`]; they are not weighed.
    pub no_room: u64,
    /// Outputs that nobody took in time.
    pub dropped_outputs: u64,
}

/// The audit of a fleet. Bounded: a window of answers for each worker.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    workers: HashMap<u32, Worker>,
    /// When a worker that holds less is to be asked for again.
    due: BTreeSet<(Duration, u32)>,
    outputs: VecDeque<Output>,
    counts: AuditCounts,
}

impl Audit {
    /// An audit that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Weighs an answer of `worker`.
    pub fn handle_answer(&mut self, now: Duration, worker: u32, answer: Answer) {
        if answer.cached_tokens > answer.prompt_tokens {
            self.counts.absurd += 1;
            return;
        }
        if self.workers.len() >= AUDIT_WORKERS_MAX && !self.workers.contains_key(&worker) {
            self.counts.no_room += 1;
            return;
        }
        self.counts.answers += 1;
        match window::drift(&answer) {
            0 => self.counts.agreed += 1,
            more if more > 0 => self.counts.more += 1,
            _ => self.counts.less += 1,
        }
        let audited = self.workers.entry(worker).or_default();
        let before = audited.state();
        audited.weigh(answer);
        self.moved(now, worker, before);
    }

    /// `worker` was learned anew: what was seen of it before says nothing any more.
    pub fn handle_relearned(&mut self, now: Duration, worker: u32) {
        let Some(audited) = self.workers.get_mut(&worker) else { return };
        let before = audited.state();
        audited.relearned();
        self.moved(now, worker, before);
    }

    /// Forgets a worker that is gone.
    pub fn forget_worker(&mut self, worker: u32) {
        self.workers.remove(&worker);
        self.due.retain(|(_, waiting)| *waiting != worker);
    }

    /// Demands again that those be learned anew that still hold less.
    pub fn handle_timeout(&mut self, now: Duration) {
        while let Some(&(at, worker)) = self.due.first() {
            if at > now {
                return;
            }
            self.due.remove(&(at, worker));
            self.demand(now, worker);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called.
    pub fn next_timeout(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }

    /// What is to be done next. Call until there is nothing.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// What `worker` will reuse beyond what its index says, as predicted from what it did reuse beyond: for
    /// [`Overlap::predicted_tokens`](crate::Overlap). 0 unless it holds more than it announced.
    pub fn credit_tokens(&self, worker: u32, prompt_tokens: u64, indexed_tokens: u64) -> u64 {
        self.workers.get(&worker).map_or(0, |audited| audited.credit(prompt_tokens.saturating_sub(indexed_tokens)))
    }

    /// What is thought of `worker`.
    pub fn state(&self, worker: u32) -> State {
        self.workers.get(&worker).map_or(State::Sound, Worker::state)
    }

    /// What was counted.
    pub fn counts(&self) -> AuditCounts {
        self.counts
    }

    /// Says what has changed of a worker whose state was `before`.
    fn moved(&mut self, now: Duration, worker: u32, before: State) {
        let after = self.state(worker);
        if before == after {
            return;
        }
        self.due.retain(|(_, waiting)| *waiting != worker);
        match after {
            State::Sound => self.say(Output::Restore { worker }),
            State::HoldsMore => self.say(Output::Credit { worker }),
            State::HoldsLess => {
                self.say(Output::Degrade { worker });
                let next = self.workers.get(&worker).map_or(Duration::ZERO, Worker::relearn_from);
                if next > now {
                    self.due.insert((next, worker));
                } else {
                    self.demand(now, worker);
                }
            }
        }
    }

    fn demand(&mut self, now: Duration, worker: u32) {
        let Some(audited) = self.workers.get_mut(&worker) else { return };
        self.due.insert((audited.demanded(now), worker));
        self.say(Output::Relearn { worker });
    }

    fn say(&mut self, output: Output) {
        if self.outputs.len() < AUDIT_OUTPUTS_MAX {
            self.outputs.push_back(output);
        } else {
            self.counts.dropped_outputs += 1;
        }
    }
}
