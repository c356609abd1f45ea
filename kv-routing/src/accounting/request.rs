//! One request at one worker: everything that it is booked for.

use std::time::Duration;

use super::{Outcome, Outcomes, Placed, Predictions, PrefixKeys};
use crate::liveness::{Task, Ticket, Vitals};
use crate::load::{Booking, Ledger};

/// Where requests to one worker are booked. The caller keeps one for each worker.
#[derive(Clone, Debug)]
pub struct Site {
    /// The caller's number for the worker, as in [`Candidate::worker`](crate::Candidate::worker).
    pub worker: u32,
    /// The data-parallel rank that is chosen, else 0.
    pub rank: u16,
    /// What the worker shows of its life.
    pub vitals: Vitals,
    /// How busy it is.
    pub ledger: Ledger,
    /// What is expected of caches. `None` predicts nothing.
    pub predictions: Option<Predictions>,
    /// How requests ended.
    pub outcomes: Outcomes,
}

/// A request on its way. Its drop, on whatever path, takes back all that is still booked, and counts how it ended.
#[derive(Debug)]
#[must_use = "a dispatch that is dropped has ended"]
pub struct Dispatch {
    /// Begins with the prefill's end for the decode leg of a pair.
    ticket: Option<Ticket>,
    booking: Booking,
    placed: Option<Placed>,
    outcomes: Outcomes,
    outcome: Outcome,
}

impl Site {
    /// A request is sent to the worker: `task` says what it has to compute, `keys` which prefixes it will hold thereby.
    pub fn dispatch(&self, now: Duration, task: Task, keys: &PrefixKeys) -> Dispatch {
        let mut dispatch = self.reserve(now, task.prefill_tokens());
        dispatch.placed = self.predictions.as_ref().map(|predictions| predictions.place(now, self.worker, keys));
        dispatch.begin(self.vitals.begin(now, task));
        dispatch
    }

    /// Books load alone: for what cannot show progress yet, and gives the worker no prefix that others could use.
    pub(super) fn reserve(&self, now: Duration, prefill_tokens: u64) -> Dispatch {
        let booking = self.ledger.dispatch(now, self.rank, prefill_tokens);
        Dispatch { ticket: None, booking, placed: None, outcomes: self.outcomes.clone(), outcome: Outcome::Vanished }
    }
}

impl Dispatch {
    /// A chunk of the answer came. The first one says that the prompt is computed; the others take no lock.
    pub fn chunk(&mut self, now: Duration) {
        self.booking.first_token();
        if let Some(placed) = &mut self.placed {
            placed.first_token(now);
        }
        if let Some(ticket) = &mut self.ticket {
            ticket.first_token(now);
        }
    }

    /// The worker answered completely.
    pub fn complete(mut self, now: Duration) {
        self.chunk(now);
        if let Some(ticket) = self.ticket.take() {
            ticket.finish(now);
        }
        self.outcome = Outcome::Completed;
    }

    /// The request failed at the worker, or on the way.
    pub fn fail(mut self) {
        self.outcome = Outcome::Failed;
    }

    pub(super) fn begin(&mut self, ticket: Ticket) {
        self.ticket = Some(ticket);
    }
}

impl Drop for Dispatch {
    fn drop(&mut self) {
        // What is booked is taken back by its own parts' drops.
        self.outcomes.count(self.outcome);
    }
}
