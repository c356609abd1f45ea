//! The words.

/// The engine's own hash of a block, 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockName(pub u64);
