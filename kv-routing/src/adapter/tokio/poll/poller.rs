//! When an engine is asked, and where its answer goes.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{PollCounts, PollError, PollFailure, PollOptions, PollOutcome};
use crate::adapter::tokio::Pulse;
use crate::load::wire::Loads;
use crate::load::{Ledger, Sample, Source};

/// How an engine is asked for its loads. Every `Fn(Duration) -> impl Future` is such a way.
pub trait LoadSource: Send + Sync {
    /// Asks once. `sent_at` is now, by the caller's clock: what the samples are to say of their time
    /// ([`Sample::polled`]). A future that is dropped, because its time is over or nobody wants to know any more, has to give up.
    ///
    /// # Errors
    /// A [`PollError`], whose kind decides what liveness is told.
    fn poll(&self, sent_at: Duration) -> impl Future<Output = Result<Loads, PollError>> + Send;
}

/// Asks one engine for its loads whenever they are needed:
///
/// | of the engine's ranks | it is asked |
/// |---|---|
/// | none has ever pushed a record | every [`interval`](PollOptions::interval) |
/// | all that push have done so within the interval | not at all |
/// | one of those that push was silent for longer | at once, and every interval until it pushes again |
///
/// What comes of it is told where it belongs:
///
/// | outcome | load | liveness |
/// |---|---|---|
/// | loads | each rank's sample into its [`Ledger`] | contact, and what the load says of movement |
/// | [`Transport`](PollFailure::Transport) | | transport failure |
/// | [`Late`](PollFailure::Late), [`Engine`](PollFailure::Engine) | | |
/// | [`Unsupported`](PollFailure::Unsupported) | | and it is not asked again |
///
/// There is one question at a time, however late its answer is.
#[derive(Debug)]
pub struct LoadPoller<S> {
    source: S,
    workers: Vec<Polled>,
    options: PollOptions,
    counts: PollCounts,
}

/// A worker that a poll tells of.
#[derive(Clone, Debug)]
pub struct Polled {
    /// The one rank that it is; `None` if it is the whole engine.
    pub rank: Option<u16>,
    /// Its life.
    pub pulse: Pulse,
    /// Its load, by the ranks' numbers.
    pub ledger: Ledger,
}

impl<S: LoadSource> LoadPoller<S> {
    /// A poller of an engine that is one worker, whatever its ranks.
    pub fn new(source: S, pulse: Pulse, ledger: Ledger) -> Self {
        Self::by_rank(source, vec![Polled { rank: None, pulse, ledger }])
    }

    /// A poller of an engine whose ranks are workers, each with a life and a ledger. What concerns the connection is told to all of them.
    pub fn by_rank(source: S, workers: Vec<Polled>) -> Self {
        Self { source, workers, options: PollOptions::default(), counts: PollCounts::default() }
    }

    /// The same, at another pace.
    #[must_use]
    pub fn with_options(self, options: PollOptions) -> Self {
        Self { options: options.bounded(), ..self }
    }

    /// What becomes of the polls.
    pub fn counts(&self) -> PollCounts {
        self.counts.clone()
    }

    /// Asks whenever it is needed, and shows every answer to `tell`. Until it is dropped, or the worker says that it has no such call:
    /// who believes that this will change begins anew.
    pub async fn keep_polled(self, mut tell: impl FnMut(&Result<Loads, PollError>)) -> PollError {
        let mut retry = self.options.retry;
        loop {
            self.until_needed().await;
            let asked_at = Instant::now();
            let answer = self.ask().await;
            tell(&answer);
            match answer {
                Ok(_) => {
                    retry = self.options.retry;
                    sleep_until(asked_at + self.options.interval).await;
                }
                Err(error) if error.failure() == PollFailure::Unsupported => return error,
                Err(_) => {
                    sleep(retry).await;
                    retry = self.options.interval.min(retry * 2);
                }
            }
        }
    }

    /// Waits while every rank that pushes is fresh.
    async fn until_needed(&self) {
        while let Some(pause) = self.rest() {
            self.counts.count(PollOutcome::Suppressed);
            sleep(pause).await;
        }
    }

    /// How long no poll can be needed; nothing if one is.
    fn rest(&self) -> Option<Duration> {
        let interval = self.options.interval;
        let rest = |worker: &Polled| {
            let now = worker.pulse.now();
            let lapse = worker.ledger.pushes_lapse(interval).filter(|_| !worker.ledger.wants_poll(now, interval))?;
            // At that moment itself it is still fresh.
            Some(lapse.saturating_sub(now) + Duration::from_millis(1))
        };
        let rests: Option<Vec<Duration>> = self.workers.iter().map(rest).collect();
        rests?.into_iter().min()
    }

    async fn ask(&self) -> Result<Loads, PollError> {
        let sent_at = self.workers.first().map_or(Duration::ZERO, |worker| worker.pulse.now());
        let late = |elapsed| Err(PollError::new(PollFailure::Late, elapsed));
        let answer = timeout(self.options.deadline, self.source.poll(sent_at)).await.unwrap_or_else(late);
        let answer = answer.map(|loads| of_a_poll(loads, sent_at));
        match &answer {
            Ok(loads) => self.answered(loads),
            Err(error) => self.failed(error),
        }
        answer
    }

    fn answered(&self, loads: &Loads) {
        self.counts.count(PollOutcome::Answered);
        let strays = loads.ranks.iter().filter(|(rank, _)| !self.workers.iter().any(|worker| worker.is_told_by(*rank)));
        self.counts.lost(loads.unreadable, strays.count() as u64);
        self.workers.iter().for_each(|worker| worker.told(loads));
    }

    fn failed(&self, error: &PollError) {
        self.counts.count(error.failure().into());
        if error.failure() == PollFailure::Transport {
            self.workers.iter().for_each(|worker| worker.pulse.cut_off());
        }
    }
}

impl Polled {
    fn is_told_by(&self, rank: u16) -> bool {
        self.rank.is_none_or(|own| own == rank)
    }

    fn told(&self, loads: &Loads) {
        let ranks = loads.ranks.iter().filter(|(rank, _)| self.is_told_by(*rank)).copied().collect();
        let own = Loads { ranks, unreadable: 0 };
        for (rank, sample) in &own.ranks {
            // Refused samples are counted in the ledger.
            let _ = self.ledger.handle_sample(self.pulse.now(), *rank, sample);
        }
        // The connection is what answered: a rank of which nothing was told was heard too.
        if own.ranks.is_empty() { self.pulse.heard() } else { self.pulse.reported(&own.report()) }
    }
}

impl<F, A> LoadSource for F
where
    F: Fn(Duration) -> A + Send + Sync,
    A: Future<Output = Result<Loads, PollError>> + Send,
{
    fn poll(&self, sent_at: Duration) -> impl Future<Output = Result<Loads, PollError>> + Send {
        self(sent_at)
    }
}

/// What a poll brings was polled, and not taken later than it was asked for, whatever the source says.
fn of_a_poll(mut loads: Loads, sent_at: Duration) -> Loads {
    for (_, sample) in &mut loads.ranks {
        *sample = Sample { source: Source::Polled, sampled_at: sample.sampled_at.min(sent_at), ..*sample };
    }
    loads
}
