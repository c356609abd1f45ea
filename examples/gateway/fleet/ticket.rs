//! One request's place on an engine, and what became of what was expected there.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue};
use kv_routing::accounting::PrefixKeys;
use kv_routing::audit::Answer;

use super::booking::Booking;
use super::engine::Engine;
use super::rank::Rank;
use crate::gateway::metrics::Metrics;
use crate::gateway::proxy::headers::{
    X_KV_BRANCH, X_KV_CAVEAT, X_KV_DECISION, X_KV_EXPECTED_TOKENS, X_KV_PREDICTED_TOKENS, X_KV_RANK, X_KV_UNPREDICTED,
    X_KV_WORKER,
};
use crate::gateway::proxy::{Failure, Usage};
use crate::gateway::request::Untokenized;

/// What is expected of a request's prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forecast {
    /// Of `prompt_tokens`, the engine should find `cached_tokens` in its cache, but for what the caveat says.
    Known {
        prompt_tokens: u64,
        cached_tokens: u64,
        /// What it may find beyond that: siblings that were sent there a moment ago.
        booked_tokens: u64,
        /// What the decision counted on beyond `cached_tokens`, for siblings or because the rank reuses more than it announces.
        expected_tokens: u64,
        caveat: Option<&'static str>,
    },
    /// The prompt's tokens are not known.
    Unknown(Untokenized),
}

/// Where a request goes, and why.
pub(crate) struct Placement {
    pub(crate) engine: Arc<Engine>,
    /// The rank's place in the engine.
    pub(crate) rank: usize,
    pub(crate) is_streamed: bool,
    /// How long the answer may be.
    pub(crate) answer_tokens: u64,
    pub(crate) forecast: Forecast,
    /// The prefixes that the request will leave behind.
    pub(crate) keys: PrefixKeys,
    /// Which rule decided.
    pub(crate) branch: &'static str,
    /// The decision's record, where the client asked for it.
    pub(crate) decision: Option<HeaderValue>,
}

/// A booked request. What it is booked for lies in its [`Booking`], which goes with it to the engine.
pub(crate) struct Ticket {
    placement: Placement,
    metrics: Arc<Metrics>,
    /// The life of the rank's index by which the forecast was made.
    era: u64,
}

impl Ticket {
    /// Books a request.
    pub(crate) fn book(placement: Placement, metrics: Arc<Metrics>) -> (Self, Booking) {
        let rank = &placement.engine.ranks()[placement.rank];
        rank.tally.requests.add(1);
        let era = rank.books.era();
        let Placement { forecast, answer_tokens, is_streamed, keys, .. } = &placement;
        let booked = rank.books.book(forecast.prefill_tokens(), *answer_tokens, *is_streamed, keys);
        let booking = Booking::new(booked, rank.pulse.clone());
        (Self { placement, metrics, era }, booking)
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.placement.engine
    }

    /// The rank for the engine's header, where the engine has several.
    pub(crate) fn sent_rank(&self) -> Option<u32> {
        (self.engine().ranks().len() > 1).then(|| self.rank().number)
    }

    /// Says in `headers` where the answer comes from and what was expected.
    pub(crate) fn describe(&self, headers: &mut HeaderMap) {
        let name = HeaderValue::from_str(self.engine().name());
        headers.insert(X_KV_WORKER, name.expect("names of engines are visible ASCII"));
        headers.insert(X_KV_RANK, self.rank().number.into());
        headers.insert(X_KV_BRANCH, HeaderValue::from_static(self.placement.branch));
        headers.insert(X_KV_PREDICTED_TOKENS, self.placement.forecast.cached_tokens().into());
        match self.placement.forecast {
            Forecast::Known { expected_tokens, caveat, .. } => {
                if expected_tokens > 0 {
                    headers.insert(X_KV_EXPECTED_TOKENS, expected_tokens.into());
                }
                caveat.map(|caveat| headers.insert(X_KV_CAVEAT, HeaderValue::from_static(caveat)))
            }
            Forecast::Unknown(reason) => Some(headers.insert(X_KV_UNPREDICTED, HeaderValue::from_static(reason.as_str()))),
        };
        if let Some(decision) = &self.placement.decision {
            headers.insert(X_KV_DECISION, decision.clone());
        }
    }

