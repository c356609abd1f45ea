//! What a worker calls a block: as all others do, or not.

use crate::random::scatter;

/// Whether workers agree on the names of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Names {
    /// One chain hash for all: `SGLang` always, vLLM with one seed.
    Agree,
    /// Remixed for each worker: vLLM with a random seed in each process.
    Disagree,
    /// One (worker, block) in 10,000 is remixed.
    Conflict,
    /// Every other worker is remixed.
    Half,
}

impl Names {
    pub const ALL: [Self; 4] = [Self::Agree, Self::Disagree, Self::Conflict, Self::Half];

    /// What `worker` calls the block whose agreed name is `agreed`.
    pub const fn of(self, agreed: u64, worker: u32) -> u64 {
        let remixed = scatter(agreed ^ scatter(worker as u64 + 1));
        let differs = match self {
            Self::Agree => false,
            Self::Disagree => true,
            Self::Conflict => scatter(remixed).is_multiple_of(10_000),
            Self::Half => worker % 2 == 1,
        };
        if differs { remixed } else { agreed }
    }

    /// The shape's suffix in tables; empty for agreeing names.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Agree => "",
            Self::Disagree => "/disagree",
            Self::Conflict => "/conflict",
            Self::Half => "/half",
        }
    }
}

/// The agreed name of a block: a chain hash of its parent's and its content.
pub const fn chain(parent: u64, content: u64) -> u64 {
    scatter(scatter(parent).wrapping_add(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_conflict_once_in_ten_thousand() {
        let names = (0..2_000_000_u64).map(|i| (scatter(i), (i % 128) as u32));
        let conflicts = names.filter(|&(name, worker)| Names::Conflict.of(name, worker) != name).count();
        assert!((150..250).contains(&conflicts), "{conflicts}");
    }

    #[test]
    fn disagreeing_workers_share_no_name() {
        assert_ne!(Names::Disagree.of(7, 0), Names::Disagree.of(7, 1));
        assert_eq!(Names::Half.of(7, 0), 7);
        assert_ne!(Names::Half.of(7, 1), 7);
    }
}
