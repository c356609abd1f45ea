//! How requests end, counted.

use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// The worker answered it completely.
    Completed,
    /// The worker, or the way to it, failed.
    Failed,
    /// Nobody said: the client went away, or a handler panicked.
    Vanished,
}

/// How requests have ended. Cheap to clone; all clones count together.
#[derive(Clone, Debug, Default)]
pub struct Outcomes(Arc<[AtomicU64; Outcome::ALL.len()]>);

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Completed, Self::Failed, Self::Vanished];

    /// The name in metrics and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Vanished => "vanished",
        }
    }
}

impl Outcomes {
    /// Requests that ended so.
    pub fn of(&self, outcome: Outcome) -> u64 {
        // Relaxed: a counter.
        self.0[outcome as usize].load(Ordering::Relaxed)
    }

    pub(super) fn count(&self, outcome: Outcome) {
        // Relaxed: a counter.
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }
}
