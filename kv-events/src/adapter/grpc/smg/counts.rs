//! What readers of the SMG family were not told, counted.

use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Why an event, or a part of it, was not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Unsaid {
    /// It belongs to a secondary owner.
    Ownership,
    /// It is not in this engine's own storage.
    Locality,
    /// A medium's word that is not known.
    Medium,
    /// Not of main attention.
    Group,
    /// A store without names or without tokens. Announced copies are among them.
    Placeholder,
    /// Names, tokens and block size do not fit one to one.
    Unaligned,
    /// A name twice in one store, or equal to its parent.
    SelfReferencing,
    /// A salt, a multimodal item, a digest, or a LoRA without a number.
    Namespaced,
    /// Below a block that was not told.
    UnknownParent,
    /// A block's removal that was not told, because the block was not, or because a copy is left.
    Removal,
    /// More blocks than a relay keeps.
    OverLimit,
    /// Told, but with the first elements of bigrams for tokens.
    Folded,
}

impl Unsaid {
    /// All reasons, in their order.
    pub const ALL: [Self; 12] = [
        Self::Ownership,
        Self::Locality,
        Self::Medium,
        Self::Group,
        Self::Placeholder,
        Self::Unaligned,
        Self::SelfReferencing,
        Self::Namespaced,
        Self::UnknownParent,
        Self::Removal,
        Self::OverLimit,
        Self::Folded,
    ];

    /// The reason's name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ownership => "unsupported_ownership",
            Self::Locality => "non_local_locality",
            Self::Medium => "unknown_medium",
            Self::Group => "non_main_attention_group",
            Self::Placeholder => "placeholder",
            Self::Unaligned => "unaligned_blocks",
            Self::SelfReferencing => "self_referencing_hashes",
            Self::Namespaced => "namespaced",
            Self::UnknownParent => "unknown_parent",
            Self::Removal => "removal_of_untold",
            Self::OverLimit => "over_limit",
            Self::Folded => "bigrams_folded",
        }
    }
}

impl fmt::Display for Unsaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The counts of all of a relay's readers together.
#[derive(Debug, Default)]
pub struct SmgCounts(Mutex<[u64; Unsaid::ALL.len()]>);

impl SmgCounts {
    /// How often `reason` occurred: events, but single names for [`Unsaid::Removal`].
    pub fn count(&self, reason: Unsaid) -> u64 {
        self.all()[reason as usize]
    }

    /// All counts, in the order of [`Unsaid::ALL`].
    pub fn all(&self) -> [u64; Unsaid::ALL.len()] {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, reason: Unsaid, count: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[reason as usize] += count;
    }
}
