//! What a lane applies events to, and the words in which a pool speaks of it.

use std::error::Error;
use std::fmt;

use crate::limits::{LANE_QUEUE_COST_MAX, LANE_QUEUE_EVENTS_MAX, LANE_TURN_COST, LANE_TURN_EVENTS};

/// Everything that one stream's events change, as one value: a pool owns it and moves it between its lanes.
///
/// `apply` takes `&mut self` and the value is in one place at a time, so one stream is applied by one thread at a time.
pub trait Stream: Send + 'static {
    /// What is queued for it.
    type Event: Send + 'static;

    /// Applies `event`, or a slice of it. What is left is returned; it stays ahead of everything that was queued behind it,
    /// and the lane turns to its next stream first. A stream whose events are long chooses how much of one holds up a lane.
    ///
    /// A panic in here fails this stream and no other.
    fn apply(&mut self, event: Self::Event) -> Option<Self::Event>;

    /// What `event` counts against [`StreamOptions`]' bounds, in a unit of the stream's choice. Bytes held is the usual one,
    /// and what the default bounds are meant for.
    fn cost(event: &Self::Event) -> u64;
}

/// A number of events and the sum of their costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How many.
    pub events: usize,
    /// What [`Stream::cost`] says of them.
    pub cost: u64,
}

impl Load {
    pub(super) fn add(&mut self, cost: u64) {
        self.events += 1;
        self.cost = self.cost.saturating_add(cost);
    }

    pub(super) fn sub(&mut self, cost: u64) {
        self.events -= 1;
        self.cost = self.cost.saturating_sub(cost);
    }

    pub(super) fn is_below(&self, bound: &Self) -> bool {
        self.events < bound.events && self.cost < bound.cost
    }

    pub(super) fn is_at_most_half(&self, bound: &Self) -> bool {
        self.events <= bound.events / 2 && self.cost <= bound.cost / 2
    }
}

/// How much of a stream may wait, and how long it may keep a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// An event is taken while what waits, and what is being applied, is below this in both counts. So its cost is passed by
    /// one event at most, and an event of any cost gets in. A count of 0 takes nothing.
    pub queue: Load,
    /// A lane turns to its next stream once it has applied this much of the stream, or a slice of an event. At least one
    /// event is applied at each turn.
    pub turn: Load,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            queue: Load { events: LANE_QUEUE_EVENTS_MAX, cost: LANE_QUEUE_COST_MAX },
            turn: Load { events: LANE_TURN_EVENTS, cost: LANE_TURN_COST },
        }
    }
}

/// Names a stream of one pool. Never given out twice by the same pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(super) u64);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}", self.0)
    }
}

/// Where a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamState {
    /// Nothing is queued.
    Idle,
    /// It waits for a lane.
    Queued,
    /// A lane applies its events.
    Running,
    /// A panic ended it. It takes no more events, and waits to be removed.
    Failed,
    /// It is removed, or will be as soon as the event that is being applied is.
    Removed,
}

/// What was not taken, and why. Nothing changed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refused<T> {
    /// The event or task.
    pub item: T,
    /// The reason.
    pub why: Refusal,
}

/// Why a stream took no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Keep the event and offer it again when there is [room](super::StreamHandle::room).
    #[error("{} events of cost {} wait, of at most {} of cost {}", held.events, held.cost, bound.events, bound.cost)]
    Full {
        /// What waits or is being applied.
        held: Load,
        /// The stream's bound.
        bound: Load,
    },
    /// Too many tasks wait; events are counted apart.
    #[error("all {max} tasks that may wait for one stream do")]
    TasksFull {
        /// [`LANE_TASKS_MAX`](crate::limits::LANE_TASKS_MAX).
        max: usize,
    },
    /// An earlier event of the stream panicked.
    #[error("the stream has failed")]
    Failed,
    /// The stream was removed, or its pool shut down.
    #[error("the stream is closed")]
    Closed,
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("why", &self.why).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl<T> Error for Refused<T> {}

/// A stream that has left its pool, with what it had not applied.
pub struct Retired<S: Stream> {
    /// What its name was.
    pub id: StreamId,
    /// The value, as the last event left it. After a [`failure`](Self::failure), in whatever state that event's panic left it.
    pub stream: S,
    /// The events that were taken and not applied, in order. The first may be what is left of one that was begun.
    pub unapplied: Vec<S::Event>,
    /// What the panic said that ended it.
    pub failure: Option<String>,
}

impl<S: Stream> fmt::Debug for Retired<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut retired = f.debug_struct("Retired");
        retired.field("id", &self.id).field("unapplied", &self.unapplied.len()).field("failure", &self.failure);
        retired.finish_non_exhaustive()
    }
}

/// A stream that a panic ended, until it is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The stream.
    pub stream: StreamId,
    /// What the panic said.
    pub message: String,
    /// Events that were taken and will not be applied, the one that panicked not counted.
    pub unapplied: usize,
}
