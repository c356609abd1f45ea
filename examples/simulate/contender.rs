//! Who chooses.

use kv_routing::select::{Scratch, cheapest};
use kv_routing::{Candidate, Policy, Request, Router};

use super::scene::Scene;

/// Who chooses, and what of the gateway's books it does without.
#[derive(Debug, Clone, PartialEq)]
pub struct Contender {
    name: String,
    chooser: Chooser,
    without: Option<Part>,
}

/// A policy of this crate, or another's published cost function.
#[derive(Debug, Clone, PartialEq)]
enum Chooser {
    Ours(Box<Router>),
    /// Dynamo's, rebuilt from its documentation: the fewest blocks to compute and to keep, (prefill blocks - credit) + decode
    /// blocks, at a temperature of 0, ties drawn. What our books predict of a burst counts for it as well.
    Dynamo,
}

/// A part of the gateway's books that a scene is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What placements of a moment ago let expect of caches.
    Predictions,
    /// What answers say of caches whose events were lost.
    Audit,
}

/// What the chooser may read of a request and of the engines.
pub(super) struct Table<'a> {
    pub(super) request: Request,
    pub(super) candidates: &'a [Candidate],
    /// For each candidate, blocks that its requests in flight keep, and prompt tokens of ours without a first token.
    pub(super) booked: &'a [(u64, u64)],
    pub(super) block_tokens: u64,
}

impl Contender {
    /// All of them, with default settings.
    pub fn all() -> Vec<Self> {
        let policies = [
            ("cache-aware", Policy::CacheAware),
            ("blend", Policy::Blend),
            ("least-load", Policy::LeastLoad),
            ("power-of-two", Policy::PowerOfTwo),
            ("round-robin", Policy::RoundRobin),
            ("random", Policy::Random),
        ];
        let ours = policies.map(|(name, policy)| Self::of(name, Router::new(policy)));
        let dynamo = Self { name: "dynamo formula".into(), chooser: Chooser::Dynamo, without: None };
        ours.into_iter().chain([dynamo]).collect()
    }

    /// Those that a scene is played with: all, and where it is about a part of the books, those whom it helps without it.
    pub fn for_scene(scene: &Scene) -> Vec<Self> {
        let all = Self::all();
        let without = all.iter().filter_map(|contender| contender.without(scene.about?)).collect::<Vec<_>>();
        all.into_iter().chain(without).collect()
    }

    /// A router, under a name.
    pub fn of(name: &str, router: Router) -> Self {
        Self { name: name.into(), chooser: Chooser::Ours(Box::new(router)), without: None }
    }

    /// The same without `part`, for those to whom it makes a difference.
    pub fn without(&self, part: Part) -> Option<Self> {
        let word = match part {
            Part::Predictions => "predictions",
            Part::Audit => "audit",
        };
        let name = format!("{}, no {word}", self.name);
        self.reads_caches().then(|| Self { name, chooser: self.chooser.clone(), without: Some(part) })
    }

    /// Its name in tables.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn uses(&self, part: Part) -> bool {
        self.without != Some(part)
    }

    /// Whether it is one of ours that asks what engines hold: only these leave somebody without work for want of a cache.
    pub(super) fn reads_caches(&self) -> bool {
        matches!(&self.chooser, Chooser::Ours(router) if router.policy.looks_at_overlap())
    }

    /// Chooses the place of one of the candidates.
    pub(super) fn choose(&self, table: &Table<'_>, seed: u64, scratch: &mut Scratch) -> usize {
        match &self.chooser {
            Chooser::Ours(router) => {
                router.choose(table.request, table.candidates, seed, scratch).map_or(0, |choice| choice.index)
            }
            Chooser::Dynamo => table.fewest_blocks(seed),
        }
    }
}

impl Table<'_> {
    fn fewest_blocks(&self, seed: u64) -> usize {
        let prompt = self.request.prompt_tokens.div_ceil(self.block_tokens);
        let cost = |(candidate, (kept, pending)): (&Candidate, &(u64, u64))| {
            let uncached = prompt.saturating_sub(candidate.overlap.tokens() / self.block_tokens);
            let prefill = uncached + pending.div_ceil(self.block_tokens);
            // The vetoes are the fleet's, and hold for every policy.
            if candidate.vetoed { f64::INFINITY } else { float(prefill + kept + prompt) }
        };
        cheapest(self.candidates.iter().zip(self.booked).map(cost), seed).unwrap_or(0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "blocks of a cache")]
fn float(blocks: u64) -> f64 {
    blocks as f64
}
