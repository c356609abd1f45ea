//! Batches that the replay socket left out, and that its publisher may have kept all the same.
//!
//! A publisher's socket drops answers to a slow reader, in the middle too, and says at the end that this was all. Asked again at once it
//! drops them again: so after a few tries they are given up, the stream is passed on as one that has lost something, and the
//! socket is asked for them now and then. An answer among them shows that the publisher has them.

use std::ops::Range;
use std::time::Duration;

use crate::admission::Pause;
use crate::limits::GIVEN_UP_PAUSE;

#[derive(Debug)]
pub(super) struct GivenUp {
    /// The first such runs of numbers of this life, ascending.
    runs: Vec<Range<u64>>,
    due: Duration,
    pause: Pause,
}

impl GivenUp {
    pub(super) fn note(&mut self, now: Duration, run: Range<u64>) {
        if self.runs.is_empty() {
            self.due = self.pause.after(now);
        }
        if self.runs.len() < RUNS_MAX {
            self.runs.push(run);
        }
    }

    /// Whether the batch is one of them.
    pub(super) fn contains(&self, sequence: u64) -> bool {
        self.runs.iter().any(|run| run.contains(&sequence))
    }

    /// When to ask for them.
    pub(super) fn due(&self) -> Option<Duration> {
        (!self.runs.is_empty()).then_some(self.due)
    }

    /// They are asked for. The first of them.
    pub(super) fn ask(&mut self, now: Duration) -> Option<u64> {
        self.due = self.pause.after(now);
        self.runs.first().map(|run| run.start)
    }
}

impl Default for GivenUp {
    fn default() -> Self {
        Self { runs: Vec::new(), due: Duration::ZERO, pause: Pause::new(GIVEN_UP_PAUSE) }
    }
}

/// Most runs that are remembered: a stream with more holes is hardly mended by the last of them alone.
const RUNS_MAX: usize = 64;
