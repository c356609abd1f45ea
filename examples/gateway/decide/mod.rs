//! Which rank of which engine serves a request.
//!
//! `gather` says what each rank would reuse and how busy it is, `steer` whether the request has a place already (its session's, or a
//! rank's that is to be warmed), kv-routing's router decides, `explain` says why, and `score` adds up how well it went.

mod explain;
mod gather;
mod score;
mod steer;
mod warmth;

use std::sync::Arc;
use std::time::Duration;

use kv_events::Caveat;
use kv_routing::overload::{Attempts, Sheds};
use kv_routing::select::Scratch;
use kv_routing::{Branch, Candidate, Choice, Decision, NoCandidate, Record, Request, Router};

use self::explain::explanation;
use self::gather::{Gathered, namespace};
pub(crate) use self::score::Scores;
use self::steer::Steered;
pub(crate) use self::steer::Steering;
pub(crate) use self::warmth::keep;
use super::app::App;
use super::fleet::{Booking, Forecast, Placement, Server, Ticket, Trust};
use super::index::FleetIndex;
use super::request::{Inbound, Untokenized};
use super::settings::Settings;

/// A request that is to be placed.
pub(crate) struct Question<'a> {
    pub(crate) inbound: &'a Inbound,
    pub(crate) tokens: Result<&'a [u32], Untokenized>,
    /// The session that it names, where sessions stay with their ranks.
    pub(crate) session: Option<u64>,
    /// The client wants the decision's record.
    pub(crate) explain: bool,
}

/// How requests are placed, and what is remembered from one to the next.
#[derive(Debug)]
pub(crate) struct Decider {
    router: Router,
    pub(crate) steering: Steering,
    pub(crate) scores: Scores,
    pub(crate) sheds: Sheds,
    /// What a client is told to wait whose request was refused for want of room.
    pub(crate) retry_after: Duration,
}

/// A rank that may serve the request: the server, and the rank's place in its engine.
type Seat<'a> = (&'a Server, usize);

impl Decider {
    pub(crate) fn new(settings: &Settings) -> Self {
        let router = settings.decision.router(settings.policy.into());
        Self {
            router,
            steering: Steering::new(&settings.decision, router.policy.looks_at_overlap()),
            scores: Scores::default(),
            sheds: Sheds::default(),
            retry_after: settings.decision.retry_after(),
        }
    }

    /// Chooses, and keeps a record of it only for somebody who wants it: it has all candidates.
    fn choose(
        &self,
        request: Request,
        candidates: &[Candidate],
        seed: u64,
        wants_record: bool,
    ) -> Result<(Choice, Option<Record>), NoCandidate> {
        if wants_record {
            let Decision { choice, record } = self.router.decide(request, candidates, seed)?;
            return Ok((choice, Some(record)));
        }
        Ok((self.router.choose(request, candidates, seed, &mut Scratch::new())?, None))
    }
}

impl App {
    /// Chooses among the ranks of `servers`, which are not empty, and books the request there. `attempts` is one for all tries of a
    /// request.
    ///
    /// # Errors
    /// [`NoCandidate`] when it is refused: no rank has room for it.
    pub(crate) fn decide(
        &self,
        question: &Question<'_>,
        servers: &[Server],
        attempts: &mut Attempts,
    ) -> Result<(Ticket, Booking), NoCandidate> {
        let seats: Vec<Seat<'_>> =
            servers.iter().flat_map(|server| (0..server.engine.ranks().len()).map(move |rank| (server, rank))).collect();
        let (decider, seed, now) = (&self.decider, self.next_seed(), self.fleet.life().clock().now());
        let predictions = self.fleet.common().predictions.as_ref();
        let mut gathered = match &self.index {
            FleetIndex::Chain(laned) => gather::gather(&laned.index, now, predictions, question, &seats),
            FleetIndex::Reference(laned) => gather::gather(&laned.index, now, predictions, question, &seats),
        };
        let steered = decider.steering.steer(now, question.session, &gathered, seed);
        let request = Request { prompt_tokens: gathered.prompt_tokens, home: steered.map(Steered::worker) };
        let wants_record = question.explain || self.settings.log_decisions;
        let (choice, record) = attempts.decide(|| decider.choose(request, &gathered.candidates, seed, wants_record))?;
        let branch = branch(&choice, steered);
        decider.scores.count(request, &choice, branch);
        decider.steering.note(now, question.session, choice.worker);
        let (server, rank) = seats[choice.index];
        if let Some(record) = record.as_ref().filter(|_| self.settings.log_decisions) {
            log(server, rank, branch, record);
        }
        let has_salt = question.inbound.salt.as_ref().is_some_and(|salt| !salt.is_empty());
        server.engine.ranks()[rank].tally.salted.add(has_salt.into());
        let placement = Placement {
            engine: server.engine.clone(),
            rank,
            is_streamed: question.inbound.stream,
            answer_tokens: question.inbound.answer_tokens,
            forecast: forecast(question, &gathered, &choice, server, rank),
            keys: gathered.take_keys(choice.index),
            branch,
            decision: record.filter(|_| question.explain).and_then(|record| explanation(server, branch, record)),
        };
        Ok(Ticket::book(placement, Arc::clone(&self.metrics)))
    }
}

/// What is expected of the prompt where it goes.
fn forecast(question: &Question<'_>, gathered: &Gathered, choice: &Choice, server: &Server, rank: usize) -> Forecast {
    if let Err(reason) = question.tokens {
        return Forecast::Unknown(reason);
    }
    let overlap = gathered.candidates[choice.index].overlap;
    Forecast::Known {
        prompt_tokens: gathered.prompt_tokens,
        cached_tokens: overlap.announced_tokens(),
        booked_tokens: gathered.booked_tokens(choice.index),
        expected_tokens: overlap.predicted_tokens,
        caveat: caveat(question.inbound, server, rank).or_else(|| (overlap.predicted_tokens > 0).then_some(EXPECTED)),
    }
}

/// Why the engine may report something else than predicted: its wire does not tell all, or not all of it came.
fn caveat(inbound: &Inbound, server: &Server, rank: usize) -> Option<&'static str> {
    let stream = server.engine.ranks()[rank].stream();
    let of_wire = stream.profile.caveat_for(namespace(inbound, server.is_adapter)).map(Caveat::as_str);
    of_wire.or_else(|| Some(stream.trust()).filter(|trust| *trust != Trust::Exact).map(Trust::as_str))
}

/// More than was announced is expected, so the engine may reuse more than is predicted.
const EXPECTED: &str = "more is expected than was announced";

/// The rule that decided, in the words of metrics, logs and headers.
fn branch(choice: &Choice, steered: Option<Steered>) -> &'static str {
    match (choice.branch, steered) {
        (Branch::Home, Some(steered)) => steered.as_str(),
        (branch, _) => score::word(branch),
    }
}

/// One line for a decision, whose record can be decided again.
fn log(server: &Server, rank: usize, branch: &'static str, record: &Record) {
    let (engine, rank, choice) = (server.engine.name(), server.engine.ranks()[rank].number, &record.choice);
    let (prompt_tokens, overlap_tokens, best) =
        (record.ask.request.prompt_tokens, choice.overlap_tokens, choice.best_overlap_tokens);
    let (regret_s, candidates) = (choice.regret_s, record.scored.len());
    let record = serde_json::to_string(record).unwrap_or_default();
    tracing::info!(engine, rank, branch, prompt_tokens, overlap_tokens, best, regret_s, candidates, %record, "decided");
}
