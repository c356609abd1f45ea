//! The last answers of one worker.

use std::collections::VecDeque;

use super::Answer;
use crate::cost::number;
use crate::limits::{AUDIT_DISAGREE_MIN, AUDIT_SHARE, AUDIT_WINDOW};

/// A window of [`AUDIT_WINDOW`] answers, and the sums over it.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    answers: VecDeque<Answer>,
}

/// How much more, or less if negative, was reused than expected. Between what was announced and what was booked on top, nothing is: a
/// booked sibling may have failed.
pub(super) fn drift(answer: &Answer) -> i64 {
    let at_least = answer.indexed_tokens.min(answer.prompt_tokens);
    let at_most = at_least.saturating_add(answer.booked_tokens);
    let more = answer.cached_tokens.saturating_sub(at_most);
    let less = at_least.saturating_sub(answer.cached_tokens);
    i64::try_from(more).unwrap_or(i64::MAX) - i64::try_from(less).unwrap_or(i64::MAX)
}

impl Window {
    pub(super) fn push(&mut self, answer: Answer) {
        if self.answers.len() == AUDIT_WINDOW {
            self.answers.pop_front();
        }
        self.answers.push_back(answer);
    }

    pub(super) fn clear(&mut self) {
        self.answers.clear();
    }

    /// Whether enough answers reused less than was announced.
    pub(super) fn shows_less(&self) -> bool {
        let less = self.answers.iter().map(drift).filter(|drift| *drift < 0);
        let (count, tokens) = less.fold((0, 0.0), |(count, sum), drift| (count + 1, sum + number(drift.unsigned_abs())));
        let announced: f64 = self.answers.iter().map(|answer| number(answer.indexed_tokens.min(answer.prompt_tokens))).sum();
        count >= AUDIT_DISAGREE_MIN && tokens > AUDIT_SHARE * announced
    }

    /// Whether enough answers reused more than was announced.
    pub(super) fn shows_more(&self) -> bool {
        let count = self.answers.iter().filter(|answer| drift(answer) > 0).count();
        count >= AUDIT_DISAGREE_MIN as usize && self.share_beyond() > AUDIT_SHARE
    }

    /// Of what was not announced of the prompts, the share that was reused all the same.
    pub(super) fn share_beyond(&self) -> f64 {
        let beyond: f64 = self.answers.iter().map(|answer| number(drift(answer).max(0).unsigned_abs())).sum();
        let room = |answer: &Answer| answer.prompt_tokens.saturating_sub(answer.indexed_tokens);
        let room: f64 = self.answers.iter().map(|answer| number(room(answer))).sum();
        if room > 0.0 { beyond / room } else { 0.0 }
    }
}
