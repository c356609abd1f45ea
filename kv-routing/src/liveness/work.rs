//! What one worker was given and has not finished: how many streams could show progress, how much prefill could explain that none
//! does, and how fast prompts are computed.

use std::time::Duration;

use crate::limits::{PREFILL_TOKENS_PER_S, RATE_WINDOW_MIN, TOKENS_PER_S_MIN};

/// The requests of one worker.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Streams under way.
    tracked: u32,
    /// When the first of them began, of those without a break between them.
    run_since: Duration,
    /// Prompt tokens of requests without a first token.
    pending_tokens: u64,
    rate: Rate,
}

/// What the judge reads of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WorkNow {
    pub(super) tracked: u32,
    pub(super) run_since: Duration,
    pub(super) pending_tokens: u64,
    /// Prompt tokens a second, once measured.
    pub(super) measured: Option<f64>,
}

impl Work {
    pub(super) fn stream_begins(&mut self, now: Duration) {
        if self.tracked == 0 {
            self.run_since = now;
        }
        self.tracked += 1;
    }

    pub(super) fn stream_ends(&mut self) {
        self.tracked -= 1;
    }

    /// A prompt is to be computed. With `timed`, its end is a first token that will be seen.
    pub(super) fn prompt_begins(&mut self, now: Duration, tokens: u64, timed: bool) {
        self.pending_tokens = self.pending_tokens.saturating_add(tokens);
        if timed {
            self.rate.begins(now);
        }
    }

    /// A prompt was computed.
    pub(super) fn prompt_done(&mut self, now: Duration, tokens: u64, timed: bool) {
        self.pending_tokens = self.pending_tokens.saturating_sub(tokens);
        if timed {
            self.rate.done(now, tokens);
        }
    }

    /// A prompt will not be computed any more, or nobody saw it done.
    pub(super) fn prompt_dropped(&mut self, tokens: u64, timed: bool) {
        self.pending_tokens = self.pending_tokens.saturating_sub(tokens);
        if timed {
            self.rate.dropped();
        }
    }

    /// The state as of `now`. A run that begins ahead of it begins now.
    pub(super) fn now(&mut self, now: Duration) -> WorkNow {
        self.run_since = self.run_since.min(now);
        let Self { tracked, run_since, pending_tokens, .. } = *self;
        WorkNow { tracked, run_since, pending_tokens, measured: self.rate.per_s }
    }
}

impl WorkNow {
    /// How long the prompts without a first token may take.
    pub(super) fn backlog(&self) -> Duration {
        prefill_time(self.pending_tokens, self.measured.unwrap_or(PREFILL_TOKENS_PER_S))
    }
}

/// How long `tokens` take at a rate, whatever the rate is.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
pub(super) fn prefill_time(tokens: u64, tokens_per_s: f64) -> Duration {
    Duration::try_from_secs_f64(tokens as f64 / tokens_per_s.max(TOKENS_PER_S_MIN)).unwrap_or(Duration::MAX)
}

/// Prompt tokens a second over the time in which some prompt waited for its first token; peace between requests is not slowness.
/// Each window of at least [`RATE_WINDOW_MIN`] of such time moves the mean half way.
#[derive(Debug, Default)]
struct Rate {
    waiting: u32,
    since: Duration,
    /// Of the current window.
    busy: Duration,
    tokens: u64,
    per_s: Option<f64>,
}

impl Rate {
    fn begins(&mut self, now: Duration) {
        if self.waiting == 0 {
            self.since = now;
        }
        self.waiting += 1;
    }

    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    fn done(&mut self, now: Duration, tokens: u64) {
        self.waiting -= 1;
        self.busy = self.busy.saturating_add(now.saturating_sub(self.since));
        self.since = now;
        self.tokens = self.tokens.saturating_add(tokens);
        if self.busy >= RATE_WINDOW_MIN {
            let window = self.tokens as f64 / self.busy.as_secs_f64();
            self.per_s = Some(self.per_s.map_or(window, |mean| f64::midpoint(mean, window)));
            (self.busy, self.tokens) = (Duration::ZERO, 0);
        }
    }

    fn dropped(&mut self) {
        self.waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_rate_is_measured_over_busy_time_only() {
        let mut work = Work::default();
        for hour in 0..10 {
            let begun = ms(hour * 3_600_000);
            work.prompt_begins(begun, 4_000, true);
            assert!(work.now(begun).measured.is_none_or(|rate| (rate - 8_000.0).abs() < 1e-6), "hour {hour}");
            work.prompt_done(begun + ms(500), 4_000, true);
        }
        assert_eq!(work.now(ms(0)).measured, Some(8_000.0));
    }

    #[test]
    fn each_window_moves_the_mean_half_way() {
        let mut work = Work::default();
        let mut measure = |from_s: u64, tokens: u64| {
            work.prompt_begins(ms(from_s * 1_000), tokens, true);
            work.prompt_done(ms(from_s * 1_000 + 1_000), tokens, true);
            work.now(ms(0)).measured.unwrap()
        };
        let rates = [measure(0, 2_000), measure(10, 4_000), measure(20, 4_000)];
        assert_eq!(rates.map(|rate| rate.to_string()), ["2000", "3000", "3500"]);
    }

    #[test]
    fn what_ends_without_a_first_token_measures_nothing() {
        let mut work = Work::default();
        work.prompt_begins(ms(0), 1_000_000, true);
        work.prompt_dropped(1_000_000, true);
        work.prompt_begins(ms(5_000), 100, true);
        work.prompt_done(ms(5_001), 100, true);
        assert_eq!((work.now(ms(0)).measured, work.now(ms(0)).pending_tokens), (None, 0));
    }

    #[test]
    fn a_backlog_is_a_time_whatever_the_numbers() {
        let now = |pending_tokens, measured| WorkNow { pending_tokens, measured, ..WorkNow::default() };
        assert_eq!(now(128 * 1_152, None).backlog(), Duration::from_micros(14_745_600));
        assert!(now(u64::MAX, Some(0.0)).backlog() > Duration::from_secs(1 << 60));
        assert_eq!(now(5, Some(f64::NAN)).backlog(), Duration::from_secs(5));
    }
}
