//! One request's place on an engine, from the decision to the end of its answer.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue};
use kv_routing::adapter::tokio::Progress;
use kv_routing::liveness::Task;

use super::engine::Engine;
use super::rank::Rank;
use crate::gateway::metrics::Metrics;
use crate::gateway::proxy::headers::{
    X_KV_CAVEAT, X_KV_DECISION, X_KV_PREDICTED_TOKENS, X_KV_RANK, X_KV_UNPREDICTED, X_KV_WORKER,
};
use crate::gateway::proxy::{Failure, Usage};
use crate::gateway::request::Untokenized;

/// What is expected of a request's prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forecast {
    /// Of `prompt_tokens`, the engine should find `cached_tokens` in its cache, but for what the caveat says.
    Known { prompt_tokens: u64, cached_tokens: u64, caveat: Option<&'static str> },
    /// The prompt's tokens are not known.
    Unknown(Untokenized),
}

/// A booked request. Dropping it, on whatever path, releases what was booked.
pub(crate) struct Ticket {
    engine: Arc<Engine>,
    /// The rank's place in the engine.
    rank: usize,
    forecast: Forecast,
    /// The decision's record, where the client asked for it.
    decision: Option<HeaderValue>,
    metrics: Arc<Metrics>,
    /// Prefill tokens that are still booked.
    prefill_tokens: u64,
    /// What the rank's life is judged by.
    progress: Progress,
}

impl Ticket {
    /// Books a request on `engine`'s rank at the place `rank`, whose answer is streamed or comes whole.
    pub(crate) fn book(
        engine: Arc<Engine>,
        rank: usize,
        is_streamed: bool,
        forecast: Forecast,
        decision: Option<HeaderValue>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let tally = &engine.ranks()[rank].tally;
        let prefill_tokens = forecast.prefill_tokens();
        tally.requests.add(1);
        tally.in_flight.add(1);
        tally.prefill_tokens.add(prefill_tokens);
        let task = if is_streamed { Task::streamed(prefill_tokens) } else { Task::whole(prefill_tokens) };
        let progress = engine.ranks()[rank].pulse.begin(task);
        Self { engine, rank, forecast, decision, metrics, prefill_tokens, progress }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The rank for the engine's header, where the engine has several.
    pub(crate) fn sent_rank(&self) -> Option<u32> {
        (self.engine.ranks().len() > 1).then(|| self.rank().number)
    }

    /// Says in `headers` where the answer comes from and what was expected.
    pub(crate) fn describe(&self, headers: &mut HeaderMap) {
        let name = HeaderValue::from_str(self.engine.name());
        headers.insert(X_KV_WORKER, name.expect("names of engines are visible ASCII"));
        headers.insert(X_KV_RANK, self.rank().number.into());
        headers.insert(X_KV_PREDICTED_TOKENS, self.forecast.cached_tokens().into());
        match self.forecast {
            Forecast::Known { caveat: None, .. } => None,
            Forecast::Known { caveat: Some(caveat), .. } => headers.insert(X_KV_CAVEAT, HeaderValue::from_static(caveat)),
            Forecast::Unknown(reason) => headers.insert(X_KV_UNPREDICTED, HeaderValue::from_static(reason.as_str())),
        };
        if let Some(decision) = &self.decision {
            headers.insert(X_KV_DECISION, decision.clone());
        }
    }

    /// A part of the answer has come, so the prefill is over.
    pub(crate) fn moved(&mut self) {
        self.progress.moved();
        self.release_prefill();
    }

    fn release_prefill(&mut self) {
        let booked = std::mem::take(&mut self.prefill_tokens);
        self.rank().tally.prefill_tokens.subtract(booked);
    }

    /// The answer is whole. Returns its cached tokens, where they are known.
    pub(crate) fn answered(&mut self, usage: Option<Usage>) -> Option<u64> {
        self.moved();
        let cached_tokens = self.cached_tokens(usage?)?;
        if let Forecast::Known { prompt_tokens, cached_tokens: predicted, caveat } = self.forecast {
            let tally = &self.rank().tally;
            tally.compare(prompt_tokens, predicted, cached_tokens);
            self.metrics.difference(self.engine.name(), self.rank().number, predicted, cached_tokens);
            if predicted != cached_tokens {
                let (engine, rank) = (self.engine.name(), self.rank().number);
                tracing::debug!(engine, rank, prompt_tokens, predicted, cached_tokens, caveat, "the prediction differs");
            }
        }
        Some(cached_tokens)
    }

    /// The connection to the engine was refused or reset.
    pub(crate) fn cut_off(&self, reason: String) -> Failure {
        self.rank().pulse.cut_off();
        self.failed(reason)
    }

    /// The answer did not come, or broke off, by the engine's doing.
    pub(crate) fn failed(&self, reason: String) -> Failure {
        self.rank().tally.failures.add(1);
        self.engine.doubt(reason.clone());
        Failure::Engine { engine: self.engine.name().to_owned(), reason }
    }

    /// Engines that tell their cached tokens leave a zero out; those that do not leave all out.
    fn cached_tokens(&self, usage: Usage) -> Option<u64> {
        match usage.cached_tokens {
            Some(cached) => {
                self.engine.has_told_cached();
                Some(cached)
            }
            None => self.engine.tells_cached().then_some(0),
        }
    }

    fn rank(&self) -> &Rank {
        &self.engine.ranks()[self.rank]
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.release_prefill();
        self.rank().tally.in_flight.subtract(1);
    }
}

impl Forecast {
    /// Tokens that the engine should find; none where nothing is known.
    pub(crate) const fn cached_tokens(self) -> u64 {
        match self {
            Self::Known { cached_tokens, .. } => cached_tokens,
            Self::Unknown(_) => 0,
        }
    }

