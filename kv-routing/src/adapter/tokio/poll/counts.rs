//! What became of polls.

use super::PollFailure;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};

/// What became of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PollOutcome {
    /// It was not needed: every rank that pushes is fresh.
    Suppressed,
    /// The engine told its loads.
    Answered,
    /// The connection failed.
    Unreachable,
    /// No answer came in time.
    Late,
    /// The answer was an error, or told no load.
    Failed,
    /// The worker has no such call.
    Unsupported,
}

/// Polls counted by outcome, and what their answers lost. Cheap to clone; all clones count together.
#[derive(Clone, Debug, Default)]
pub struct PollCounts(Arc<Cells>);

#[derive(Debug, Default)]
struct Cells {
    outcomes: [AtomicU64; PollOutcome::ALL.len()],
    unreadable: AtomicU64,
    strays: AtomicU64,
}

impl PollCounts {
    /// Polls that ended so.
    pub fn of(&self, outcome: PollOutcome) -> u64 {
        // Relaxed here and below: counters, which order nothing.
        self.0.outcomes[outcome as usize].load(Ordering::Relaxed)
    }

    /// Entries of answers that did not say of which rank they are, or not what.
    pub fn unreadable(&self) -> u64 {
        self.0.unreadable.load(Ordering::Relaxed)
    }

    /// Entries of ranks that nobody here is.
    pub fn strays(&self) -> u64 {
        self.0.strays.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self, outcome: PollOutcome) {
        self.0.outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn lost(&self, unreadable: u64, strays: u64) {
        self.0.unreadable.fetch_add(unreadable, Ordering::Relaxed);
        self.0.strays.fetch_add(strays, Ordering::Relaxed);
    }
}

impl PollOutcome {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Suppressed, Self::Answered, Self::Unreachable, Self::Late, Self::Failed, Self::Unsupported];

    /// The name in metrics and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Suppressed => "suppressed",
            Self::Answered => "answered",
            Self::Unreachable => "unreachable",
            Self::Late => "late",
            Self::Failed => "failed",
            Self::Unsupported => "unsupported",
        }
    }
}

impl From<PollFailure> for PollOutcome {
    fn from(failure: PollFailure) -> Self {
        match failure {
            PollFailure::Transport => Self::Unreachable,
            PollFailure::Late => Self::Late,
            PollFailure::Engine => Self::Failed,
            PollFailure::Unsupported => Self::Unsupported,
        }
    }
}
