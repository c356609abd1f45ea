//! How far what the index holds of a stream can be believed.

use std::time::Duration;

/// What a stream is worth. It belongs to the index as it is after the step that brought it ([`Step`](super::Step)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Nothing has been heard of the stream, so nothing is held and nothing is known.
    #[default]
    Unheard,
    /// What was held is being learned anew from its beginning: what the index holds is true, and not all.
    Resyncing,
    /// The index holds what the engine does: everything came up to the last batch, and the publisher was asked whether that is
    /// the last. A loss after it shows within [`QUIET_MAX`](crate::limits::QUIET_MAX) and the time of one replay.
    Exact,
    /// The index holds what the engine did after this batch. Whether anything was lost behind it is not known.
    ExactAsOf {
        /// The last batch that was applied.
        sequence: u64,
    },
    /// The index may hold something else than the engine does.
    Degraded(Degraded),
}

/// Why, and since when, a stream is not exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Degraded {
    /// Since when, by the clock of the one who drives the stream.
    pub since: Duration,
    /// Batches that are missing among those that were applied. They may have removed what the index still holds.
    pub lost: u64,
    /// Batches that were published before what the index holds. They hide blocks from it, and leave it none that is gone.
    pub unknown_before: u64,
    /// Batches of which a part could not be read.
    pub unreadable: u64,
    /// The publisher may have started again without having been seen to: what is held may be another life's.
    pub unverified: bool,
    /// What applying them found.
    pub findings: Findings,
    /// Whether the publisher can still be asked for what would repair it. If not, only a clear of the rank or a restart does.
    pub repairable: bool,
}

/// What applying a stream's batches found, since the stream last held nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Blocks that wait for a parent that was not announced, or gave way to later ones that do.
    pub waiting_blocks: usize,
    /// Stores that the index had no room for.
    pub crowded_out: u64,
    /// Stores that the index refused.
    pub refused: u64,
}

impl Trust {
    /// In a word.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Unheard => "unheard",
            Self::Resyncing => "resyncing",
            Self::Exact => "exact",
            Self::ExactAsOf { .. } => "exact as of the last sequence",
            Self::Degraded(_) => "degraded",
        }
    }

    /// Whether the index holds what the engine did at the last batch that was applied.
    pub const fn is_exact_as_of_last(&self) -> bool {
        matches!(self, Self::Exact | Self::ExactAsOf { .. })
    }

    /// Whether the index may hold blocks that the engine does not: a cost function should discount them. In all other states
    /// what is held is true, though it may not be all.
    pub const fn may_overstate(&self) -> bool {
        matches!(self, Self::Degraded(degraded) if degraded.may_overstate())
    }
}

impl Degraded {
    /// Whether something is among the reasons that may have removed what the index still holds.
    pub(super) const fn may_overstate(&self) -> bool {
        self.lost > 0 || self.unverified || self.unreadable > 0
    }

    /// The reasons, in words.
    pub fn reasons(&self) -> impl Iterator<Item = &'static str> {
        let reasons = [
            (self.lost > 0, "batches were lost"),
            (self.unknown_before > 0, "batches were published before the first that came"),
            (self.unreadable > 0, "batches could not be read"),
            (self.unverified, "the publisher may have started again unseen"),
            (self.findings.waiting_blocks > 0, "blocks wait for a parent that was not announced"),
            (self.findings.crowded_out > 0, "the index had no room"),
            (self.findings.refused > 0, "the index refused stores"),
        ];
        reasons.into_iter().filter_map(|(holds, reason)| holds.then_some(reason))
    }
}

impl Findings {
    /// Whether there is nothing to report.
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }
}
