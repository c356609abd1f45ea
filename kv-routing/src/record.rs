//! Why a decision fell as it did, in a form that can be stored, read and decided again.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::cost::{Ask, Costs};
use crate::select::Scratch;
use crate::{Candidate, Choice, NoCandidate, Router};

/// Who was chosen, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Who.
    pub choice: Choice,
    /// Everything that the decision was made from.
    pub record: Record,
}

/// Everything that went into one decision, and who was chosen.
///
/// Read it with something that keeps every bit of a number (`serde_json` does with its feature `float_roundtrip`), or a decision
/// between two that all but tie may fall the other way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The policy and its settings.
    pub router: Router,
    /// The request and the fleet.
    pub ask: Ask,
    /// The seed of ties, draws and turns.
    pub seed: u64,
    /// Who was chosen.
    pub choice: Choice,
    /// The names of the caller's own cost functions, whose sum is each candidate's [`own_s`](Costs::own_s).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<Cow<'static, str>>,
    /// Every candidate that was looked at, with its costs. In a large pool these are the holders of most of the prompt and a sample.
    pub scored: Vec<Scored>,
}

/// One candidate, and what was made of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// The candidate as it was: its overlap by tiers, how much of that is trusted, its vetoes, its load.
    pub candidate: Candidate,
    /// What its overlap was worth after weights and discounts, in tokens.
    pub credit_tokens: f64,
    /// Whether it had too much to do for affinity to count.
    pub out_of_line: bool,
    /// Its costs by part. All 0 under policies that do not look at costs.
    pub costs: Costs,
}

impl Record {
    /// Decides again: the same choice, unless the crate's rules have changed since the record was written.
    ///
    /// # Errors
    /// [`NoCandidate`] when the record was changed so that none of its candidates can be chosen.
    pub fn replay(&self) -> Result<Choice, NoCandidate> {
        let candidates: Vec<Candidate> = self.scored.iter().map(|scored| scored.candidate).collect();
        let own_s = |place: usize| crate::cost::finite_or_0(self.scored[place].costs.own_s);
        self.router.choose_among(&self.ask, &candidates, &own_s, self.seed, &mut Scratch::new())
    }

    /// Tokens of the prompt that somebody else who may be chosen would have reused beyond what the chosen one will.
    pub fn forgone_tokens(&self) -> u64 {
        self.choice.best_overlap_tokens.saturating_sub(self.choice.overlap_tokens)
    }
}
