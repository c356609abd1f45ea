//! What a decision works with.

use super::Draw;
use crate::Candidate;
use crate::cost::Costs;

/// Memory of decisions. Reuse one value for many: after the first few decisions nothing is allocated.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// Places among the candidates of those who may be chosen.
    pub(crate) eligible: Vec<usize>,
    /// Of those, whom the policy chooses from.
    pub(crate) members: Vec<usize>,
    /// What each candidate costs; only the eligible ones' are of this decision.
    pub(crate) costs: Vec<Costs>,
    /// The candidates of a decision in a pool.
    pub(crate) shortlist: Vec<Candidate>,
    /// For each row of a pool, the decision that took it in last.
    pub(crate) taken: Vec<u64>,
    pub(crate) decision: u64,
}

impl Scratch {
    /// Without memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The candidates of the last decision in a pool.
    pub fn shortlist(&self) -> &[Candidate] {
        &self.shortlist
    }
}

/// A seed for a draw that must not go the way of another draw of the same decision.
pub(crate) fn apart(seed: u64, draw: u64) -> u64 {
    Draw::new(seed ^ draw.wrapping_mul(0xd6e8_feb8_6659_fd93)).next_u64()
}
