//! One request at one worker, from its dispatch to whatever ends it.

use std::time::Duration;

use super::vitals::Pulse;
use crate::limits::TIMED_PROMPT_MIN;
use crate::sync::Arc;

/// What a request is to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Prompt tokens that the worker must compute: those that it is not expected to reuse.
    prefill_tokens: u64,
    kind: Kind,
}

/// What can be seen of a request while it is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Every chunk.
    Streamed,
    /// Only the whole answer.
    Whole,
    /// Only that its prompt was computed.
    PrefillLeg,
}

/// One request under way. Dropped on every path, it takes back what the request counted for, once.
#[derive(Debug)]
#[must_use = "a ticket that is dropped has ended"]
pub struct Ticket {
    pulse: Arc<Pulse>,
    task: Task,
    /// The prompt is not computed yet, as far as is known.
    pending: bool,
}

impl Task {
    /// An answer whose chunks are seen as they come, over gRPC or HTTP.
    pub const fn streamed(prefill_tokens: u64) -> Self {
        Self { prefill_tokens, kind: Kind::Streamed }
    }

    /// An answer that comes as a whole: its prompt counts in the backlog, and its silence proves nothing.
    pub const fn whole(prefill_tokens: u64) -> Self {
        Self { prefill_tokens, kind: Kind::Whole }
    }

    /// The prefill leg of a disaggregated pair: no token comes of it, and its end is the end of its prompt.
    pub const fn prefill_leg(prefill_tokens: u64) -> Self {
        Self { prefill_tokens, kind: Kind::PrefillLeg }
    }

    /// Prompt tokens that the worker must compute.
    pub const fn prefill_tokens(&self) -> u64 {
        self.prefill_tokens
    }

    /// Whether it can be said of the request that it does not move.
    pub const fn has_progress_signal(&self) -> bool {
        matches!(self.kind, Kind::Streamed)
    }

    /// Whether the time to its first token says how fast prompts are computed: the end of its prefill is seen, and there is enough of
    /// it to be more than what every request takes.
    const fn is_timed(self) -> bool {
        !matches!(self.kind, Kind::Whole) && self.prefill_tokens >= TIMED_PROMPT_MIN
    }
}

impl Ticket {
    pub(super) fn begin(pulse: Arc<Pulse>, now: Duration, task: Task) -> Self {
        let mut work = pulse.work.lock();
        if task.has_progress_signal() {
            work.stream_begins(now);
        }
        work.prompt_begins(now, task.prefill_tokens, task.is_timed());
        drop(work);
        Self { pulse, task, pending: true }
    }

    /// A chunk came. Takes no lock.
    pub fn progress(&self, now: Duration) {
        self.pulse.moved(now);
    }

    /// The first chunk came, so the prompt is computed. Later calls are progress only.
    pub fn first_token(&mut self, now: Duration) {
        if std::mem::take(&mut self.pending) {
            self.pulse.work.lock().prompt_done(now, self.task.prefill_tokens, self.task.is_timed());
        }
        self.progress(now);
    }

    /// The worker completed the request.
    pub fn finish(mut self, now: Duration) {
        if self.task.kind == Kind::PrefillLeg {
            self.first_token(now);
        }
        self.progress(now);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut work = self.pulse.work.lock();
        if self.pending {
            work.prompt_dropped(self.task.prefill_tokens, self.task.is_timed());
        }
        if self.task.has_progress_signal() {
            work.stream_ends();
        }
    }
}
