//! Whom a gateway chooses for a request, and what it books.

use std::time::Duration;

use kv_index::{ChainIndex, ContentHash, Index, Matches, View, WorkerId};
use kv_routing::accounting::{Predicted, PrefixKeys};
use kv_routing::audit::Answer;
use kv_routing::liveness::Task;
use kv_routing::select::Scratch;
use kv_routing::warmup::Question;
use kv_routing::{Candidate, Load, Overlap, Request};

use super::contender::{Contender, Table};
use super::gateway::{Gateway, Member, Placed};
use super::workload::Arrival;

/// Memory of placements, used again.
#[derive(Default)]
pub(super) struct Memory {
    matches: Matches,
    scratch: Scratch,
    hashes: Vec<ContentHash>,
    keys: PrefixKeys,
    found: Vec<Predicted>,
}

impl Gateway {
    /// Chooses an engine and books the request there.
    pub(super) fn place(
        &mut self,
        now: Duration,
        arrival: &Arrival,
        index: &ChainIndex,
        contender: &Contender,
        seed: u64,
    ) -> Placed {
        self.look_up(now, arrival, index);
        let prompt_tokens = arrival.prompt.tokens().len() as u64;
        let candidates: Vec<Candidate> = self.members.iter().map(|member| self.candidate(now, member, prompt_tokens)).collect();
        let booked = |member: &Member| (member.kept_blocks, member.site.vitals.pending_prefill_tokens());
        let table = Table {
            request: Request { prompt_tokens, home: None },
            candidates: &candidates,
            booked: &self.members.iter().map(booked).collect::<Vec<_>>(),
            block_tokens: self.block_size as u64,
        };
        let warmed = if contender.reads_caches() { self.warmed(now, &candidates, seed) } else { None };
        let engine = warmed.unwrap_or_else(|| contender.choose(&table, seed, &mut self.memory.scratch));
        self.book(now, engine, &candidates[engine].overlap, arrival)
    }

    /// Asks the index and the predictions about a prompt.
    fn look_up(&mut self, now: Duration, arrival: &Arrival, index: &ChainIndex) {
        let Memory { matches, hashes, keys, found, .. } = &mut self.memory;
        hashes.clear();
        hashes.extend(arrival.prompt.servable().iter().copied().map(ContentHash));
        index.find(hashes, matches);
        keys.fill(hashes);
        found.clear();
        let Some(predictions) = self.members.first().and_then(|member| member.site.predictions.as_ref()) else { return };
        predictions.find_shared(now, keys, found);
        for &Predicted { worker, blocks } in found.iter() {
            let announced = matches.depth(WorkerId(worker), View::MAIN);
            if blocks <= announced {
                predictions.confirm(worker, keys, announced);
            }
        }
    }

    fn candidate(&self, now: Duration, member: &Member, prompt_tokens: u64) -> Candidate {
        let worker = member.site.worker;
        let (announced, booked) = self.held(worker);
        let credit = self.audit.credit_tokens(worker, prompt_tokens, announced);
        let view = member.site.ledger.view(now);
        let vitals = &member.site.vitals;
        Candidate {
            worker,
            overlap: Overlap { predicted_tokens: booked.max(credit), ..Overlap::device(announced) },
            degraded: member.degraded,
            vetoed: vitals.veto().is_some(),
            overloaded: self.thresholds.is_overloaded_at(now, &view),
            load: Load {
                queued_tokens: queued(view.queued_tokens, vitals.pending_prefill_tokens()),
                kept_tokens: member.kept_tokens,
                ..view.load(vitals.prefill_tokens_per_s())
            },
            ..Candidate::default()
        }
    }

    /// Tokens of the prompt that an engine has announced, and those that are booked on top.
    fn held(&self, worker: u32) -> (u64, u64) {
        let tokens = |blocks: u32| u64::from(blocks) * self.block_size as u64;
        let announced = tokens(self.memory.matches.depth(WorkerId(worker), View::MAIN));
        let predicted = self.memory.found.iter().find(|predicted| predicted.worker == worker);
        (announced, predicted.map_or(0, |predicted| tokens(predicted.blocks).saturating_sub(announced)))
    }

    /// The engine that is to be given a cache, if it is its turn.
    fn warmed(&mut self, now: Duration, candidates: &[Candidate], seed: u64) -> Option<usize> {
        let eligible = |worker: &Candidate| worker.is_eligible().then_some(worker.load.in_flight);
        let held = candidates.iter().filter(|candidate| candidate.is_eligible()).map(|candidate| candidate.overlap.tokens());
        let question = Question {
            best_blocks: held.max().unwrap_or(0) / self.block_size as u64,
            request_blocks: self.memory.hashes.len() as u64,
        };
        let choice = self.warmup.choose(now, question, |worker| eligible(candidates.get(worker as usize)?), seed)?;
        Some(choice.worker as usize)
    }

    fn book(&mut self, now: Duration, engine: usize, overlap: &Overlap, arrival: &Arrival) -> Placed {
        let (prompt_tokens, output_tokens) = (arrival.prompt.tokens().len() as u64, arrival.output_tokens as u64);
        let uncached = prompt_tokens.saturating_sub(overlap.tokens());
        let (kept_tokens, whole) = (uncached + output_tokens, prompt_tokens + output_tokens);
        let kept_blocks = whole.div_ceil(self.block_size as u64);
        let (indexed_tokens, booked_tokens) = self.held(self.members[engine].site.worker);
        let member = &mut self.members[engine];
        member.kept_tokens += kept_tokens;
        member.kept_blocks += kept_blocks;
        let dispatch = member.site.dispatch(now, Task::streamed(uncached), &self.memory.keys);
        let expected = Answer { prompt_tokens, indexed_tokens, booked_tokens, cached_tokens: 0 };
        Placed { engine, dispatch, expected, kept_tokens, kept_blocks }
    }
}

/// What is in front of a new prompt: the queue, and of the prompts under way, which no queue shows any more, what takes more than the
/// pass that they are in. One long prompt keeps an engine busy for ten passes.
fn queued(queued_tokens: u64, pending_tokens: u64) -> u64 {
    let under_way = pending_tokens.saturating_sub(queued_tokens);
    queued_tokens + under_way.saturating_sub(PASS_TOKENS)
}

/// Prompt tokens of one pass, as the scenes' engines have it.
const PASS_TOKENS: u64 = 2_048;
