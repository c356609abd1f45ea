//! What it costs an engine to take a prompt up.

use serde::{Deserialize, Serialize};

use super::{Ask, CostFunction, pace, seconds, weight_or_0};
use crate::Candidate;
use crate::limits::PASS_TOKENS;

/// The part of a pass that does not depend on how many prompt tokens are in it, for the first prompt in an engine's queue.
///
/// An engine computes prompts in passes of some thousand tokens, between the tokens of those that it answers already. A pass costs
/// something by itself, and everybody who runs there waits for it. A prompt that finds others in the queue goes with them; one that
/// finds nobody has a pass opened for it alone. So prompts that arrive together are better off together, where their number in flight
/// allows it, and an even spread is the worst of all: then every pass of every engine has one prompt in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pass {
    /// What a pass costs by itself, in prompt tokens that could be computed in the same time.
    pub tokens: f64,
}

impl Default for Pass {
    fn default() -> Self {
        Self { tokens: PASS_TOKENS }
    }
}

impl CostFunction for Pass {
    fn name(&self) -> &'static str {
        "pass"
    }

    #[inline]
    fn cost_s(&self, ask: &Ask, candidate: &Candidate) -> f64 {
        let load = &candidate.load;
        let has_queue = load.queued_tokens > 0 || (load.reported && load.waiting > 0);
        if has_queue { 0.0 } else { seconds(weight_or_0(self.tokens), pace(ask, candidate)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fleet, Load};

    #[test]
    fn only_the_first_in_the_queue_pays() {
        let ask = Ask { fleet: Fleet { tokens_per_s: 1_000.0, ..Fleet::default() }, ..Ask::default() };
        let of = |tokens, load| Pass { tokens }.cost_s(&ask, &Candidate { load, ..Candidate::default() });
        let told = Load { waiting: 1, reported: true, ..Load::default() };
        let costs = [
            (of(500.0, Load::default()), 0.5),
            (of(500.0, Load { queued_tokens: 1, ..Load::default() }), 0.0),
            (of(500.0, told), 0.0),
            (of(500.0, Load { reported: false, ..told }), 0.5),
            (of(f64::NAN, Load::default()), 0.0),
        ];
        assert!(costs.iter().all(|(got, expected)| (got - expected).abs() < 1e-9), "{costs:?}");
    }
}
