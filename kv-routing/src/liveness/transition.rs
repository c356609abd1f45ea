//! What the tracker says.

use std::fmt;
use std::time::Duration;

use super::Handle;

/// Why a worker is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Veto {
    /// It is not heard.
    Unreachable,
    /// It is heard, and what it was given does not move.
    Wedged,
}

/// A veto that was set or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Whose.
    pub worker: Handle,
    /// When, by the caller's clock.
    pub at: Duration,
    /// What it was.
    pub from: Option<Veto>,
    /// What it is now.
    pub to: Option<Veto>,
    /// Why.
    pub cause: Cause,
}

/// Why a veto was set or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// Set: the connection failed, and nothing was heard since.
    ConnectionLost,
    /// Set: its load records stopped, and nothing else was heard either.
    Unheard,
    /// Set: streams pile up without progress.
    Pile,
    /// Set: streams make no progress while requests wait.
    Queue,
    /// Set: the engine says that it does not move.
    EngineSilent,
    /// Ended: it was heard.
    Contact,
    /// Ended: it passed a health check.
    Probe,
    /// Ended: a stream moved.
    Progress,
    /// Ended: no streams are left that could move.
    Drained,
    /// Ended: its load report shows no reason any more.
    Recovered,
}

impl Transition {
    /// The worker may be used again. It should count as newly admitted ([`warmup`](crate::warmup)): it may have lost its cache.
    pub fn readmits(&self) -> bool {
        self.to.is_none()
    }

    /// A circuit breaker around the worker should close: what opened it was the connection that now stands again.
    pub fn closes_breaker(&self) -> bool {
        self.from == Some(Veto::Unreachable) && self.to.is_none()
    }

    /// A health state that says failed or not ready may be skipped: traffic passed. A health check that passed never promotes; how many
    /// of them it takes is the health check's own rule.
    pub fn promotes(&self) -> bool {
        self.closes_breaker() && self.cause != Cause::Probe
    }
}

impl Veto {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Unreachable, Self::Wedged];

    /// The name in metrics and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Wedged => "wedged",
        }
    }
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::ConnectionLost,
        Self::Unheard,
        Self::Pile,
        Self::Queue,
        Self::EngineSilent,
        Self::Contact,
        Self::Probe,
        Self::Progress,
        Self::Drained,
        Self::Recovered,
    ];

    /// The name in metrics and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConnectionLost => "connection_lost",
            Self::Unheard => "unheard",
            Self::Pile => "pile",
            Self::Queue => "queue",
            Self::EngineSilent => "engine_silent",
            Self::Contact => "contact",
            Self::Probe => "probe",
            Self::Progress => "progress",
            Self::Drained => "drained",
            Self::Recovered => "recovered",
        }
    }
}

impl fmt::Display for Veto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
