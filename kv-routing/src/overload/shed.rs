//! A request that is turned away is turned away once.

use crate::NoCandidate;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};

/// How many requests were turned away. Cheap to clone; all clones count together.
#[derive(Clone, Debug, Default)]
pub struct Sheds(Arc<AtomicU64>);

/// One request, over all its attempts at a worker.
#[derive(Clone, Debug)]
pub struct Attempts {
    sheds: Sheds,
    shed: Option<NoCandidate>,
}

impl Sheds {
    /// Requests that were turned away, however often each was tried.
    pub fn count(&self) -> u64 {
        // Relaxed: a counter.
        self.0.load(Ordering::Relaxed)
    }

    /// A new request.
    pub fn request(&self) -> Attempts {
        Attempts { sheds: self.clone(), shed: None }
    }
}

impl Attempts {
    /// One attempt, which is `decision`. A request that was turned away stays so, whatever its caller tries, and was counted.
    ///
    /// # Errors
    /// What the decision says, or said when it was [final](NoCandidate::is_retryable).
    pub fn decide<T>(&mut self, decision: impl FnOnce() -> Result<T, NoCandidate>) -> Result<T, NoCandidate> {
        if let Some(shed) = self.shed {
            return Err(shed);
        }
        decision().inspect_err(|refused| {
            if !refused.is_retryable() {
                self.shed = Some(*refused);
                // Relaxed: a counter.
                self.sheds.0.fetch_add(1, Ordering::Relaxed);
            }
        })
    }
}
