//! One data-parallel rank of an engine: a stream of events on one side, requests on the other.

use std::sync::Arc;

use kv_events::admission::{Findings, FollowerCounts};
use kv_events::relay::LoadSample;
use kv_events::{Counts, HashCounts, Profile, Trust as Worth};
use kv_index::WorkerId;
use kv_routing::adapter::tokio::Pulse;
use kv_routing::load::wire;
use parking_lot::RwLock;
use serde::Serialize;
use tokio::sync::Notify;

use super::books::Books;
use super::checkup::Checkup;
use super::tally::Tally;

/// A rank that requests can be sent to.
#[derive(Debug)]
pub(crate) struct Rank {
    /// Within its engine.
    pub(crate) number: u32,
    /// Within the fleet: what decisions' records call it.
    pub(crate) worker: u32,
    pub(crate) tally: Tally,
    pub(crate) pulse: Pulse,
    pub(crate) books: Books,
    pub(super) checkup: Checkup,
    stream: RwLock<Arc<StreamState>>,
    /// The stream is not what its engine says any more: its feed should look.
    doubted: Notify,
}

/// What is known of a rank's stream. Its feed tells of the sockets, its lane of what is applied; all others see these copies.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamState {
    /// The rank's worker in the index; nothing for an engine without events.
    pub(crate) worker: Option<WorkerId>,
    pub(crate) profile: Arc<Profile>,
    pub(crate) counts: Counts,
    pub(crate) batches: BatchCounts,
    /// The last sequence number applied.
    pub(crate) sequence: Option<u64>,
    /// What the index is worth for the rank, as far as its batches came.
    pub(crate) trust: Worth,
    /// What applying them found.
    pub(crate) findings: Findings,
    /// What the check of the engine's hashes found, where they are checked.
    pub(crate) hashes: Option<HashCounts>,
    /// Applying them panicked, and nobody has seen to it yet.
    pub(crate) failed: bool,
    pub(crate) connected: bool,
    pub(crate) last_error: Option<String>,
}

/// What became of the messages of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct BatchCounts {
    /// Taken in as they were published.
    pub(crate) live: u64,
    /// Taken in from a replay.
    pub(crate) replayed: u64,
    /// Known already.
    pub(crate) stale: u64,
    /// Of another life of the publisher than the one that is followed.
    pub(crate) foreign: u64,
    /// Lost for good.
    pub(crate) missed: u64,
    /// No messages of a publisher.
    pub(crate) unreadable: u64,
    /// Times that a publisher was seen to have started again.
    pub(crate) restarts: u64,
    /// Questions to the replay socket.
    pub(crate) replays: u64,
    /// Times that it was cleared and learned anew, to repair it.
    pub(crate) resyncs: u64,
    /// Times that applying it panicked.
    pub(crate) failures: u64,
}

/// How far the index can be believed about a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Everything that the engine announced was taken in.
    Exact,
    /// Everything up to the last message; whether one was lost after it shows only with the next.
    AsOfSequence,
    /// Nothing has been heard of the rank.
    Unheard,
    /// It is being learned anew: what is known is true, and not all.
    Resyncing,
    /// Batches were lost, or blocks wait for a parent that was, or the index had no room, or applying them panicked.
    Degraded,
    /// The publisher is not connected.
    Disconnected,
    /// The engine has no events.
    NoEvents,
}

impl Rank {
    pub(crate) fn new(number: u32, worker: u32, pulse: Pulse, books: Books) -> Self {
        Self {
            number,
            worker,
            tally: Tally::default(),
            pulse,
            books,
            checkup: Checkup::default(),
            stream: RwLock::default(),
            doubted: Notify::new(),
        }
    }

    /// The latest state of the stream.
    pub(crate) fn stream(&self) -> Arc<StreamState> {
        self.stream.read().clone()
    }

    /// Changes what is shown of the stream.
    pub(in crate::gateway) fn publish(&self, change: impl FnOnce(&mut StreamState)) {
        change(Arc::make_mut(&mut self.stream.write()));
    }

    /// Has the feed look at the stream.
    pub(super) fn doubt(&self) {
        self.doubted.notify_one();
    }

    /// A relay told the rank's load: how busy it is, and that its engine moves.
    pub(super) fn pushed(&self, record: &LoadSample) {
        self.pulse.reported(&wire::record_report(record));
        self.books.pushed(record);
    }

    /// Has the feed learn the stream anew.
    pub(super) fn want_anew(&self) {
        self.books.want_anew();
        self.doubt();
    }

    /// Waits until somebody doubts the stream.
    pub(super) async fn doubted(&self) {
        self.doubted.notified().await;
    }
}