    /// The answer is whole, and told its usage. Returns its cached tokens, where they are known.
    pub(crate) fn answered(&self, usage: Usage) -> Option<u64> {
        let cached_tokens = self.cached_tokens(usage)?;
        if let Forecast::Known { prompt_tokens, cached_tokens: predicted, caveat, .. } = self.placement.forecast {
            let (engine, rank) = (self.engine().name(), self.rank());
            rank.tally.compare(prompt_tokens, predicted, cached_tokens);
            self.metrics.difference(engine, rank.number, predicted, cached_tokens);
            if predicted != cached_tokens {
                let rank = rank.number;
                tracing::debug!(engine, rank, prompt_tokens, predicted, cached_tokens, caveat, "the prediction differs");
            }
            self.audit(cached_tokens);
        }
        Some(cached_tokens)
    }

    /// Holds the answer against what the index said, unless the index was begun anew in between.
    fn audit(&self, cached_tokens: u64) {
        let (rank, forecast) = (self.rank(), self.placement.forecast);
        let Forecast::Known { prompt_tokens, cached_tokens: indexed_tokens, booked_tokens, .. } = forecast else { return };
        if self.placement.engine.spec().events.is_none() || rank.books.era() != self.era {
            return;
        }
        // A prediction compares first blocks only, and names one of several siblings, so all that is reused beyond the index may be theirs.
        let booked_tokens = if booked_tokens > 0 { prompt_tokens.saturating_sub(indexed_tokens) } else { 0 };
        let answer = Answer { prompt_tokens, indexed_tokens, booked_tokens, cached_tokens };
        let anew = rank.books.auditor().weigh(rank.books.now(), rank.worker, answer);
        // Whoever else is due is asked again with the next round.
        if anew.contains(&rank.worker) {
            rank.want_anew();
        }
    }

    /// The answer did not come, or broke off, by the engine's doing: its health is asked for.
    pub(crate) fn failed(&self, reason: String) -> Failure {
        self.rank().tally.failures.add(1);
        self.engine().doubt(reason.clone());
        Failure::Engine { engine: self.engine().name().to_owned(), reason }
    }

    /// Engines that tell their cached tokens leave a zero out; those that do not leave all out.
    fn cached_tokens(&self, usage: Usage) -> Option<u64> {
        match usage.cached_tokens {
            Some(cached) => {
                self.engine().has_told_cached();
                Some(cached)
            }
            None => self.engine().tells_cached().then_some(0),
        }
    }

