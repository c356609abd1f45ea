//! A decision's record as its client reads it.

use axum::http::HeaderValue;
use kv_routing::{Record, Scored};
use serde::Serialize;

use crate::gateway::fleet::Server;
use crate::gateway::limits::DECISION_HEADER_BYTES_MAX;

/// The record of a decision as a client reads it.
#[derive(Serialize)]
struct Explanation<'a> {
    /// The chosen engine.
    engine: &'a str,
    /// The rule that decided.
    branch: &'static str,
    /// Candidates that did not fit into the header: the most expensive ones. With some of them missing, the record
    /// cannot be decided again.
    omitted: usize,
    record: Record,
}

/// The record in at most [`DECISION_HEADER_BYTES_MAX`] bytes; nothing if even the chosen candidate does not fit.
pub(super) fn explanation(server: &Server, branch: &'static str, record: Record) -> Option<HeaderValue> {
    let mut told = Explanation { engine: server.engine.name(), branch, omitted: 0, record };
    let chosen = told.record.choice.worker;
    let cost = |worker: u32, total_s: f64| (worker != chosen, total_s);
    loop {
        let text = serde_json::to_string(&told).ok()?;
        if text.len() <= DECISION_HEADER_BYTES_MAX {
            return HeaderValue::from_str(&text).ok();
        }
        if told.omitted == 0 {
            let order = |scored: &Scored| cost(scored.candidate.worker, scored.costs.total_s());
            told.record.scored.sort_by(|left, right| order(left).partial_cmp(&order(right)).unwrap_or(std::cmp::Ordering::Equal));
        }
        told.record.scored.pop()?;
        told.omitted += 1;
    }
}
