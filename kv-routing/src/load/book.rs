//! One worker's books: its ranks' samples, and what was sent to it.

use std::time::Duration;

use super::pending::Pending;
use super::rank::Rank;
use super::sample::Checked;
use super::{Refusal, Sample, View};
use crate::limits::{CLOCK_JITTER, FRESH_FOR, QUEUED_PROMPT_TOKENS, RANKS_MAX};

/// How long samples count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long a rank's sample counts. More than a poll's interval, or polled ranks are unknown for a part of each.
    pub fresh_for: Duration,
}

/// What became of a worker's samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadCounts {
    /// Samples that were taken over.
    pub accepted: u64,
    /// Refused samples, by the reason's place in [`Refusal::ALL`].
    refused: [u64; Refusal::ALL.len()],
    /// Values left out of samples that were taken over, likewise.
    left_out: [u64; Refusal::ALL.len()],
}

/// See the [module](super).
#[derive(Debug)]
pub(super) struct Book {
    options: Options,
    ranks: Vec<Rank>,
    pending: Pending,
    in_flight: u32,
    /// The latest time that was told.
    latest: Duration,
    counts: LoadCounts,
}

impl Book {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            ranks: Vec::new(),
            pending: Pending::default(),
            in_flight: 0,
            latest: Duration::ZERO,
            counts: LoadCounts::default(),
        }
    }

    pub(super) fn handle_sample(&mut self, now: Duration, rank: u16, sample: &Sample) -> Result<(), Refusal> {
        self.tick(now);
        let taken = self.take(now, rank, sample);
        match taken {
            Ok(()) => self.counts.accepted += 1,
            Err(refusal) => self.counts.refused[refusal as usize] += 1,
        }
        taken
    }

    fn take(&mut self, now: Duration, rank: u16, sample: &Sample) -> Result<(), Refusal> {
        let place = usize::from(rank);
        if place >= RANKS_MAX {
            return Err(Refusal::RankOutOfRange);
        }
        // What is said to have been taken later than now was taken now.
        let at = sample.sampled_at.min(now);
        let left_out = &mut self.counts.left_out;
        let values = sample.check(|refusal| left_out[refusal as usize] += 1)?;
        if self.ranks.len() <= place {
            self.ranks.resize(place + 1, Rank::default());
        }
        self.ranks[place].is_news(now, at, sample)?;
        self.ranks[place].take(at, sample, values);
        self.pending.cover(rank, at);
        Ok(())
    }

    pub(super) fn dispatch(&mut self, now: Duration, rank: u16, tokens: u64) -> u64 {
        self.tick(now);
        self.in_flight += 1;
        self.pending.begin(now, rank, tokens)
    }

    /// The prompt of dispatch `number` is computed, or never will be.
    pub(super) fn prompt_ends(&mut self, number: u64) {
        self.pending.end(number);
    }

    pub(super) fn request_ends(&mut self) {
        self.in_flight -= 1;
    }

    /// The view, what counts when it is not fresh any more, and until when it is.
    pub(super) fn view(&self) -> (View, u64, Duration) {
        let own_tokens = self.pending.tokens();
        let mut view = View { in_flight: self.in_flight, queued_tokens: own_tokens, ..View::default() };
        let oldest = self.fresh().map(|(_, at, _)| at).min();
        if let Some(oldest) = oldest {
            let values = || self.fresh().map(|(.., values)| values);
            view.sampled_at = Some(oldest);
            view.running = values().map(|values| values.running).fold(0, u32::saturating_add);
            view.waiting = values().map(|values| values.waiting).fold(0, u32::saturating_add);
            let queues = self.fresh().map(|(rank, _, values)| self.queued(rank, values));
            view.queued_tokens = queues.fold(self.pending.tokens_since(), u64::saturating_add);
            view.kv_usage = mean(values().filter_map(|values| values.kv_usage));
            let rates = self.fresh().filter_map(|(rank, ..)| self.ranks[usize::from(rank)].tokens_per_s());
            view.rate_tokens_per_s = rates.reduce(|sum, rate| sum + rate);
        }
        (view, own_tokens, oldest.unwrap_or_default().saturating_add(self.options.fresh_for))
    }

    /// The ranks with fresh samples: their number, when the sample was taken, and its values.
    fn fresh(&self) -> impl Iterator<Item = (u16, Duration, &Checked)> {
        (0..).zip(&self.ranks).filter_map(|(number, rank)| {
            let (at, values) = rank.fresh(self.latest, self.options.fresh_for)?;
            Some((number, at, values))
        })
    }

    /// Uncached prompt tokens that wait at a rank. If it tells only how many requests do: the youngest of ours, and for others a
    /// guess.
    fn queued(&self, rank: u16, values: &Checked) -> u64 {
        values.queued_tokens.unwrap_or_else(|| {
            let (tokens, ours) = self.pending.youngest_known(rank, values.waiting);
            tokens.saturating_add(u64::from(values.waiting - ours) * QUEUED_PROMPT_TOKENS)
        })
    }

    /// Whether the worker has to be asked for its load: it has pushed none, or some rank of those that push has fallen silent.
    pub(super) fn wants_poll(&self, now: Duration, interval: Duration) -> bool {
        self.pushes_lapse(interval).is_none_or(|lapse| now > lapse)
    }

    /// When the first of the ranks that push will have been silent for `interval`.
    pub(super) fn pushes_lapse(&self, interval: Duration) -> Option<Duration> {
        self.ranks.iter().filter_map(Rank::pushed_at).min().map(|oldest| oldest.saturating_add(interval))
    }

    pub(super) fn counts(&self) -> LoadCounts {
        self.counts
    }

    /// It is `now`. A clock that went back takes what lies ahead with it; threads that waited for each other are no such clock.
    fn tick(&mut self, now: Duration) {
        if self.latest.saturating_sub(now) > CLOCK_JITTER {
            self.pending.turn_back(now);
            self.latest = now;
        }
        self.latest = self.latest.max(now);
    }
}

impl LoadCounts {
    /// Samples that were refused for this reason.
    pub fn refused(&self, refusal: Refusal) -> u64 {
        self.refused[refusal as usize]
    }

    /// Values that were left out of samples for this reason.
    pub fn left_out(&self, refusal: Refusal) -> u64 {
        self.left_out[refusal as usize]
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { fresh_for: FRESH_FOR }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}