    fn rank(&self) -> &Rank {
        &self.placement.engine.ranks()[self.placement.rank]
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
            Self::Known { prompt_tokens, cached_tokens, expected_tokens, .. } => {
                prompt_tokens.saturating_sub(cached_tokens).saturating_sub(expected_tokens)
            }
            Self::Unknown(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use kv_index::ContentHash;
    use kv_routing::accounting::Outcome;
    use kv_routing::adapter::tower::{Failure as End, Guard};
    use kv_routing::audit::State;

    use super::*;

    fn placement(engine: &Arc<Engine>, forecast: Forecast) -> Placement {
        let keys = PrefixKeys::of(&[ContentHash(1), ContentHash(2)]);
        Placement {
            engine: engine.clone(),
            rank: 0,
            is_streamed: true,
            answer_tokens: 5,
            forecast,
            keys,
            branch: "hit",
            decision: None,
        }
    }

    fn ticket(forecast: Forecast) -> (Arc<Engine>, Ticket, Booking) {
        let engine = Arc::new(Engine::alone());
        let (ticket, booking) = Ticket::book(placement(&engine, forecast), Arc::default());
        (engine, ticket, booking)
    }

    fn known(cached_tokens: u64) -> Forecast {
        Forecast::Known { prompt_tokens: 64, cached_tokens, booked_tokens: 0, expected_tokens: 0, caveat: None }
    }

    fn usage(cached_tokens: Option<u64>) -> Usage {
        Usage { prompt_tokens: 64, cached_tokens }
    }

    // D18.
    #[test]
    fn what_is_booked_is_released_on_every_path() {
        let (engine, _, mut booked) = ticket(known(48));
        let books = &engine.ranks()[0].books;
        let load = || (books.view().in_flight, books.view().queued_tokens, books.load(&books.view()).kept_tokens);
        assert_eq!(load(), (1, 16, 21));
        booked.progress();
        assert_eq!(load(), (1, 0, 21));
        drop(booked);
        assert_eq!(load(), (0, 0, 0));
        let ends: [fn(Booking); 4] = [
            |booking| drop(booking),
            |booking| booking.fail(End::Transport),
            |booking| booking.fail(End::Answer),
            |booking| booking.complete(),
        ];
        for end in ends {
            let (_ticket, booking) = Ticket::book(placement(&engine, known(48)), Arc::default());
            assert_eq!(load(), (1, 16, 21));
            end(booking);
            assert_eq!(load(), (0, 0, 0), "though its ticket is kept");
        }
        let outcomes = Outcome::ALL.map(|outcome| books.outcomes().of(outcome));
        assert_eq!((outcomes, engine.ranks()[0].tally.requests.value()), ([1, 2, 2], 5));
    }

    #[test]
    fn what_is_expected_beyond_the_index_is_said_and_need_not_be_computed() {
        let expected =
            Forecast::Known { prompt_tokens: 64, cached_tokens: 16, booked_tokens: 32, expected_tokens: 32, caveat: None };
        let (engine, ticket, _booking) = ticket(expected);
        assert_eq!(engine.ranks()[0].books.view().queued_tokens, 16);
        let mut headers = HeaderMap::new();
        ticket.describe(&mut headers);
        assert_eq!(
            (&headers[X_KV_PREDICTED_TOKENS], &headers[X_KV_EXPECTED_TOKENS], &headers[X_KV_BRANCH]),
            (&"16".parse().unwrap(), &"32".parse().unwrap(), &"hit".parse().unwrap())
        );
    }

    #[test]
    fn a_prediction_goes_with_a_request_that_came_to_nothing() {
        let (engine, _, booking) = ticket(known(0));
        let predictions = engine.ranks()[0].books.predictions().unwrap().clone();
        assert_eq!(predictions.len(), 2);
        drop(booking);
        assert!(predictions.is_empty());
        Ticket::book(placement(&engine, known(0)), Arc::default()).1.fail(End::Answer);
        assert!(predictions.is_empty(), "an error computes nothing");
        Ticket::book(placement(&engine, known(0)), Arc::default()).1.complete();
        assert_eq!(predictions.len(), 2, "its events are on their way");
    }

    #[test]
    fn answers_are_audited_by_the_index_that_they_were_predicted_by() {
        let engine = Arc::new(Engine::of("http://h:1,events=tcp://h:2"));
        let rank = &engine.ranks()[0];
        let answer = |predicted, cached| {
            Ticket::book(placement(&engine, known(predicted)), Arc::default()).0.answered(usage(Some(cached)));
        };
        let (of_old, _booking) = Ticket::book(placement(&engine, known(48)), Arc::default());
        (0..3).for_each(|_| answer(48, 0));
        assert_eq!(rank.books.drift(), State::HoldsLess);
        assert!(rank.books.take_wish(), "it is to be learned anew");
        rank.books.begins_era(1);
        assert_eq!(rank.books.drift(), State::Sound);
        let before = rank.books.auditor().counts().answers;
        of_old.answered(usage(Some(0)));
        assert_eq!(rank.books.auditor().counts().answers, before);
        (0..3).for_each(|_| answer(0, 48));
        assert_eq!((rank.books.drift(), rank.books.credit_tokens(64, 0)), (State::HoldsMore, 48));
    }

    #[test]
    fn what_siblings_leave_behind_is_no_drift() {
        let engine = Arc::new(Engine::of("http://h:1,events=tcp://h:2"));
        let sibling =
            Forecast::Known { prompt_tokens: 64, cached_tokens: 0, booked_tokens: 16, expected_tokens: 16, caveat: None };
        for _ in 0..8 {
            Ticket::book(placement(&engine, sibling), Arc::default()).0.answered(usage(Some(48)));
        }
        let books = &engine.ranks()[0].books;
        assert_eq!((books.drift(), books.auditor().counts().agreed), (State::Sound, 8));
    }

    #[test]
    fn an_engine_that_once_told_leaves_zeros_out() {
        let (engine, ticket, _booking) = ticket(known(48));
        assert_eq!(ticket.answered(usage(None)), None, "it may not tell at all");
        assert_eq!(ticket.answered(usage(Some(48))), Some(48));
        assert_eq!(ticket.answered(usage(None)), Some(0));
        let tally = &engine.ranks()[0].tally;
        assert_eq!((tally.compared.value(), tally.equal.value()), (2, 1));
        assert_eq!((tally.predicted_tokens.value(), tally.cached_tokens.value()), (96, 48));
    }

    #[test]
    fn what_was_not_predicted_is_not_compared() {
        let (engine, ticket, _booking) = ticket(Forecast::Unknown(Untokenized::NoTokenizer));
        assert_eq!(ticket.answered(usage(Some(48))), Some(48));
        assert_eq!(engine.ranks()[0].tally.compared.value(), 0);
        let mut headers = HeaderMap::new();
        ticket.describe(&mut headers);
        assert_eq!((&headers[X_KV_WORKER], &headers[X_KV_PREDICTED_TOKENS]), (&"h:1".parse().unwrap(), &"0".parse().unwrap()));
        assert_eq!(headers[X_KV_UNPREDICTED], "no_tokenizer");
        assert_eq!(ticket.sent_rank(), None);
    }
}
