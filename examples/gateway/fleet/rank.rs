//! One data-parallel rank of an engine: a stream of events on one side, requests on the other.

use std::sync::Arc;

use kv_events::{Counts, Profile};
use kv_index::WorkerId;
use parking_lot::RwLock;
use serde::Serialize;
use tokio::sync::Notify;

use super::tally::Tally;

/// A rank that requests can be sent to.
#[derive(Debug)]
pub(crate) struct Rank {
    /// Within its engine.
    pub(crate) number: u32,
    /// Within the fleet: what decisions' records call it.
    pub(crate) worker: u32,
    pub(crate) tally: Tally,
    stream: RwLock<Arc<StreamState>>,
    /// The stream is not what its engine says any more: its feed should look.
    doubted: Notify,
}

/// What is known of a rank's stream. Its feed tells of the sockets and its lane of what is applied; everybody else sees these copies.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamState {
    /// The rank's worker in the index; nothing for an engine without events.
    pub(crate) worker: Option<WorkerId>,
    pub(crate) profile: Arc<Profile>,
    pub(crate) counts: Counts,
    pub(crate) batches: BatchCounts,
    /// The last sequence number applied.
    pub(crate) sequence: Option<u64>,
    /// Batches that are known to be lost, since the last clear.
    pub(crate) missed: u64,
    /// Blocks that wait for their parents.
    pub(crate) waiting_blocks: usize,
    /// Stores that the index had no room for, since the stream last held nothing.
    pub(crate) crowded_out: u64,
    /// It could not be believed, and has not been learned anew since.
    pub(crate) unlearned: bool,
    pub(crate) connected: bool,
    /// Without a replay socket, a lost last batch shows only with the next one.
    pub(crate) has_replay: bool,
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
    /// Lost for good.
    pub(crate) missed: u64,
    /// No messages of a publisher.
    pub(crate) unreadable: u64,
    /// Times that a publisher was seen to have started again.
    pub(crate) restarts: u64,
    /// Questions to the replay socket.
    pub(crate) replays: u64,
    /// Times that it was cleared and learned anew because it could not be believed.
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
    /// Batches were lost, or blocks wait for a parent that was, or the index had no room, or applying them panicked.
    Degraded,
    /// The publisher is not connected.
    Disconnected,
    /// The engine has no events.
    NoEvents,
}

impl Rank {
    pub(crate) fn new(number: u32, worker: u32) -> Self {
        Self { number, worker, tally: Tally::default(), stream: RwLock::default(), doubted: Notify::new() }
    }

    /// The latest state of the stream.
    pub(crate) fn stream(&self) -> Arc<StreamState> {
        self.stream.read().clone()
    }

    /// Changes what is shown of the stream.
    pub(super) fn publish(&self, change: impl FnOnce(&mut StreamState)) {
        change(Arc::make_mut(&mut self.stream.write()));
    }

    /// Has the feed look at the stream.
    pub(super) fn doubt(&self) {
        self.doubted.notify_one();
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
            Self { missed: 1.., .. }
            | Self { waiting_blocks: 1.., .. }
            | Self { crowded_out: 1.., .. }
            | Self { unlearned: true, .. } => Trust::Degraded,
            Self { has_replay: false, .. } => Trust::AsOfSequence,
            _ => Trust::Exact,
        }
    }
}

impl Trust {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::AsOfSequence => "exact as of the last sequence",
            Self::Degraded => "degraded",
            Self::Disconnected => "disconnected",
            Self::NoEvents => "no events",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_follows_the_worst_of_what_is_known() {
        let exact = StreamState { worker: Some(WorkerId(1)), connected: true, has_replay: true, ..StreamState::default() };
        assert_eq!(exact.trust(), Trust::Exact);
        assert_eq!(StreamState { has_replay: false, ..exact.clone() }.trust(), Trust::AsOfSequence);
        assert_eq!(StreamState { waiting_blocks: 1, has_replay: false, ..exact.clone() }.trust(), Trust::Degraded);
        assert_eq!(StreamState { missed: 2, ..exact.clone() }.trust(), Trust::Degraded);
        assert_eq!(StreamState { crowded_out: 1, ..exact.clone() }.trust(), Trust::Degraded);
        assert_eq!(StreamState { unlearned: true, ..exact.clone() }.trust(), Trust::Degraded);
        assert_eq!(StreamState { missed: 2, connected: false, ..exact }.trust(), Trust::Disconnected);
        assert_eq!(StreamState::default().trust(), Trust::NoEvents);
    }
}
