//! What decisions are made from, and how they went, in Prometheus' words.

use kv_routing::accounting::{Outcome, Predictions};
use kv_routing::audit::State;
use kv_routing::load::Refusal;
use metrics::{Label, counter, describe_counter, describe_gauge, gauge};

use super::{as_float, with};
use crate::gateway::app::App;
use crate::gateway::fleet::{Engine, Rank};

/// How decisions went.
pub(super) fn show_decisions(app: &App) {
    let scored = app.decider.scores.get();
    for (branch, count) in scored.branches {
        counter!("kv_decisions_total", "branch" => branch).absolute(count);
    }
    let tally = scored.tally;
    counter!("kv_decided_prompt_tokens_total").absolute(tally.prompt_tokens);
    counter!("kv_decided_overlap_tokens_total").absolute(tally.overlap_tokens);
    counter!("kv_best_overlap_tokens_total").absolute(tally.best_overlap_tokens);
    counter!("kv_best_reached_total").absolute(tally.best_reached);
    gauge!("kv_regret_seconds").set(tally.regret_s);
    gauge!("kv_overlap_reach").set(tally.reach());
    counter!("kv_sheds_total").absolute(app.decider.sheds.count());
    gauge!("kv_sessions").set(as_float(app.decider.steering.sessions() as u64));
    let common = app.fleet.common();
    gauge!("kv_predicted_prefixes").set(as_float(common.predictions.as_ref().map_or(0, Predictions::len) as u64));
    for outcome in Outcome::ALL {
        counter!("kv_request_outcomes_total", "outcome" => outcome.as_str()).absolute(common.outcomes.of(outcome));
    }
    if let Some(warmth) = app.decider.steering.warmth() {
        gauge!("kv_fleet_level_blocks").set(as_float(warmth.lock().level()));
    }
    show_audit(app);
}

fn show_audit(app: &App) {
    let counts = app.fleet.common().auditor.counts();
    let drifts = [("none", counts.agreed), ("more", counts.more), ("less", counts.less), ("absurd", counts.absurd)];
    for (drift, count) in drifts {
        counter!("kv_audited_answers_total", "drift" => drift).absolute(count);
    }
}

/// How busy a rank is, and whether anything speaks against choosing it.
pub(super) fn show_rank(app: &App, labels: &[Label], rank: &Rank) {
    let view = rank.books.view();
    let gauges = [
        ("kv_in_flight", u64::from(view.in_flight)),
        ("kv_running", u64::from(view.running)),
        ("kv_waiting", u64::from(view.waiting)),
        ("kv_queued_tokens", view.queued_tokens),
        ("kv_load_is_fresh", view.is_reported().into()),
        ("kv_overloaded", rank.books.is_overloaded(&view).into()),
    ];
    for (name, value) in gauges {
        gauge!(name, labels.to_vec()).set(as_float(value));
    }
    if let Some(usage) = view.kv_usage {
        gauge!("kv_cache_usage", labels.to_vec()).set(usage);
    }
    for (word, state) in DRIFTS {
        gauge!("kv_index_drift", with(labels, "state", word)).set(u32::from(rank.books.drift() == state));
    }
    if let Some(warmth) = app.decider.steering.warmth() {
        let (warmth, now) = (warmth.lock(), rank.books.now());
        gauge!("kv_thin", labels.to_vec()).set(u32::from(warmth.is_thin(rank.worker)));
        gauge!("kv_warming", labels.to_vec()).set(u32::from(warmth.is_warming(now, rank.worker)));
    }
    show_samples(labels, rank);
}

fn show_samples(labels: &[Label], rank: &Rank) {
    let counts = rank.books.load_counts();
    counter!("kv_load_samples_total", with(labels, "outcome", "accepted")).absolute(counts.accepted);
    for refusal in Refusal::ALL {
        counter!("kv_load_samples_total", with(labels, "outcome", refusal.as_str())).absolute(counts.refused(refusal));
        counter!("kv_load_values_left_out_total", with(labels, "reason", refusal.as_str())).absolute(counts.left_out(refusal));
    }
}

/// What became of the questions for an engine's load.
pub(super) fn show_polls(engine: &Engine) {
    for (outcome, count) in engine.polls.get().counts {
        counter!("kv_load_polls_total", "worker" => engine.name().to_owned(), "outcome" => outcome).absolute(count);
    }
}

/// What became of the questions for an engine's health at its gRPC port.
pub(super) fn show_checks(engine: &Engine) {
    for (outcome, count) in engine.checks.get().counts {
        counter!("kv_health_checks_total", "worker" => engine.name().to_owned(), "outcome" => outcome).absolute(count);
    }
}

pub(super) fn describe() {
    describe_counter!("kv_decisions_total", "Decisions by the rule that decided");
    describe_counter!("kv_decided_prompt_tokens_total", "Prompt tokens of decided requests");
    describe_counter!("kv_decided_overlap_tokens_total", "Of these, what the chosen ranks were expected to reuse");
    describe_counter!("kv_best_overlap_tokens_total", "What the best ranks that could be chosen would have reused");
    describe_counter!("kv_best_reached_total", "Decisions for a rank with as much of the prompt as anyone who could be chosen");
    describe_gauge!("kv_regret_seconds", "Seconds that all choices cost more than the cheapest ones, added up");
    describe_gauge!(
        "kv_overlap_reach",
        "Tokens that the chosen ranks were expected to reuse over those of the best ones, 0 to 1"
    );
    describe_counter!("kv_sheds_total", "Requests that were refused because all that could serve were overloaded");
    describe_gauge!("kv_sessions", "Sessions whose rank is remembered");
    describe_gauge!("kv_predicted_prefixes", "Prefixes that are expected somewhere before an event has told of them");
    describe_counter!("kv_request_outcomes_total", "Requests by how they ended at their rank");
    describe_gauge!("kv_fleet_level_blocks", "The median of the ranks' sizes in the index, by which thin ones are told");
    describe_counter!("kv_audited_answers_total", "Answers by whether they reused what the index said, more or less");
    describe_gauge!("kv_in_flight", "Requests sent to a rank and not ended");
    describe_gauge!("kv_running", "Requests that a rank runs, by its own fresh account");
    describe_gauge!("kv_waiting", "Requests that wait at a rank, likewise");
    describe_gauge!(
        "kv_queued_tokens",
        "Prompt tokens that a rank must compute before a new prompt: its account, and what was sent since"
    );
    describe_gauge!("kv_load_is_fresh", "Whether a rank's own account of its load counts");
    describe_gauge!("kv_overloaded", "Whether a rank has more to do than its thresholds say");
    describe_gauge!("kv_cache_usage", "The share of a rank's KV cache in use, 0 to 1, by its last fresh account");
    describe_gauge!("kv_index_drift", "What the audit of answers says of a rank's index");
    describe_gauge!("kv_thin", "Whether a rank holds too little for its fleet");
    describe_gauge!("kv_warming", "Whether a rank is thin or young");
    describe_counter!("kv_load_samples_total", "Loads of a rank, pushed or polled, by what became of them");
    describe_counter!("kv_load_values_left_out_total", "Values of accepted loads that were not believed, by reason");
    describe_counter!(
        "kv_health_checks_total",
        "Questions for an engine's health at its gRPC port, by what it said or why it did not"
    );
    describe_counter!(
        "kv_load_polls_total",
        "Questions for an engine's load, by what came of them; beside them, those that records made needless, and entries of no rank here"
    );
}

const DRIFTS: [(&str, State); 3] = [("sound", State::Sound), ("holds_more", State::HoldsMore), ("holds_less", State::HoldsLess)];
