//! Why something that an engine sent was not used, counted: nothing is dropped in silence.

use std::fmt;

/// A reason for which an event, or a whole payload, was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Loss {
    /// The payload is not a batch at all; it stands as an empty batch under its sequence number.
    UnreadablePayload,
    /// The event's tag is none of the known ones.
    UnknownType,
    /// A known event with a required field missing or unreadable.
    Malformed,
    /// More than a stated limit: the rest of the batch, or of the event, was not read.
    OverLimit,
    /// The event belongs to a secondary owner's residency protocol (`kvcr`).
    UnsupportedOwnership,
    /// The blocks are not in this engine's own storage.
    NonLocalLocality,
    /// A storage medium's word that is not in the tier table.
    UnknownMedium,
    /// A medium that is known but from which nothing is served without recomputation, by the options.
    UnservedTier,
    /// A store of a cache group whose kind keeps no prefix or is not known here, or of one group more than are scored.
    UnscoredGroup,
    /// A store that lists no hash, or no token and names no block that this rank holds.
    Placeholder,
    /// Hashes, block size and tokens do not fit together.
    UnalignedBlocks,
    /// A hash repeated inside one store, or equal to the store's own parent.
    SelfReferencingHashes,
    /// A store whose parent never came while it could wait.
    OrphanExpired,
    /// A removal that names a block which this rank does not hold there.
    UnknownBlock,
    /// The index refused the store.
    Refused,
    /// The index had no room for the store.
    OverBudget,
}

impl Loss {
    /// All reasons, in the order of [`Losses::iter`].
    pub const ALL: [Self; 16] = [
        Self::UnreadablePayload,
        Self::UnknownType,
        Self::Malformed,
        Self::OverLimit,
        Self::UnsupportedOwnership,
        Self::NonLocalLocality,
        Self::UnknownMedium,
        Self::UnservedTier,
        Self::UnscoredGroup,
        Self::Placeholder,
        Self::UnalignedBlocks,
        Self::SelfReferencingHashes,
        Self::OrphanExpired,
        Self::UnknownBlock,
        Self::Refused,
        Self::OverBudget,
    ];

    /// The reason's name in metrics and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnreadablePayload => "unreadable_payload",
            Self::UnknownType => "unknown_type",
            Self::Malformed => "malformed",
            Self::OverLimit => "over_limit",
            Self::UnsupportedOwnership => "unsupported_ownership",
            Self::NonLocalLocality => "non_local_locality",
            Self::UnknownMedium => "unknown_medium",
            Self::UnservedTier => "unserved_tier",
            Self::UnscoredGroup => "unscored_group",
            Self::Placeholder => "placeholder",
            Self::UnalignedBlocks => "unaligned_blocks",
            Self::SelfReferencingHashes => "self_referencing_hashes",
            Self::OrphanExpired => "orphan_expired",
            Self::UnknownBlock => "unknown_block",
            Self::Refused => "refused",
            Self::OverBudget => "over_budget",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How often each reason occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses([u64; Loss::ALL.len()]);

impl Losses {
    /// Counts `loss` once.
    pub fn add(&mut self, loss: Loss) {
        self.add_many(loss, 1);
    }

    /// Counts `loss` `n` times.
    pub fn add_many(&mut self, loss: Loss, n: u64) {
        self.0[loss as usize] += n;
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// How often `loss` occurred.
    pub fn count(&self, loss: Loss) -> u64 {
        self.0[loss as usize]
    }

    /// How many losses there were in all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Loss, u64)> + '_ {
        Loss::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_counter_and_name() {
        let mut losses = Losses::default();
        for (i, loss) in Loss::ALL.into_iter().enumerate() {
            assert_eq!(loss as usize, i, "{loss} stands at its own place in ALL");
            losses.add_many(loss, i as u64 + 1);
        }
        let names: std::collections::BTreeSet<_> = losses.iter().map(|(loss, _)| loss.as_str()).collect();
        assert_eq!(names.len(), Loss::ALL.len());
        assert_eq!(losses.count(Loss::Refused), 15);
        assert_eq!(losses.total(), (1..=16).sum::<u64>());
    }
}