impl StreamState {
    pub(crate) fn trust(&self) -> Trust {
        match self {
            Self { worker: None, .. } => Trust::NoEvents,
            Self { connected: false, .. } => Trust::Disconnected,
            Self { failed: true, .. } => Trust::Degraded,
            // The lane finds it before the follower hears of it.
            Self { findings, .. } if !findings.is_clean() => Trust::Degraded,
            Self { trust: Worth::Degraded(_), .. } => Trust::Degraded,
            Self { trust: Worth::Resyncing, .. } => Trust::Resyncing,
            Self { trust: Worth::Unheard, .. } => Trust::Unheard,
            Self { trust: Worth::ExactAsOf { .. }, .. } => Trust::AsOfSequence,
            Self { trust: Worth::Exact, .. } => Trust::Exact,
        }
    }

    /// Whether the index may hold what the engine does not: batches that told of it were lost, read in part, or cannot come.
    pub(crate) fn may_overstate(&self) -> bool {
        self.worker.is_some() && (self.failed || !self.connected || self.trust.may_overstate())
    }

    /// Batches that are missing from what the index holds.
    pub(crate) fn missed(&self) -> u64 {
        match self.trust {
            Worth::Degraded(degraded) => degraded.lost.saturating_add(degraded.unknown_before),
            _ => 0,
        }
    }

    /// Why it is degraded, in words.
    pub(crate) fn reasons(&self) -> Vec<&'static str> {
        match self.trust {
            Worth::Degraded(degraded) => degraded.reasons().collect(),
            _ => Vec::new(),
        }
    }
}

impl BatchCounts {
    pub(super) fn of(counts: &FollowerCounts, unreadable: u64) -> Self {
        Self {
            live: counts.live,
            replayed: counts.replayed,
            stale: counts.stale,
            foreign: counts.foreign,
            missed: counts.missed,
            unreadable,
            restarts: counts.restarts,
            replays: counts.replays,
            resyncs: counts.rebuilds,
            failures: counts.failures,
        }
    }
}

impl Trust {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::AsOfSequence => "exact as of the last sequence",
            Self::Unheard => "unheard",
            Self::Resyncing => "resyncing",
            Self::Degraded => "degraded",
            Self::Disconnected => "disconnected",
            Self::NoEvents => "no events",
        }
    }
}

#[cfg(test)]
mod tests {
    use kv_events::admission::Degraded;

    use super::*;

    #[test]
    fn trust_follows_the_worst_of_what_is_known() {
        let exact = StreamState { worker: Some(WorkerId(1)), connected: true, trust: Worth::Exact, ..StreamState::default() };
        assert_eq!(exact.trust(), Trust::Exact);
        let waits = Findings { waiting_blocks: 1, ..Findings::default() };
        assert_eq!(StreamState { findings: waits, ..exact.clone() }.trust(), Trust::Degraded);
        assert_eq!(StreamState { failed: true, ..exact.clone() }.trust(), Trust::Degraded);
        let as_of = StreamState { trust: Worth::ExactAsOf { sequence: 3 }, ..exact.clone() };
        assert_eq!((as_of.trust(), as_of.missed()), (Trust::AsOfSequence, 0));
        let lost = Worth::Degraded(Degraded { lost: 2, unknown_before: 5, ..Degraded::default() });
        let lost = StreamState { trust: lost, ..exact.clone() };
        assert_eq!((lost.trust(), lost.missed(), lost.reasons().len()), (Trust::Degraded, 7, 2));
        assert_eq!(StreamState { connected: false, ..lost }.trust(), Trust::Disconnected);
        assert_eq!(StreamState::default().trust(), Trust::NoEvents);
    }

    #[test]
    fn only_what_may_be_gone_is_discounted() {
        let exact = StreamState { worker: Some(WorkerId(1)), connected: true, trust: Worth::Exact, ..StreamState::default() };
        let degraded = |degraded| StreamState { trust: Worth::Degraded(degraded), ..exact.clone() };
        let findings = Findings { waiting_blocks: 1, crowded_out: 1, refused: 1 };
        let sound = [
            exact.clone(),
            StreamState { trust: Worth::Resyncing, ..exact.clone() },
            StreamState { trust: Worth::ExactAsOf { sequence: 3 }, ..exact.clone() },
            StreamState { findings, ..exact.clone() },
            degraded(Degraded { unknown_before: 5, findings, ..Degraded::default() }),
            StreamState::default(),
        ];
        assert!(sound.iter().all(|stream| !stream.may_overstate()), "{sound:#?}");
        let doubtful = [
            StreamState { failed: true, ..exact.clone() },
            StreamState { connected: false, ..exact.clone() },
            degraded(Degraded { lost: 1, ..Degraded::default() }),
            degraded(Degraded { unreadable: 1, ..Degraded::default() }),
            degraded(Degraded { unverified: true, ..Degraded::default() }),
        ];
        assert!(doubtful.iter().all(StreamState::may_overstate), "{doubtful:#?}");
    }
}
