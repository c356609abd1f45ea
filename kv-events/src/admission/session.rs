//! One question to the replay socket, while its answers come.

use std::time::Duration;

use crate::limits::{REPLAY_MAX, REPLAY_SILENCE_MAX};

/// A replay under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    pub(super) id: u64,
    /// The first sequence that was asked for.
    pub(super) from: u64,
    /// It looks for a place from which the stream can be rebuilt: batch 0, or a clear of the rank.
    pub(super) seeks: bool,
    /// The last batch that had been applied when it was asked; nothing if what is replayed is a life of its own.
    pub(super) known_last: Option<u64>,
    /// The answers are of the life that the stream knows: they showed a batch of it, or there is none to show.
    pub(super) is_known_life: bool,
    /// `known_last` was among the answers.
    pub(super) showed_last: bool,
    /// The first sequence that was answered.
    pub(super) first: Option<u64>,
    /// The highest sequence that was answered.
    pub(super) high: Option<u64>,
    /// Answers.
    pub(super) heard: u64,
    /// Answers that were new.
    pub(super) applied: u64,
    ends: Duration,
    silent: Duration,
}

/// How a replay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// The end marker came.
    Complete,
    /// Anything else: no connection, silence, frames that are no answer's, a connection that broke.
    Incomplete,
}

impl Session {
    pub(super) fn new(id: u64, from: u64, seeks: bool, last: Option<u64>, now: Duration) -> Self {
        Self {
            id,
            from,
            seeks,
            known_last: last,
            is_known_life: last.is_none(),
            showed_last: last.is_none(),
            first: None,
            high: None,
            heard: 0,
            applied: 0,
            ends: now.saturating_add(REPLAY_MAX),
            silent: now.saturating_add(REPLAY_SILENCE_MAX),
        }
    }

    /// An answer came.
    pub(super) fn hears(&mut self, sequence: u64, now: Duration) {
        self.heard += 1;
        self.first = self.first.or(Some(sequence));
        self.high = self.high.max(Some(sequence));
        self.showed_last |= self.known_last == Some(sequence);
        self.silent = now.saturating_add(REPLAY_SILENCE_MAX);
    }

    /// What is replayed begins a life: nothing of what was known belongs to it.
    pub(super) fn begins_life(&mut self) {
        (self.known_last, self.is_known_life, self.showed_last) = (None, true, true);
    }

    /// Whether the end marker, which came, says that nothing follows our last batch: behind more answers than that one it does
    /// not, because a publisher's socket may have dropped those before the marker to a slow reader. Behind none it says nothing: the
    /// publisher may keep none.
    pub(super) fn shows_end(&self) -> bool {
        self.applied == 0 && self.heard == 1
    }

    /// When it has taken too long.
    pub(super) fn deadline(&self) -> Duration {
        self.ends.min(self.silent)
    }

    /// Whether the publisher, having told all that it has, lacks a batch that it must have if it is still the same life: the
    /// last of all it keeps the longest.
    pub(super) fn lacks_last(&self) -> bool {
        self.known_last.is_some_and(|last| self.high.is_none_or(|high| high < last))
    }
}
