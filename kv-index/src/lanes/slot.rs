//! One stream in its pool: an inbox under a lock, and what a lane does with it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use super::inbox::{Inbox, Job, Outcome, Step};
use super::metrics::LaneTallies;
use super::stream::{Load, Stream, StreamId, StreamOptions};
use crate::sync::{Mutex, MutexGuard};

pub(super) struct Slot<S: Stream> {
    pub(super) id: StreamId,
    turn: Load,
    inbox: Mutex<Inbox<S>>,
}

impl<S: Stream> Slot<S> {
    pub(super) fn new(id: StreamId, stream: S, home: usize, options: StreamOptions) -> Self {
        Self { id, turn: options.turn, inbox: Mutex::new(Inbox::new(stream, home, options)) }
    }

    pub(super) fn inbox(&self) -> MutexGuard<'_, Inbox<S>> {
        self.inbox.lock()
    }

    /// Applies what is queued, up to a turn, for a lane that took the slot from a list. How the turn ended: never with
    /// [`Step::Apply`].
    pub(super) fn serve(&self, lane: usize, tallies: &LaneTallies) -> Step<S> {
        let mut spent = Load::default();
        let Some((mut stream, mut job)) = self.inbox().begin(lane) else { return Step::Rest };
        tallies.turns.add(1);
        loop {
            let outcome = apply(&mut *stream, job);
            let over = self.spend(&mut spent, &outcome);
            tallies.applied.add(u64::from(matches!(outcome, Outcome::Applied { .. })));
            match self.advance(stream, outcome, over) {
                Step::Apply(same, next) => (stream, job) = (same, next),
                end => return end,
            }
        }
    }

    /// Wakes who waits for room, if it is time.
    pub(super) fn wake_waiting(&self) {
        let due = self.inbox().due();
        wake(due);
    }

    pub(super) fn advance(&self, stream: Box<S>, outcome: Outcome<S>, over: bool) -> Step<S> {
        let mut inbox = self.inbox();
        let step = inbox.advance(stream, outcome, over);
        let due = inbox.due();
        drop(inbox);
        wake(due);
        step
    }

    /// Whether the turn is over with this outcome.
    fn spend(&self, spent: &mut Load, outcome: &Outcome<S>) -> bool {
        match outcome {
            Outcome::Applied { cost } => spent.add(*cost),
            // A task may do anything, and counts as a slice.
            Outcome::Sliced { .. } | Outcome::Done | Outcome::Panicked { .. } => return true,
        }
        !spent.is_below(&self.turn)
    }
}

pub(super) fn apply<S: Stream>(stream: &mut S, job: Job<S>) -> Outcome<S> {
    match job {
        Job::Event { event, cost } => match quietly(|| stream.apply(event)) {
            Ok(None) => Outcome::Applied { cost },
            Ok(Some(rest)) => Outcome::Sliced { rest, cost },
            Err(message) => Outcome::Panicked { message, cost: Some(cost) },
        },
        Job::Task(task) | Job::Mark(task) => match quietly(|| task(stream)) {
            Ok(()) => Outcome::Done,
            Err(message) => Outcome::Panicked { message, cost: None },
        },
    }
}

fn wake(due: Vec<Waker>) {
    for waker in due {
        // A waker that panics is its owner's concern, not the lane's.
        _ = quietly(|| waker.wake());
    }
}

/// Runs code that is not the pool's, whose panic must not end the lane. What the panic said, if there was one.
pub(super) fn quietly<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    // What a panic left behind is never looked at as if it were whole: the stream is marked as failed.
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| panic_text(payload.as_ref()))
}

pub(super) fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a text".to_owned())
}
