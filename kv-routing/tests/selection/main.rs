//! Who is chosen, and what is kept of it.

mod audit;
mod pairs;
mod policies;
mod pool;
mod records;
mod replicas;
mod rules;
#[path = "../written/mod.rs"]
mod written;

use kv_routing::{Candidate, Choice, Load, Overlap, Policy, Request, Router};

const ALL: [Policy; 6] =
    [Policy::CacheAware, Policy::Blend, Policy::LeastLoad, Policy::PowerOfTwo, Policy::RoundRobin, Policy::Random];

/// A prompt of a thousand tokens.
const REQUEST: Request = Request { prompt_tokens: 1_000, home: None };

fn candidate(worker: u32, overlap_tokens: u64, in_flight: u32) -> Candidate {
    let load = Load { in_flight, ..Load::default() };
    Candidate { worker, overlap: Overlap::device(overlap_tokens), load, ..Candidate::default() }
}

fn queued(worker: u32, overlap_tokens: u64, queued_tokens: u64) -> Candidate {
    let load = Load { queued_tokens, ..Load::default() };
    Candidate { worker, overlap: Overlap::device(overlap_tokens), load, ..Candidate::default() }
}

fn choice(policy: Policy, candidates: &[Candidate], seed: u64) -> Choice {
    Router::new(policy).decide(REQUEST, candidates, seed).unwrap().choice
}

fn chosen(policy: Policy, candidates: &[Candidate], seed: u64) -> u32 {
    choice(policy, candidates, seed).worker
}
