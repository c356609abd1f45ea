//! What it costs to share an engine: its steps get longer, its memory fuller.

use serde::{Deserialize, Serialize};

use super::{Ask, CostFunction, number, seconds, weight_or_0};
use crate::limits::{IN_FLIGHT_S, KEPT_WEIGHT, WAITING_TOKENS};
use crate::{Candidate, Load};

/// A little for each request that runs beside the new one, and for each token that it keeps in memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InFlight {
    /// What each request in flight adds.
    pub each_s: f64,
    /// What a token that is kept counts, over one that must be computed.
    pub kept_weight: f64,
}

impl Default for InFlight {
    fn default() -> Self {
        Self { each_s: IN_FLIGHT_S, kept_weight: KEPT_WEIGHT }
    }
}

impl CostFunction for InFlight {
    fn name(&self) -> &'static str {
        "in-flight"
    }

    #[inline]
    fn cost_s(&self, ask: &Ask, candidate: &Candidate) -> f64 {
        let requests = requests(&candidate.load);
        let books = number(candidate.load.kept_tokens);
        let kept = if books > 0.0 { books } else { requests * WAITING_TOKENS };
        requests * weight_or_0(self.each_s) + weight_or_0(self.kept_weight) * seconds(kept, ask.fleet.tokens_per_s)
    }
}

/// Our own count or the engine's, whichever is larger: what others sent there shows in the engine's only.
fn requests(load: &Load) -> f64 {
    f64::from(load.in_flight).max(f64::from(load.running) + f64::from(load.waiting))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fleet;

    fn cost(load: Load) -> f64 {
        let ask = Ask { fleet: Fleet { tokens_per_s: 1_024.0, ..Fleet::default() }, ..Ask::default() };
        InFlight { each_s: 0.5, kept_weight: 0.25 }.cost_s(&ask, &Candidate { load, ..Candidate::default() })
    }

    #[track_caller]
    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() < 1e-9, "expected {expected}, got {got}");
    }

    #[test]
    fn our_count_or_the_engines_whichever_is_larger() {
        let books = Load { kept_tokens: 1, ..Load::default() };
        close(cost(Load { in_flight: 3, running: 1, waiting: 1, ..books }), 1.5 + 0.25 / 1_024.0);
        close(cost(Load { in_flight: 3, running: 4, waiting: 6, ..books }), 5.0 + 0.25 / 1_024.0);
    }

    #[test]
    fn what_is_kept_counts_by_the_books_or_by_a_guess() {
        close(cost(Load { in_flight: 2, kept_tokens: 4_096, ..Load::default() }), 1.0 + 1.0);
        close(cost(Load { in_flight: 2, ..Load::default() }), 1.0 + 0.5);
    }
}