    /// Tokens that the engine must compute before its first byte, as far as is known.
    const fn prefill_tokens(self) -> u64 {
        match self {
            Self::Known { prompt_tokens, cached_tokens, .. } => prompt_tokens.saturating_sub(cached_tokens),
            Self::Unknown(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(forecast: Forecast) -> (Arc<Engine>, Ticket) {
        let engine = Arc::new(Engine::alone());
        let ticket = Ticket::book(engine.clone(), 0, true, forecast, None, Arc::default());
        (engine, ticket)
    }

    const FORECAST: Forecast = Forecast::Known { prompt_tokens: 64, cached_tokens: 48, caveat: None };

    // D18.
    #[test]
    fn what_is_booked_is_released_on_every_path() {
        let (engine, mut booked) = ticket(FORECAST);
        let tally = &engine.ranks()[0].tally;
        let load = || (tally.in_flight.value(), tally.prefill_tokens.value());
        assert_eq!(load(), (1, 16));
        booked.moved();
        assert_eq!(load(), (1, 0));
        drop(booked);
        assert_eq!(load(), (0, 0));
        let unanswered = Ticket::book(engine.clone(), 0, false, FORECAST, None, Arc::default());
        assert_eq!(load(), (1, 16));
        drop(unanswered);
        assert_eq!((load(), tally.requests.value()), ((0, 0), 2));
    }

    #[test]
    fn an_engine_that_once_told_leaves_zeros_out() {
        let (engine, mut ticket) = ticket(FORECAST);
        let usage = |cached_tokens| Some(Usage { prompt_tokens: 64, cached_tokens });
        assert_eq!(ticket.answered(usage(None)), None, "it may not tell at all");
        assert_eq!(ticket.answered(usage(Some(48))), Some(48));
        assert_eq!(ticket.answered(usage(None)), Some(0));
        assert_eq!(ticket.answered(None), None, "an answer without usage tells nothing");
        let tally = &engine.ranks()[0].tally;
        assert_eq!((tally.compared.value(), tally.equal.value()), (2, 1));
        assert_eq!((tally.predicted_tokens.value(), tally.cached_tokens.value()), (96, 48));
    }

    #[test]
    fn what_was_not_predicted_is_not_compared() {
        let (engine, mut ticket) = ticket(Forecast::Unknown(Untokenized::NoTokenizer));
        assert_eq!(ticket.answered(Some(Usage { prompt_tokens: 64, cached_tokens: Some(48) })), Some(48));
        assert_eq!(engine.ranks()[0].tally.compared.value(), 0);
        let mut headers = HeaderMap::new();
        ticket.describe(&mut headers);
        assert_eq!((&headers[X_KV_WORKER], &headers[X_KV_PREDICTED_TOKENS]), (&"h:1".parse().unwrap(), &"0".parse().unwrap()));
        assert_eq!(headers[X_KV_UNPREDICTED], "no_tokenizer");
        assert_eq!(ticket.sent_rank(), None);
    }
}
