//! A question to the replay socket, while its answers come.

use std::time::Duration;

use crate::limits::{REPLAY_MAX, REPLAY_SILENCE_MAX};

/// A question that is under way.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each was seen or not, by itself")]
pub(super) struct Asking {
    pub(super) ticket: u64,
    /// When it has taken too long, and when it has been silent for too long.
    ends: Duration,
    silent: Duration,
    pub(super) tries: u32,
    /// How often in a row it was asked for nothing but the end.
    pub(super) end_checks: u32,
    /// Answers.
    pub(super) heard: u64,
    /// The last number when it was asked.
    pub(super) last: Option<u64>,
    /// A number at or beyond it was answered.
    pub(super) knows_last: bool,
    /// Something that is remembered was answered.
    pub(super) verified: bool,
    /// Something new was answered.
    pub(super) progressed: bool,
    /// Numbers were missing, and given up.
    pub(super) lost: bool,
    /// A number is missing in the middle.
    pub(super) broken: bool,
}

impl Asking {
    pub(super) fn new(ticket: u64, tries: u32, last: Option<u64>, now: Duration) -> Self {
        Self {
            ticket,
            ends: now.saturating_add(REPLAY_MAX),
            silent: now.saturating_add(REPLAY_SILENCE_MAX),
            tries,
            end_checks: 0,
            heard: 0,
            last,
            knows_last: false,
            verified: false,
            progressed: false,
            lost: false,
            broken: false,
        }
    }

    /// When it is given up.
    pub(super) fn deadline(&self) -> Duration {
        self.ends.min(self.silent)
    }

    /// An answer came.
    pub(super) fn hears(&mut self, sequence: u64, now: Duration) {
        self.silent = now.saturating_add(REPLAY_SILENCE_MAX);
        self.heard += 1;
        self.knows_last |= self.last.is_some_and(|last| sequence >= last);
    }

    /// Whether an end marker says that nothing follows the last number. Behind more answers than that one it does not: the publisher's
    /// socket may have dropped those before the marker to a slow reader. Nor behind none: a publisher that keeps nothing says nothing.
    pub(super) fn shows_end(&self) -> bool {
        (self.last.is_none() || self.knows_last) && !self.progressed && self.heard <= 1
    }
}
