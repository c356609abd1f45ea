//! What makes a worker expensive for a request: additive costs in seconds, lower is better.

mod prefill;
mod queue;

pub use prefill::Prefill;
pub use queue::Queue;

use crate::{Candidate, Request};

/// One reason why a worker is more expensive than another. Implement it for reasons of your own.
pub trait CostFunction {
    /// The cost's name in records.
    fn name(&self) -> &'static str;

    /// The cost of sending `request` to `candidate`, in seconds, finite and at least 0.
    fn cost_s(&self, request: Request, candidate: &Candidate) -> f64;
}
