//! Who chooses.

use kv_routing::select::{Scratch, cheapest};
use kv_routing::{Candidate, Policy, Request, Router};

/// A policy of this crate, or another's published cost function.
#[derive(Debug, Clone, PartialEq)]
pub enum Contender {
    /// A router, under a name.
    Ours(&'static str, Box<Router>),
    /// Dynamo's, rebuilt from its documentation: the fewest blocks to compute and to keep, (prefill blocks - credit) + decode
    /// blocks, at a temperature of 0, ties drawn.
    Dynamo,
}

impl Contender {
    /// All of them, with default settings.
    pub fn all() -> Vec<Self> {
        let ours = [
            ("cache-aware", Policy::CacheAware),
            ("blend", Policy::Blend),
            ("least-load", Policy::LeastLoad),
            ("power-of-two", Policy::PowerOfTwo),
            ("round-robin", Policy::RoundRobin),
            ("random", Policy::Random),
        ];
        let ours = ours.map(|(name, policy)| Self::Ours(name, Box::new(Router::new(policy))));
        ours.into_iter().chain([Self::Dynamo]).collect()
    }

    /// Its name in tables.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ours(name, _) => name,
            Self::Dynamo => "dynamo formula",
        }
    }

    /// Chooses. `kept_blocks` is what each candidate's requests keep in its cache.
    pub(super) fn choose(
        &self,
        request: Request,
        candidates: &[Candidate],
        kept_blocks: &[usize],
        block_tokens: u64,
        seed: u64,
        scratch: &mut Scratch,
    ) -> usize {
        match self {
            Self::Ours(_, router) => router.choose(request, candidates, seed, scratch).map_or(0, |choice| choice.index),
            Self::Dynamo => {
                let prompt_blocks = request.prompt_tokens.div_ceil(block_tokens);
                let cost = |place: usize| {
                    let candidate = &candidates[place];
                    let uncached = prompt_blocks.saturating_sub(candidate.overlap.tokens() / block_tokens);
                    let prefill = uncached + candidate.load.queued_tokens.div_ceil(block_tokens);
                    float(prefill) + float(kept_blocks[place] as u64 + prompt_blocks)
                };
                // The vetoes are the fleet's, and hold for every policy.
                let open = |place: usize| if candidates[place].is_eligible() { cost(place) } else { f64::INFINITY };
                cheapest((0..candidates.len()).map(open), seed).unwrap_or(0)
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "blocks of a cache")]
fn float(blocks: u64) -> f64 {
    blocks as f64
}
