//! Which rank of which engine serves a request.

use std::sync::Arc;

use axum::http::HeaderValue;
use kv_events::{Caveat, Prediction, Predictor};
use kv_index::{ContentHash, Index, Namespace, Scheme};
use kv_routing::{Candidate, Decision, Load, Overlap, Record, Request};
use serde::Serialize;

use super::app::App;
use super::fleet::{Forecast, Rank, Server, Ticket, Trust};
use super::index::FleetIndex;
use super::limits::DECISION_HEADER_BYTES_MAX;
use super::request::{Inbound, Untokenized};

/// A request that is to be placed.
pub(crate) struct Question<'a> {
    pub(crate) inbound: &'a Inbound,
    pub(crate) tokens: Result<&'a [u32], Untokenized>,
    /// The client wants the decision's record.
    pub(crate) explain: bool,
}

impl App {
    /// Chooses among the ranks of `servers`, which are not empty, and books the request there.
    pub(crate) fn decide(&self, question: &Question<'_>, servers: &[Server]) -> Ticket {
        let ranks: Vec<(&Server, usize)> =
            servers.iter().flat_map(|server| (0..server.engine.ranks().len()).map(move |rank| (server, rank))).collect();
        let candidates = match &self.index {
            FleetIndex::Chain(laned) => candidates(&laned.index, question, &ranks),
            FleetIndex::Reference(laned) => candidates(&laned.index, question, &ranks),
        };
        let prompt_tokens = question.tokens.map_or(0, <[u32]>::len) as u64;
        let request = Request { prompt_tokens, home: None };
        let decision = self.router.decide(request, &candidates, self.next_seed()).expect("servers are not empty, and ready");
        let (server, rank) = ranks[decision.choice.index];
        let cached_tokens = decision.choice.overlap_tokens;
        let forecast = match question.tokens {
            Ok(_) => Forecast::Known { prompt_tokens, cached_tokens, caveat: caveat(question.inbound, server, rank) },
            Err(reason) => Forecast::Unknown(reason),
        };
        if self.settings.log_decisions {
            let (engine, rank) = (server.engine.name(), server.engine.ranks()[rank].number);
            let best = decision.choice.best_overlap_tokens;
            tracing::info!(engine, rank, prompt_tokens, cached_tokens, best, candidates = candidates.len(), "decided");
        }
        let has_salt = question.inbound.salt.as_ref().is_some_and(|salt| !salt.is_empty());
        server.engine.ranks()[rank].tally.salted.add(has_salt.into());
        let explanation = question.explain.then(|| explanation(server, decision)).flatten();
        let is_streamed = question.inbound.stream;
        Ticket::book(server.engine.clone(), rank, is_streamed, forecast, explanation, Arc::clone(&self.metrics))
    }
}

/// What each of `ranks` would have to do for the request.
fn candidates<I: Index>(index: &I, question: &Question<'_>, ranks: &[(&Server, usize)]) -> Vec<Candidate> {
    let mut lookup = Lookup::new(index, question);
    ranks.iter().map(|&(server, rank)| candidate(&mut lookup, server, &server.engine.ranks()[rank])).collect()
}

fn candidate<I: Index>(lookup: &mut Lookup<'_, I>, server: &Server, rank: &Rank) -> Candidate {
    let (stream, tally) = (rank.stream(), &rank.tally);
    let in_flight = u32::try_from(tally.in_flight.value()).unwrap_or(u32::MAX);
    Candidate {
        worker: rank.worker,
        overlap: Overlap::device(lookup.predict(server, rank).tokens as u64),
        // A stream that lacks blocks is degraded too, and what it has of them is true.
        degraded: stream.may_overstate(),
        vetoed: rank.pulse.veto().is_some(),
        load: Load { in_flight, queued_tokens: tally.prefill_tokens.value(), ..Load::default() },
        ..Candidate::default()
    }
}

/// Why the engine may report something else than predicted: its wire does not tell all, or not all of it came.
fn caveat(inbound: &Inbound, server: &Server, rank: usize) -> Option<&'static str> {
    let stream = server.engine.ranks()[rank].stream();
    let of_wire = stream.profile.caveat_for(namespace(inbound, server.is_adapter)).map(Caveat::as_str);
    of_wire.or_else(|| Some(stream.trust()).filter(|trust| *trust != Trust::Exact).map(Trust::as_str))
}

/// What makes equal tokens other content for this request. An adapter enters by the name it is served under.
fn namespace(inbound: &Inbound, is_adapter: bool) -> Namespace<'_> {
    Namespace { lora: is_adapter.then_some(inbound.model.as_str()), salt: inbound.salt.as_deref() }
}

/// One prompt's lookups. Its blocks are hashed once for each way in which the candidates cut and tell them apart, which
/// is one in most fleets.
struct Lookup<'a, I> {
    index: &'a I,
    predictor: Predictor,
    tokens: &'a [u32],
    inbound: &'a Inbound,
    hashed: Vec<(Key, Vec<ContentHash>)>,
}

#[derive(Clone, Copy, PartialEq)]
struct Key {
    scheme: Scheme,
    is_adapter: bool,
}

impl<'a, I: Index> Lookup<'a, I> {
    fn new(index: &'a I, question: &Question<'a>) -> Self {
        let tokens = question.tokens.unwrap_or_default();
        Self { index, predictor: Predictor::new(), tokens, inbound: question.inbound, hashed: Vec::new() }
    }

    /// What `rank` will reuse of the prompt.
    fn predict(&mut self, server: &Server, rank: &Rank) -> Prediction {
        let stream = rank.stream();
        let (Some(worker), Some(scheme)) = (stream.worker, stream.profile.scheme) else { return Prediction::default() };
        let place = self.hashed_by(Key { scheme, is_adapter: server.is_adapter });
        let hashes = &self.hashed[place].1;
        self.predictor.predict(self.index, worker, &stream.profile, hashes, self.tokens.len())
    }

    /// The place of the prompt's hashes under `key`.
    fn hashed_by(&mut self, key: Key) -> usize {
        if let Some(place) = self.hashed.iter().position(|(known, _)| *known == key) {
            return place;
        }
        let mut hashes = Vec::new();
        key.scheme.hash_prompt(namespace(self.inbound, key.is_adapter), self.tokens, &mut hashes);
        self.hashed.push((key, hashes));
        self.hashed.len() - 1
    }
}

/// The record of a decision as a client reads it.
#[derive(Serialize)]
struct Explanation<'a> {
    /// The chosen engine.
    engine: &'a str,
    /// Candidates that did not fit into the header: the most expensive ones. With some of them missing, the record
    /// cannot be decided again.
    omitted: usize,
    record: Record,
}

/// The record of `decision` in at most [`DECISION_HEADER_BYTES_MAX`] bytes; nothing if even the chosen candidate does not fit.
fn explanation(server: &Server, decision: Decision) -> Option<HeaderValue> {
    let mut told = Explanation { engine: server.engine.name(), omitted: 0, record: decision.record };
    let chosen = told.record.choice.worker;
    let cost = |worker: u32, total_s: f64| (worker != chosen, total_s);
    loop {
        let text = serde_json::to_string(&told).ok()?;
        if text.len() <= DECISION_HEADER_BYTES_MAX {
            return HeaderValue::from_str(&text).ok();
        }
        if told.omitted == 0 {
            let order = |scored: &kv_routing::Scored| cost(scored.candidate.worker, scored.costs.total_s());
            told.record.scored.sort_by(|left, right| order(left).partial_cmp(&order(right)).unwrap_or(std::cmp::Ordering::Equal));
        }
        told.record.scored.pop()?;
        told.omitted += 1;
    }
}
