//! What a rank says of its load, and what of that is believed.

use std::time::Duration;

use thiserror::Error;

use crate::limits::{KV_USAGE_MAX, RATE_MAX_TOKENS_PER_S, REQUESTS_MAX, TOKENS_MAX};

/// How a sample came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// By itself.
    Pushed,
    /// Because it was asked for.
    Polled,
}

/// One rank's load, as it came: numbers of any kind. [`Ledger::handle_sample`](super::Ledger::handle_sample) checks them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// How it came.
    pub source: Source,
    /// When it was taken, by the caller's clock: rather too early than too late, since what was dispatched before it counts as
    /// known to the worker. For a poll, when it was sent.
    pub sampled_at: Duration,
    /// The publisher's number of the sample, if there is one: two with the same number are one sample.
    pub number: Option<u64>,
    /// Requests that run.
    pub running: f64,
    /// Requests that wait.
    pub waiting: f64,
    /// Prompt tokens of waiting requests that are not cached. Nothing said is not 0.
    pub queued_tokens: Option<f64>,
    /// The share of the KV cache in use by running requests, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Tokens generated in a second.
    pub tokens_per_s: Option<f64>,
    /// Tokens computed since the engine's start, prompt and output without what was cached. A rate is made of two.
    pub tokens_total: Option<f64>,
}

/// Why a sample, or one value of it, is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Error)]
pub enum Refusal {
    /// The rank is beyond what a worker has.
    #[error("the rank is out of range")]
    RankOutOfRange,
    /// NaN or infinite.
    #[error("a value is no number")]
    NotANumber,
    /// Below 0.
    #[error("a value is negative")]
    Negative,
    /// Beyond what any engine could mean.
    #[error("a value is absurdly large")]
    Absurd,
    /// It was taken before one that is known.
    #[error("an older sample than the last one")]
    Old,
    /// It is the last one again.
    #[error("the last sample again")]
    Repeated,
}

/// A sample whose values are what they should be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Checked {
    pub(super) running: u32,
    pub(super) waiting: u32,
    pub(super) queued_tokens: Option<u64>,
    pub(super) kv_usage: Option<f64>,
    pub(super) tokens_per_s: Option<f64>,
    pub(super) tokens_total: Option<f64>,
}

impl Sample {
    /// A pushed sample without values. Publishers and networks take a moment, so it counts as taken [`TRANSIT`](crate::limits::TRANSIT)
    /// before it could have been at the latest.
    pub fn pushed(received_at: Duration, age: Duration) -> Self {
        let sampled_at = received_at.saturating_sub(age).saturating_sub(crate::limits::TRANSIT);
        Self { source: Source::Pushed, ..Self::polled(sampled_at) }
    }

    /// A polled sample without values.
    pub const fn polled(sent_at: Duration) -> Self {
        Self {
            source: Source::Polled,
            sampled_at: sent_at,
            number: None,
            running: 0.0,
            waiting: 0.0,
            queued_tokens: None,
            kv_usage: None,
            tokens_per_s: None,
            tokens_total: None,
        }
    }

    /// Checks the values. `left_out` is told of each that is not used though the sample is.
    pub(super) fn check(&self, mut left_out: impl FnMut(Refusal)) -> Result<Checked, Refusal> {
        let mut optional = |value: Option<f64>, most| match in_range(value?, most) {
            Ok(value) => Some(value),
            Err(refusal) => {
                left_out(refusal);
                None
            }
        };
        Ok(Checked {
            running: whole(in_range(self.running, REQUESTS_MAX)?),
            waiting: whole(in_range(self.waiting, REQUESTS_MAX)?),
            queued_tokens: optional(self.queued_tokens, TOKENS_MAX).map(whole_tokens),
            kv_usage: optional(self.kv_usage, KV_USAGE_MAX).map(|usage| usage.min(1.0)),
            tokens_per_s: optional(self.tokens_per_s, RATE_MAX_TOKENS_PER_S),
            tokens_total: optional(self.tokens_total, f64::MAX),
        })
    }
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::RankOutOfRange, Self::NotANumber, Self::Negative, Self::Absurd, Self::Old, Self::Repeated];

    /// The name in metrics and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RankOutOfRange => "rank_out_of_range",
            Self::NotANumber => "not_a_number",
            Self::Negative => "negative",
            Self::Absurd => "absurd",
            Self::Old => "old",
            Self::Repeated => "repeated",
        }
    }
}

fn in_range(value: f64, most: f64) -> Result<f64, Refusal> {
    match value {
        value if !value.is_finite() => Err(Refusal::NotANumber),
        value if value < 0.0 => Err(Refusal::Negative),
        value if value > most => Err(Refusal::Absurd),
        value => Ok(value),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range, and fractions of requests are none")]
fn whole(value: f64) -> u32 {
    value as u32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range, and fractions of tokens are none")]
fn whole_tokens(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sample: Sample) -> (Result<Checked, Refusal>, Vec<Refusal>) {
        let mut left_out = Vec::new();
        (sample.check(|refusal| left_out.push(refusal)), left_out)
    }

    #[test]
    fn bad_counts_refuse_the_sample() {
        let sample = Sample::polled(Duration::ZERO);
        for (bad, refusal) in [
            (f64::NAN, Refusal::NotANumber),
            (f64::INFINITY, Refusal::NotANumber),
            (-1.0, Refusal::Negative),
            (1e9, Refusal::Absurd),
        ] {
            assert_eq!(check(Sample { running: bad, ..sample }), (Err(refusal), vec![]));
            assert_eq!(check(Sample { waiting: bad, ..sample }).0, Err(refusal));
        }
    }

    #[test]
    fn any_other_bad_value_is_left_out_by_its_reason() {
        let sample = Sample {
            running: 2.0,
            queued_tokens: Some(-3.0),
            kv_usage: Some(37.0),
            tokens_per_s: Some(f64::NAN),
            tokens_total: Some(7.0),
            ..Sample::polled(Duration::ZERO)
        };
        let (checked, left_out) = check(sample);
        assert_eq!(checked, Ok(Checked { running: 2, tokens_total: Some(7.0), ..Checked::default() }));
        assert_eq!(left_out, [Refusal::Negative, Refusal::Absurd, Refusal::NotANumber]);
    }

    #[test]
    fn an_overdrawn_cache_is_full() {
        let sample = Sample { kv_usage: Some(1.3), ..Sample::polled(Duration::ZERO) };
        assert_eq!(check(sample).0.unwrap().kv_usage, Some(1.0));
    }
}
