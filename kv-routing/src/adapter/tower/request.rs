//! The guard of this crate's own books.

use std::time::Duration;

use super::{Failure, Guard};
use crate::accounting::Dispatch;

/// A worker's life as an answer touches it, in the time that its books are kept in. With the feature `tokio`, a
/// [`Pulse`](crate::adapter::tokio::Pulse) is one.
pub trait Life {
    /// The time that the request was dispatched by.
    fn now(&self) -> Duration;

    /// The worker was heard.
    fn heard(&self);

    /// Its connection was refused or reset.
    fn cut_off(&self);
}

/// A [`Dispatch`], with the life of the worker that answers.
#[derive(Debug)]
#[must_use = "a guard that is dropped has ended"]
pub struct RequestGuard<L> {
    dispatch: Dispatch,
    life: L,
}

impl<L: Life> RequestGuard<L> {
    /// The guard of a request that was dispatched just now.
    pub fn new(dispatch: Dispatch, life: L) -> Self {
        Self { dispatch, life }
    }
}

impl<L: Life> Guard for RequestGuard<L> {
    fn heard(&mut self) {
        self.life.heard();
    }

    fn progress(&mut self) {
        self.dispatch.chunk(self.life.now());
    }

    fn complete(self) {
        self.dispatch.complete(self.life.now());
    }

    fn fail(self, failure: Failure) {
        if failure == Failure::Transport {
            self.life.cut_off();
        }
        self.dispatch.fail();
    }
}

#[cfg(feature = "tokio")]
impl Life for crate::adapter::tokio::Pulse {
    fn now(&self) -> Duration {
        Self::now(self)
    }

    fn heard(&self) {
        Self::heard(self);
    }

    fn cut_off(&self) {
        Self::cut_off(self);
    }
}
