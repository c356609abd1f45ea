//! Where a reader of a stream stands: in which life of its publisher, and after which of that life's batches.
//!
//! A sequence number alone cannot say it. A publisher that starts again counts from 0 again, and a reader that was away
//! meanwhile would be resumed in the middle of a life it never saw, with the blocks of the former one still on its books.

use std::fmt;

/// One life of a publisher, as the one who watched it begin names it. Two lives never share a name, also when different
/// processes watched them: `watcher` is drawn at random when the watching process starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation {
    /// Drawn at random, once, by the process that watches the publisher.
    pub watcher: u64,
    /// How many lives of this publisher that process saw begin before this one.
    pub life: u64,
}

/// After which batch of which life a reader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The life.
    pub incarnation: Incarnation,
    /// The last batch that was applied.
    pub sequence: u64,
}

impl Incarnation {
    /// The first life that `watcher` sees.
    pub fn first(watcher: u64) -> Self {
        Self { watcher, life: 0 }
    }

    /// The life after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self { life: self.life + 1, ..self }
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}.{}", self.watcher, self.life)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.incarnation, self.sequence)
    }
}
