//! What is thought of one worker.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Answer;
use super::window::Window;
use crate::cost::number;
use crate::limits::{AUDIT_WINDOW, RESYNC_PAUSE_MAX_S, RESYNC_PAUSE_S};

/// What is thought of a worker's index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It says what the worker holds, or nothing else was seen.
    #[default]
    Sound,
    /// The worker holds more.
    HoldsMore,
    /// The worker holds less.
    HoldsLess,
}

/// One audited worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Worker {
    state: State,
    window: Window,
    /// Answers in a row that left the state sound.
    sound: usize,
    /// Demands since it was last sound for a whole window.
    demands: u32,
    /// No demand before.
    relearn_from: Duration,
}

impl Worker {
    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn weigh(&mut self, answer: Answer) {
        self.window.push(answer);
        // Less is the worse of the two: a request that was sent for nothing waits for it.
        self.state = if self.window.shows_less() {
            State::HoldsLess
        } else if self.window.shows_more() {
            State::HoldsMore
        } else {
            State::Sound
        };
        self.sound = if self.state == State::Sound { self.sound + 1 } else { 0 };
        if self.sound >= AUDIT_WINDOW {
            (self.demands, self.relearn_from) = (0, Duration::ZERO);
        }
    }

    pub(super) fn relearned(&mut self) {
        self.window.clear();
        (self.state, self.sound) = (State::Sound, 0);
    }

    /// Notes a demand made now. When the next may be made.
    pub(super) fn demanded(&mut self, now: Duration) -> Duration {
        let pause_s = RESYNC_PAUSE_S.saturating_mul(1 << self.demands.min(32)).min(RESYNC_PAUSE_MAX_S);
        self.demands = self.demands.saturating_add(1);
        self.relearn_from = now.saturating_add(Duration::from_secs(pause_s));
        self.relearn_from
    }

    pub(super) fn relearn_from(&self) -> Duration {
        self.relearn_from
    }

    /// Of `room` tokens that were not announced, those that it will reuse all the same.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the room, which is a count")]
    pub(super) fn credit(&self, room: u64) -> u64 {
        if self.state == State::HoldsMore { (number(room) * self.window.share_beyond().min(1.0)) as u64 } else { 0 }
    }
}
