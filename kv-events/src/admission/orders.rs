//! What a follower wants done, and what it has counted.

use super::trust::Trust;
use crate::{Batch, Position};

/// What is to be done to the stream, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The change.
    pub change: Change,
    /// What the index is worth once it is made.
    pub trust: Trust,
}

/// A change of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Apply the next batch.
    Apply {
        /// Its number.
        sequence: u64,
        /// Length of its payload.
        bytes: usize,
        /// What it says.
        batch: Batch,
    },
    /// Forget everything that the rank holds ([`Stream::clear`](crate::Stream::clear)).
    Clear,
    /// The same, and what was learned of the engine's wire ([`Stream::restart`](crate::Stream::restart)).
    Restart,
    /// Nothing but the trust has changed.
    Nothing,
}

/// What is to be asked of others. A later request replaces an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Ask the replay socket for everything from `from` on. Answers go to
    /// [`Follower::handle_replayed`](super::Follower::handle_replayed), the end to
    /// [`Follower::handle_replay_end`](super::Follower::handle_replay_end), both with `session`. A replay that is under way is to
    /// be dropped.
    Replay {
        /// The question's number.
        session: u64,
        /// The first sequence.
        from: u64,
    },
    /// Drop the replay under way: it has taken too long.
    StopReplay,
    /// End the relay's stream, and subscribe again behind this position; from nothing if there is none.
    Resubscribe {
        /// The last batch that was applied.
        after: Option<Position>,
    },
}

/// What became of the batches of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FollowerCounts {
    /// Applied as they were published.
    pub live: u64,
    /// Applied from a replay.
    pub replayed: u64,
    /// Applied from a snapshot.
    pub snapshot: u64,
    /// Known already.
    pub stale: u64,
    /// Of another life than the one that is followed.
    pub foreign: u64,
    /// Live ones that found no room while a replay was under way.
    pub overflowed: u64,
    /// Answers to a question that was given up.
    pub late: u64,
    /// Never came.
    pub missed: u64,
    /// Times that the publisher was seen to have started again.
    pub restarts: u64,
    /// Questions to the replay socket.
    pub replays: u64,
    /// Of these, those that did not end with the end marker.
    pub replays_incomplete: u64,
    /// Questions to a relay.
    pub resubscriptions: u64,
    /// Times that the stream was cleared and learned anew.
    pub rebuilds: u64,
    /// Times that its index lost it.
    pub failures: u64,
}
