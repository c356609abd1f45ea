//! The feeding end of a stream.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::inbox::Task;
use super::metrics::StreamMetrics;
use super::parker::block_on;
use super::reply::{Reply, promise};
use super::shared::Shared;
use super::slot::Slot;
use super::stream::{Failure, Refused, Retired, Stream, StreamId};
use crate::sync::Arc;

/// The feeding end of a stream in a pool. Share it by reference; events of several threads come in some order, those of one
/// thread in its own.
///
/// Dropping it removes the stream: events that are not applied by then are dropped with it.
pub struct StreamHandle<S: Stream> {
    shared: Arc<Shared<S>>,
    slot: Arc<Slot<S>>,
}

impl<S: Stream> StreamHandle<S> {
    pub(super) fn new(shared: Arc<Shared<S>>, slot: Arc<Slot<S>>) -> Self {
        Self { shared, slot }
    }

    /// The stream's name in its pool.
    pub fn id(&self) -> StreamId {
        self.slot.id
    }

    /// Queues `event` behind all that was queued before. Never waits for a lane, never drops.
    ///
    /// # Errors
    /// [`Refused`] with the event: at the bound, or when the stream has ended.
    pub fn enqueue(&self, event: S::Event) -> Result<(), Refused<S::Event>> {
        let cost = S::cost(&event);
        let pushed = self.slot.inbox().push_event(event, cost)?;
        self.shared.place(&self.slot, pushed);
        Ok(())
    }

    /// Runs `task` on the stream between its events: after those that were queued before, before those that come later.
    /// For what is no event: clearing it, dumping it, reading what it counted. A panic in it fails the stream.
    ///
    /// # Errors
    /// [`Refused`] with the task when [`LANE_TASKS_MAX`](crate::limits::LANE_TASKS_MAX) wait or the stream has ended. The bound
    /// on events does not concern it.
    pub fn with<R, F>(&self, task: F) -> Result<Reply<R>, Refused<F>>
    where
        R: Send + 'static,
        F: FnOnce(&mut S) -> R + Send + 'static,
    {
        let (promise, reply) = promise();
        let boxed = |task: F| -> Task<S> { Box::new(move |stream| promise.fulfil(task(stream))) };
        let pushed = self.slot.inbox().push_task(task, boxed)?;
        self.shared.place(&self.slot, pushed);
        Ok(reply)
    }

    /// Ready when the queue is at most half full, or when the stream has ended and the next offer will say so. For who had an
    /// event refused: offer it again then.
    pub fn room(&self) -> Room<'_, S> {
        Room(&self.slot)
    }

    /// Removes the stream: at once, or when the event that is being applied is. The reply brings the value and the events
    /// that were not applied; it is [`Lost`](super::Lost) if the stream was removed before. Tasks that wait are lost.
    pub fn remove(&self) -> Reply<Retired<S>> {
        self.shared.remove(&self.slot)
    }

    /// How the stream stands.
    pub fn metrics(&self) -> StreamMetrics {
        let inbox = self.slot.inbox();
        StreamMetrics { state: inbox.state(), held: inbox.held(), counts: inbox.counts() }
    }

    /// What ended it, if a panic did and it is not removed yet.
    pub fn failure(&self) -> Option<Failure> {
        self.slot.inbox().failure(self.slot.id)
    }
}

impl<S: Stream> Drop for StreamHandle<S> {
    fn drop(&mut self) {
        drop(self.remove());
    }
}

impl<S: Stream> fmt::Debug for StreamHandle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamHandle").field("id", &self.slot.id).finish_non_exhaustive()
    }
}

/// Waits for room in a stream's queue: a future that needs no runtime. See [`StreamHandle::room`].
#[must_use = "a future does nothing unless it is waited for"]
pub struct Room<'a, S: Stream>(&'a Slot<S>);

impl<S: Stream> Room<'_, S> {
    /// Sleeps until there is room. A lane's thread must not (it may wait for itself):
    /// [`Lane::run_until`](super::Lane::run_until) works meanwhile.
    pub fn wait(self) {
        block_on(self);
    }
}

impl<S: Stream> Future for Room<'_, S> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Cloned and, if it is not kept, dropped without the lock.
        let mut waker = Some(context.waker().clone());
        let has_news = self.0.inbox().has_news_or_keeps(&mut waker);
        if has_news { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<S: Stream> fmt::Debug for Room<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Room").field(&self.0.id).finish()
    }
}
