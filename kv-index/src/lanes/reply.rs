//! An answer that a lane will give.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use thiserror::Error;

use super::parker::block_on;
use crate::sync::{Arc, Mutex};

/// What a task will return, or the stream that is being removed: a future that needs no runtime.
///
/// Dropping it gives the answer up, not the task.
#[derive(Debug)]
#[must_use = "dropping it gives the answer up"]
pub struct Reply<R>(Arc<Mutex<State<R>>>);

/// The stream failed or was removed before it came to the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the stream failed or was removed first")]
pub struct Lost;

/// The other end of a [`Reply`]. Dropped without an answer, it says [`Lost`].
#[derive(Debug)]
pub(super) struct Promise<R>(Arc<Mutex<State<R>>>);

#[derive(Debug)]
enum State<R> {
    Open(Option<Waker>),
    Given(R),
    Lost,
}

pub(super) fn promise<R>() -> (Promise<R>, Reply<R>) {
    let state = Arc::new(Mutex::new(State::Open(None)));
    (Promise(Arc::clone(&state)), Reply(state))
}

impl<R> Reply<R> {
    /// Sleeps until the answer is there. A lane's thread must not (it may wait for itself):
    /// [`Lane::run_until`](super::Lane::run_until) works meanwhile.
    ///
    /// # Errors
    /// [`Lost`] when the answer will never come.
    pub fn wait(self) -> Result<R, Lost> {
        block_on(self)
    }
}

impl<R> Future for Reply<R> {
    type Output = Result<R, Lost>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = context.waker().clone();
        let mut state = self.0.lock();
        if let State::Open(waiting) = &mut *state {
            let former = waiting.replace(waker);
            drop(state);
            drop(former);
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, State::Lost) {
            State::Given(answer) => Poll::Ready(Ok(answer)),
            State::Open(_) | State::Lost => Poll::Ready(Err(Lost)),
        }
    }
}

impl<R> Promise<R> {
    pub(super) fn fulfil(self, answer: R) {
        self.settle(State::Given(answer));
    }

    fn settle(&self, settled: State<R>) {
        let mut state = self.0.lock();
        if let State::Open(waiting) = &mut *state {
            let waiting = waiting.take();
            *state = settled;
            drop(state);
            if let Some(waiting) = waiting {
                waiting.wake();
            }
        }
    }
}

impl<R> Drop for Promise<R> {
    fn drop(&mut self) {
        self.settle(State::Lost);
    }
}
