//! Disaggregated pools: one worker computes the prompt, another the answer.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::record::Record;
use crate::{Candidate, Choice, NoCandidate, Policy, Request, Router};

/// The two halves of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Leg {
    /// Computing the prompt.
    Prefill,
    /// Computing the answer.
    Decode,
}

/// Who was chosen for both legs.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Who computes the prompt.
    pub prefill: Choice,
    /// Who computes the answer.
    pub decode: Choice,
    /// Everything that both were chosen from.
    pub record: PairRecord,
}

/// Everything that went into both choices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairRecord {
    /// Of the prompt's leg.
    pub prefill: Record,
    /// Of the answer's.
    pub decode: Record,
}

/// One leg has nobody; nothing is to be sent to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("nobody for the {leg} leg: {cause}")]
pub struct NoPair {
    /// Which.
    pub leg: Leg,
    /// Why.
    #[source]
    pub cause: NoCandidate,
}

impl Router {
    /// Chooses one worker of each pool: for the prompt by this router's policy, for the answer by load and room in KV memory. What a
    /// decode worker holds of the prompt does not attract: the prompt's keys and values come from the other leg.
    ///
    /// # Errors
    /// [`NoPair`], which names the leg.
    pub fn pair(&self, request: Request, prefill: &[Candidate], decode: &[Candidate], seed: u64) -> Result<Pair, NoPair> {
        let of = |leg| move |cause| NoPair { leg, cause };
        let first = self.decide(request, prefill, seed).map_err(of(Leg::Prefill))?;
        let by_load = Self { policy: Policy::LeastLoad, ..*self };
        let stateless = Request { home: None, ..request };
        let second = by_load.decide(stateless, decode, crate::select::apart(seed, 4)).map_err(of(Leg::Decode))?;
        let record = PairRecord { prefill: first.record, decode: second.record };
        Ok(Pair { prefill: first.choice, decode: second.choice, record })
    }
}

impl PairRecord {
    /// Decides both legs again.
    ///
    /// # Errors
    /// [`NoPair`] when the record was changed so that nobody can be chosen.
    pub fn replay(&self) -> Result<(Choice, Choice), NoPair> {
        let leg = |leg, record: &Record| record.replay().map_err(|cause| NoPair { leg, cause });
        Ok((leg(Leg::Prefill, &self.prefill)?, leg(Leg::Decode, &self.decode)?))
    }
}

impl fmt::Display for Leg {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        })
    }
}
