//! What a pool, its lanes and its handles have in common.

use super::inbox::{Departure, Leave, Pushed, Step};
use super::registry::Registry;
use super::reply::{Reply, promise};
use super::schedule::Schedule;
use super::slot::{Slot, quietly};
use super::stream::{Retired, Stream, StreamId};
use crate::sync::Arc;

/// No thread ever holds two of the locks in here, and none while it runs code of a stream, a task or a waker.
pub(super) struct Shared<S: Stream> {
    pub(super) schedule: Schedule<Arc<Slot<S>>>,
    pub(super) registry: Registry<S>,
}

impl<S: Stream> Shared<S> {
    pub(super) fn new(lanes: usize) -> Self {
        Self { schedule: Schedule::new(lanes), registry: Registry::new() }
    }

    /// Lists the slot if that is now the caller's part.
    pub(super) fn place(&self, slot: &Arc<Slot<S>>, pushed: Pushed) {
        if let Pushed::Ready { lane } = pushed {
            self.schedule.list(lane, Arc::clone(slot));
        }
    }

    /// Gives `slot` a turn on `lane`.
    pub(super) fn serve(&self, lane: usize, slot: Arc<Slot<S>>) {
        let end = slot.serve(lane, self.schedule.tallies(lane));
        self.end_turn(lane, slot, end);
    }

    pub(super) fn end_turn(&self, lane: usize, slot: Arc<Slot<S>>, end: Step<S>) {
        match end {
            Step::List => self.schedule.list_again(lane, slot),
            // A panic in what is dropped here has nobody left to fail.
            Step::Fail(tasks) => _ = quietly(|| drop(tasks)),
            Step::Leave(departure) => _ = quietly(|| self.depart(slot.id, departure)),
            Step::Rest | Step::Apply(..) => {}
        }
    }

    pub(super) fn remove(&self, slot: &Slot<S>) -> Reply<Retired<S>> {
        let (promise, reply) = promise();
        let leave = slot.inbox().leave(promise);
        slot.wake_waiting();
        match leave {
            Leave::Now(departure) => self.depart(slot.id, departure),
            Leave::Never(promise) => drop(promise),
            Leave::Soon => {}
        }
        reply
    }

    fn depart(&self, id: StreamId, departure: Departure<S>) {
        self.registry.depart(id, departure.counts);
        departure.complete(id);
    }
}
