//! What requests in flight add to a rank's memory, by our own books: its report of memory is old when it matters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The tokens that a rank keeps for requests of ours. Clones count together.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptTokens(Arc<AtomicU64>);

/// What one request adds. Dropped on every path, it takes that back.
#[derive(Debug)]
pub(super) struct Kept {
    all: KeptTokens,
    tokens: u64,
}

impl KeptTokens {
    pub(super) fn value(&self) -> u64 {
        // Relaxed: a number by itself.
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn keep(&self, tokens: u64) -> Kept {
        self.0.fetch_add(tokens, Ordering::Relaxed);
        Kept { all: self.clone(), tokens }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.tokens, Ordering::Relaxed);
    }
}
