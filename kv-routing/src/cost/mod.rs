//! What makes a worker expensive for a request: additive costs in seconds, lower is better.
//!
//! | cost | seconds | read by |
//! |---|---|---|
//! | [`Prefill`] | to compute what is not reused | `blend` |
//! | [`Pass`] | of a pass that is opened for it | all but `random` and `round-robin` |
//! | [`Wait`] | until the worker gets to it | likewise |
//! | [`Pressure`] | what scarce KV memory will cost | likewise |
//! | [`InFlight`] | to share a batch | likewise |
//! | a worker's [handicap](crate::Overrides::handicap_s), and [your own](CostFunction) | | likewise |

mod in_flight;
mod pace;
mod pass;
mod prefill;
mod pressure;
mod wait;

pub use in_flight::InFlight;
pub use pace::pace;
pub use pass::Pass;
pub use prefill::Prefill;
pub use pressure::Pressure;
pub use wait::Wait;

use serde::{Deserialize, Serialize};

use crate::candidate::is_default;
use crate::limits::{COST_MAX_S, TOKENS_PER_S_MIN};
use crate::{Candidate, Fleet, Request};

/// What is asked of every candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// The request.
    pub request: Request,
    /// Who is there to serve it, on the whole.
    pub fleet: Fleet,
    /// The most that any of those who may be chosen saves of it, in tokens: what there is to wait for.
    pub best_credit_tokens: f64,
}

/// One reason why a worker is more expensive than another. The router sums its own and those that
/// [`decide_with`](crate::Router::decide_with) is given.
pub trait CostFunction {
    /// The cost's name in records.
    fn name(&self) -> &'static str;

    /// The cost of sending the request to `candidate`, in seconds. What is no finite number counts 0: a faulty cost function must
    /// not choose.
    fn cost_s(&self, ask: &Ask, candidate: &Candidate) -> f64;
}

/// What one candidate costs, in parts. All finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Costs {
    /// Computing what is not reused.
    #[serde(skip_serializing_if = "is_default")]
    pub prefill_s: f64,
    /// Opening a pass.
    #[serde(skip_serializing_if = "is_default")]
    pub pass_s: f64,
    /// Waiting.
    #[serde(skip_serializing_if = "is_default")]
    pub wait_s: f64,
    /// Scarce KV memory.
    #[serde(skip_serializing_if = "is_default")]
    pub pressure_s: f64,
    /// Sharing a batch.
    #[serde(skip_serializing_if = "is_default")]
    pub in_flight_s: f64,
    /// The worker's handicap.
    #[serde(skip_serializing_if = "is_default")]
    pub handicap_s: f64,
    /// The caller's own cost functions.
    #[serde(skip_serializing_if = "is_default")]
    pub own_s: f64,
}

impl Costs {
    /// The sum.
    pub fn total_s(&self) -> f64 {
        self.prefill_s + self.load_s()
    }

    /// The sum of what does not depend on the prompt.
    pub fn load_s(&self) -> f64 {
        self.pass_s + self.wait_s + self.pressure_s + self.in_flight_s + self.handicap_s + self.own_s
    }
}

/// Seconds for `tokens`, whatever stands in a configuration for a rate: a cost is always a number that can be stored.
pub(crate) fn seconds(tokens: f64, tokens_per_s: f64) -> f64 {
    tokens / tokens_per_s.max(TOKENS_PER_S_MIN)
}

/// What stands in a configuration for a weight or a price, if it is one; else 0.
pub(crate) fn weight_or_0(configured: f64) -> f64 {
    if configured.is_finite() { configured.max(0.0) } else { 0.0 }
}

/// A number that can be added to others: what is none counts 0.
pub(crate) fn finite_or_0(number: f64) -> f64 {
    if number.is_finite() { bounded(number) } else { 0.0 }
}

/// A cost that can be added to others, and what is too much is the most.
pub(crate) fn bounded(cost_s: f64) -> f64 {
    if cost_s.is_nan() { 0.0 } else { cost_s.clamp(-COST_MAX_S, COST_MAX_S) }
}

/// A count as a number.
#[expect(clippy::cast_precision_loss, reason = "prompts and queues are far shorter than 2^52 tokens")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}
