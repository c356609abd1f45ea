//! What a decision reads of one worker.

use std::time::Duration;

use crate::Load;
use crate::sync::atomic::{AtomicU64, Ordering};

/// How busy one worker is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct View {
    /// Requests sent from here that are not complete.
    pub in_flight: u32,
    /// Requests that run, by its own account; 0 without a fresh one.
    pub running: u32,
    /// Requests that wait, by its own account; 0 without a fresh one.
    pub waiting: u32,
    /// Prompt tokens that it must compute before it gets to a new prompt: by its own account and what was sent since; without
    /// a fresh account, those of all requests sent from here that have no first token.
    pub queued_tokens: u64,
    /// Tokens that it computes in a second, over the ranks that run something and say so.
    pub rate_tokens_per_s: Option<f64>,
    /// The share of its KV cache in use, 0 to 1, on average over ranks.
    pub kv_usage: Option<f64>,
    /// When the oldest of its ranks' fresh samples was taken. `None` if none is fresh: then it has not reported.
    pub sampled_at: Option<Duration>,
}

/// A view in words that can be read while they are written: one cache line, apart from the lock and what it guards, so that writers who
/// wait do not slow readers down.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Published {
    /// In flight in the upper half, running in the lower.
    requests: AtomicU64,
    waiting: AtomicU64,
    /// With a fresh account, and without.
    queued_tokens: AtomicU64,
    own_tokens: AtomicU64,
    /// Bits of doubles; NaN for none.
    rate_tokens_per_s: AtomicU64,
    kv_usage: AtomicU64,
    /// In nanoseconds and one more; 0 for never.
    sampled_at: AtomicU64,
    fresh_until: AtomicU64,
}

impl View {
    /// Whether the worker's own account is part of it.
    pub fn is_reported(&self) -> bool {
        self.sampled_at.is_some()
    }

    /// What a decision reads of it. `prefill_tokens_per_s` is what [`Vitals`](crate::liveness::Vitals::prefill_tokens_per_s) measured:
    /// the view's own rate is of all tokens, and a queue is of prompts. What requests add to the memory is in other books.
    pub fn load(&self, prefill_tokens_per_s: Option<f64>) -> Load {
        #[expect(clippy::cast_possible_truncation, reason = "a rate and a share, of which a few digits are known")]
        let single = |value: f64| value as f32;
        Load {
            in_flight: self.in_flight,
            running: self.running,
            waiting: self.waiting,
            queued_tokens: self.queued_tokens,
            kept_tokens: 0,
            rate_tokens_per_s: prefill_tokens_per_s.map(single),
            kv_usage: self.kv_usage.map(single),
            reported: self.is_reported(),
        }
    }
}

impl Published {
    /// Publishes `view`, which counts until `fresh_until`, and then `own_tokens` alone. For one writer at a time.
    pub(super) fn set(&self, view: &View, own_tokens: u64, fresh_until: Duration) {
        // Relaxed: each word is true by itself at some moment. The sum of queue and credit is one word, which is why a reader never
        // sees half of a sample's taking over.
        let set = |word: &AtomicU64, value: u64| word.store(value, Ordering::Relaxed);
        set(&self.requests, u64::from(view.in_flight) << 32 | u64::from(view.running));
        set(&self.waiting, view.waiting.into());
        set(&self.queued_tokens, view.queued_tokens);
        set(&self.own_tokens, own_tokens);
        set(&self.rate_tokens_per_s, view.rate_tokens_per_s.unwrap_or(f64::NAN).to_bits());
        set(&self.kv_usage, view.kv_usage.unwrap_or(f64::NAN).to_bits());
        set(&self.sampled_at, view.sampled_at.map_or(0, word));
        // Release: whoever reads that there is a fresh sample reads its values, and not those of one long ago.
        self.fresh_until.store(view.sampled_at.map_or(0, |_| word(fresh_until)), Ordering::Release);
    }

    pub(super) fn view(&self, now: Duration) -> View {
        let word_of = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let requests = word_of(&self.requests);
        let in_flight = count(requests >> 32);
        // Acquire: as where it is written.
        if word(now) > self.fresh_until.load(Ordering::Acquire) {
            return View { in_flight, queued_tokens: word_of(&self.own_tokens), ..View::default() };
        }
        let double = |word: &AtomicU64| Some(f64::from_bits(word_of(word))).filter(|value| !value.is_nan());
        View {
            in_flight,
            running: count(requests & u64::from(u32::MAX)),
            waiting: count(word_of(&self.waiting)),
            queued_tokens: word_of(&self.queued_tokens),
            rate_tokens_per_s: double(&self.rate_tokens_per_s),
            kv_usage: double(&self.kv_usage),
            sampled_at: word_of(&self.sampled_at).checked_sub(1).map(Duration::from_nanos),
        }
    }
}

fn word(moment: Duration) -> u64 {
    u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX).saturating_add(1)
}

/// A count that was stored from 32 bits.
fn count(word: u64) -> u32 {
    u32::try_from(word).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_reads_what_the_view_says() {
        let view = View { in_flight: 3, running: 2, waiting: 1, queued_tokens: 700, kv_usage: Some(0.25), ..View::default() };
        let load = Load { in_flight: 3, running: 2, waiting: 1, queued_tokens: 700, kv_usage: Some(0.25), ..Load::default() };
        assert_eq!(view.load(None), load, "nothing fresh was reported");
        let reported = View { sampled_at: Some(Duration::ZERO), rate_tokens_per_s: Some(9.0), ..view };
        assert_eq!(reported.load(Some(5e3)), Load { reported: true, rate_tokens_per_s: Some(5e3), ..load });
    }

    #[test]
    fn what_is_published_is_read_and_only_while_it_is_fresh() {
        let published = Published::default();
        assert_eq!(published.view(Duration::ZERO), View::default());
        let view = View {
            in_flight: u32::MAX,
            running: u32::MAX - 1,
            waiting: u32::MAX - 2,
            queued_tokens: u64::MAX,
            rate_tokens_per_s: Some(1.5),
            kv_usage: None,
            sampled_at: Some(Duration::ZERO),
        };
        let until = Duration::from_secs(15);
        published.set(&view, 7, until);
        assert_eq!((published.view(Duration::ZERO), published.view(until)), (view, view));
        let stale = View { in_flight: u32::MAX, queued_tokens: 7, ..View::default() };
        assert_eq!((published.view(until + Duration::from_nanos(1)), published.view(Duration::MAX)), (stale, stale));
        assert_eq!(size_of::<Published>(), 64);
    }
}
