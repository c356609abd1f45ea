//! The last sample of one rank.

use std::time::Duration;

use super::sample::Checked;
use super::{Refusal, Sample, Source};
use crate::limits::RATE_WINDOW_MIN;

/// One rank, as its samples tell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rank {
    last: Option<Taken>,
    pushed_at: Option<Duration>,
    counter: Option<Counter>,
    /// Tokens computed in a second, by the counter.
    counted_per_s: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    at: Duration,
    number: Option<u64>,
    values: Checked,
}

/// Where a rate is measured from.
#[derive(Clone, Copy, Debug)]
struct Counter {
    at: Duration,
    total: f64,
    /// Something ran when it was read, and at every sample since.
    busy: bool,
}

impl Rank {
    /// Whether `sample`, taken at `at`, is news.
    pub(super) fn is_news(&mut self, now: Duration, at: Duration, sample: &Sample) -> Result<(), Refusal> {
        let Some(last) = &mut self.last else { return Ok(()) };
        // From before the clock went back: what is now is later than that.
        last.at = last.at.min(now);
        if sample.number.is_some() && sample.number == last.number {
            return Err(Refusal::Repeated);
        }
        match at.cmp(&last.at) {
            std::cmp::Ordering::Less => Err(Refusal::Old),
            std::cmp::Ordering::Equal if sample.number.is_none() => Err(Refusal::Repeated),
            _ => Ok(()),
        }
    }

    pub(super) fn take(&mut self, at: Duration, sample: &Sample, values: Checked) {
        if sample.source == Source::Pushed {
            self.pushed_at = Some(at);
        }
        self.count(at, &values);
        self.last = Some(Taken { at, number: sample.number, values });
    }

    /// The sample, if it still counts at `now`, and when it was taken.
    pub(super) fn fresh(&self, now: Duration, fresh_for: Duration) -> Option<(Duration, &Checked)> {
        let last = self.last.as_ref()?;
        (now.saturating_sub(last.at) <= fresh_for).then_some((last.at, &last.values))
    }

    /// When it was pushed last, if it ever was.
    pub(super) fn pushed_at(&self) -> Option<Duration> {
        self.pushed_at
    }

    /// Tokens a second, if something runs and does not stand.
    pub(super) fn tokens_per_s(&self) -> Option<f64> {
        let values = &self.last.as_ref()?.values;
        let running = values.running > 0;
        values.tokens_per_s.or(self.counted_per_s).filter(|rate| running && *rate > 0.0)
    }

    fn count(&mut self, at: Duration, values: &Checked) {
        let Some(total) = values.tokens_total else { return };
        let busy = values.running > 0;
        let Some(counter) = &mut self.counter else {
            self.counter = Some(Counter { at, total, busy });
            return;
        };
        counter.busy &= busy;
        let over = at.saturating_sub(counter.at);
        let restarted = total < counter.total;
        if restarted || over >= RATE_WINDOW_MIN {
            let measured = counter.busy && !restarted;
            self.counted_per_s = measured.then(|| (total - counter.total) / over.as_secs_f64());
            self.counter = Some(Counter { at, total, busy });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The rate after samples of (seconds, running, total).
    fn rate_after(samples: &[(f64, f64, f64)]) -> Option<f64> {
        let mut rank = Rank::default();
        for &(at_s, running, total) in samples {
            let at = Duration::from_secs_f64(at_s);
            let sample = Sample { running, tokens_total: Some(total), ..Sample::polled(at) };
            rank.take(at, &sample, sample.check(|_| ()).unwrap());
        }
        rank.tokens_per_s()
    }

    #[test]
    fn a_rate_is_what_was_counted_between_two_busy_samples() {
        assert_eq!(rate_after(&[(0.0, 1.0, 100.0), (2.0, 1.0, 5_100.0)]), Some(2_500.0));
        assert_eq!(rate_after(&[(0.0, 1.0, 100.0)]), None, "one sample is no rate");
        assert_eq!(rate_after(&[(0.0, 0.0, 100.0), (2.0, 1.0, 5_100.0)]), None, "it was idle for some of the time");
        assert_eq!(rate_after(&[(0.0, 1.0, 100.0), (2.0, 1.0, 5_100.0), (4.0, 0.0, 5_100.0)]), None, "it is idle");
        assert_eq!(rate_after(&[(0.0, 1.0, 9_000.0), (2.0, 1.0, 50.0)]), None, "the engine started anew");
        assert_eq!(rate_after(&[(0.0, 1.0, 9_000.0), (0.5, 1.0, 50.0), (2.5, 1.0, 1_050.0)]), Some(500.0));
        assert_eq!(rate_after(&[(0.0, 1.0, 100.0), (0.5, 0.0, 100.0), (2.0, 1.0, 600.0)]), None, "it was idle between");
        assert_eq!(rate_after(&[(0.0, 1.0, 100.0), (0.5, 1.0, 100.0), (2.0, 1.0, 600.0)]), Some(250.0));
        assert_eq!(rate_after(&[(0.0, 1.0, 9_000.0), (2.0, 1.0, 50.0), (4.0, 1.0, 1_050.0)]), Some(500.0));
    }

    // Defect 29.
    #[test]
    fn the_throughput_of_an_idle_rank_is_not_used() {
        let mut rank = Rank::default();
        let sample = Sample { running: 0.0, tokens_per_s: Some(900.0), ..Sample::polled(s(1)) };
        rank.take(s(1), &sample, sample.check(|_| ()).unwrap());
        assert_eq!(rank.tokens_per_s(), None);
        let sample = Sample { running: 1.0, ..sample };
        rank.take(s(2), &sample, sample.check(|_| ()).unwrap());
        assert_eq!(rank.tokens_per_s(), Some(900.0));
    }
}
