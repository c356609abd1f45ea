//! What makes a worker expensive for a request: additive costs in seconds, lower is better.

mod prefill;
mod queue;

pub use prefill::Prefill;
pub use queue::Queue;

use crate::limits::TOKENS_PER_S_MIN;
use crate::{Candidate, Request};

/// One reason why a worker is more expensive than another. A [`Router`](crate::Router) sums those of its policy; a policy of
/// your own sums yours and leaves the choice to [`cheapest`](crate::select::cheapest).
pub trait CostFunction {
    /// The cost's name in records.
    fn name(&self) -> &'static str;

    /// The cost of sending `request` to `candidate`, in seconds, finite and at least 0.
    fn cost_s(&self, request: Request, candidate: &Candidate) -> f64;
}

/// Seconds for `tokens`, whatever stands in a configuration for a rate: a cost is always a number that can be stored.
fn seconds(tokens: f64, tokens_per_s: f64) -> f64 {
    tokens / tokens_per_s.max(TOKENS_PER_S_MIN)
}

/// What stands in a configuration for a weight or a price, if it is one; else 0.
fn weight_or_0(configured: f64) -> f64 {
    if configured.is_finite() { configured.max(0.0) } else { 0.0 }
}
