//! Whom a decision may choose from, when not everybody is well.

use std::time::Duration;

use thiserror::Error;

use crate::limits::RETRY_AFTER;
use crate::liveness::Veto;

/// How one worker stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// It can serve: healthy, its circuit breaker closed, the right model.
    pub ready: bool,
    /// It probably does not move.
    pub veto: Option<Veto>,
    /// It has too much.
    pub overloaded: bool,
}

/// Whom a decision may choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Workers that nothing speaks against.
    Eligible,
    /// All of those that are ready and not vetoed are overloaded: any of them.
    Unvetoed,
    /// All that are ready are vetoed as well: any of them, or with `shed`, those that are not overloaded.
    Ready {
        /// Not who is overloaded.
        spare_overloaded: bool,
    },
}

/// Nobody may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// Everybody who could serve has too much. Another try is no better, and makes it worse.
    #[error("all workers are overloaded; try again after {} s", retry_after.as_secs())]
    Shed {
        /// When there will be news.
        retry_after: Duration,
    },
    /// Nobody is there to serve, or nobody is well. Another try may find somebody.
    #[error("no worker is ready")]
    NobodyReady,
}

/// What to do when everybody has too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    /// Turn requests away, instead of sending them where too many wait already.
    pub shed: bool,
    /// What they are told to wait: the interval of load polls, since nothing is known sooner.
    pub retry_after: Duration,
}

impl Steering {
    /// Whom a decision may choose from, out of all workers.
    ///
    /// # Errors
    /// [`Refused`] when nobody may be chosen; never [`Refused::Shed`] unless that was asked for.
    pub fn pool(&self, workers: impl IntoIterator<Item = Standing>) -> Result<Pool, Refused> {
        let (mut unvetoed, mut ready, mut spared) = (false, false, false);
        for worker in workers {
            if Pool::Eligible.admits(worker) {
                return Ok(Pool::Eligible);
            }
            unvetoed |= Pool::Unvetoed.admits(worker);
            ready |= worker.ready;
            spared |= worker.ready && !worker.overloaded;
        }
        match (self.shed, ready) {
            (_, false) => Err(Refused::NobodyReady),
            (false, true) if unvetoed => Ok(Pool::Unvetoed),
            (false, true) => Ok(Pool::Ready { spare_overloaded: false }),
            // Who has too much is still better off than who does not move: if he takes no more, nobody does.
            (true, true) if spared && !unvetoed => Ok(Pool::Ready { spare_overloaded: true }),
            (true, true) => Err(Refused::Shed { retry_after: self.retry_after }),
        }
    }
}

impl Pool {
    /// Whether a worker is in the pool.
    pub fn admits(self, worker: Standing) -> bool {
        worker.ready
            && match self {
                Self::Eligible => worker.veto.is_none() && !worker.overloaded,
                Self::Unvetoed => worker.veto.is_none(),
                Self::Ready { spare_overloaded } => !(spare_overloaded && worker.overloaded),
            }
    }

    /// Whether the least loaded is to be chosen, whatever the policy says: the others are here for want of better ones.
    pub fn is_fallback(self) -> bool {
        self != Self::Eligible
    }
}

impl Refused {
    /// Whether the same request may be tried again at once.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::NobodyReady)
    }
}

impl Default for Steering {
    fn default() -> Self {
        Self { shed: false, retry_after: RETRY_AFTER }
    }
}
