//! What the index is worth, from all that a follower knows.

use super::follower::{Doubt, Follower, Repair, Source};
use super::trust::{Degraded, Trust};

impl Follower {
    /// What holds now.
    pub(super) fn judge_trust(&mut self) -> Trust {
        let degraded = Degraded {
            since: self.degraded_since.unwrap_or(self.clock.theirs(self.clock.now())),
            lost: (self.cursor.missed() - self.cursor.unknown_before()).saturating_add(self.resumption.snapshot_lost),
            unknown_before: self.cursor.unknown_before().max(self.forgotten),
            unreadable: self.unreadable,
            unverified: self.doubt != Doubt::None,
            findings: self.findings,
            repairable: self.is_repairable(),
        };
        // Who learns anew can meet another loss.
        let is_learning =
            (self.repair == Repair::UnderWay || self.resumption.snapshot_next.is_some()) && !degraded.may_overstate();
        let is_degraded = degraded.reasons().next().is_some();
        self.degraded_since = (is_degraded && !is_learning).then_some(degraded.since);
        match self.cursor.last() {
            _ if is_learning => Trust::Resyncing,
            _ if is_degraded => Trust::Degraded(degraded),
            _ if self.link.confirmed && self.link.connected => Trust::Exact,
            Some(sequence) => Trust::ExactAsOf { sequence },
            None if self.session.is_some() && self.counts.restarts > 0 => Trust::Resyncing,
            None => Trust::Unheard,
        }
    }

    fn is_repairable(&self) -> bool {
        let needs_start = self.repair == Repair::Impossible && (self.is_incomplete() || self.findings.crowded_out > 0);
        let only_the_engine_knows = self.unreadable > 0 || self.findings.refused > 0 || self.findings.waiting_blocks > 0;
        // What a relay doubts, asking the relay again does not settle.
        let is_doubt_final = self.doubt == Doubt::ForEver || self.source == Source::Relay && self.doubt == Doubt::Open;
        self.source != Source::Engine && !needs_start && !only_the_engine_knows && !is_doubt_final
    }
}
