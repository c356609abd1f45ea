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
    /// The first such run of numbers of this life.
    run: Option<Range<u64>>,
    due: Duration,
    pause: Pause,
}

impl GivenUp {
    pub(super) fn note(&mut self, now: Duration, run: Range<u64>) {
        if self.run.is_none() {
            (self.run, self.pause) = (Some(run), Pause::new(GIVEN_UP_PAUSE));
            self.due = self.pause.after(now);
        }
    }

    /// Whether the batch is one of them.
    pub(super) fn contains(&self, sequence: u64) -> bool {
        self.run.as_ref().is_some_and(|run| run.contains(&sequence))
    }

    /// When to ask for them.
    pub(super) fn due(&self) -> Option<Duration> {
        self.run.as_ref().map(|_| self.due)
    }

    /// They are asked for. The first of them.
    pub(super) fn ask(&mut self, now: Duration) -> Option<u64> {
        self.due = self.pause.after(now);
        self.run.as_ref().map(|run| run.start)
    }
}

impl Default for GivenUp {
    fn default() -> Self {
        Self { run: None, due: Duration::ZERO, pause: Pause::new(GIVEN_UP_PAUSE) }
    }
}
