//! What the tests of this folder have in common: a stream that writes down what it applied.

use std::panic::resume_unwind;

use super::shared::Shared;
use super::stream::{Load, Stream, StreamOptions, StreamState};

#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) applied: Vec<u32>,
    /// Times that an event was applied in part.
    pub(super) slices: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) number: u32,
    /// In how many slices it is applied.
    pub(super) slices: u32,
    pub(super) cost: u64,
    pub(super) panics: bool,
}

pub(super) fn event(number: u32) -> Event {
    Event { number, slices: 1, cost: 1, panics: false }
}

impl Stream for Log {
    type Event = Event;

    fn apply(&mut self, mut event: Event) -> Option<Event> {
        if event.panics {
            // Without the panic hook's noise.
            resume_unwind(Box::new(format!("event {} is bad", event.number)));
        }
        if event.slices > 1 {
            event.slices -= 1;
            self.slices += 1;
            return Some(event);
        }
        self.applied.push(event.number);
        None
    }

    fn cost(event: &Event) -> u64 {
        event.cost
    }
}

pub(super) fn options(queue_events: usize, turn_events: usize) -> StreamOptions {
    let bound = |events| Load { events, cost: u64::MAX };
    StreamOptions { queue: bound(queue_events), turn: bound(turn_events) }
}

/// With no thread at work: a stream stands on exactly one list if it is queued, and on none if it is idle or has failed.
pub(super) fn assert_listed_once<S: Stream>(shared: &Shared<S>) {
    let mut listed = Vec::new();
    shared.schedule.for_each_listed(|slot| listed.push(slot.id));
    for slot in shared.registry.slots() {
        let times = listed.iter().filter(|id| **id == slot.id).count();
        let state = slot.inbox().state();
        assert_eq!(times, usize::from(state == StreamState::Queued), "{} is {state:?}", slot.id);
    }
}
