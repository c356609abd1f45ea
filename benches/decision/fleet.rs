//! A fleet whose index is full, and whose loads change.

use contest::random::SplitMix64;
use kv_index::reuse::{Group, GroupKind, JointReuse, WindowRule};
use kv_index::{Block, BlockName, ChainIndex, ChainWorker, ContentHash, Index, Matches, Namespace, Runs, View, Worker, WorkerId};
use kv_routing::{Load, Pool};
use std::cell::RefCell;

use super::dynamo::Dynamo;
use super::prompts::{Prompt, Prompts, SCHEME};

/// Cache groups of a hybrid model beside its main one.
pub const GROUPS: u32 = 2;

pub struct Fleet {
    pub index: ChainIndex,
    pub pool: Pool,
    /// Fed with the same events and loads.
    pub dynamo: Dynamo,
    _workers: Vec<ChainWorker>,
    /// Who was booked, oldest first: each request stays for a while.
    booked: std::collections::VecDeque<u32>,
    joint: RefCell<(JointReuse, Runs)>,
}

impl Fleet {
    /// Every worker holds the templates of most requests, and each prompt that was seen is held by a few.
    pub fn fill(workers: u32, prompts: &Prompts, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ u64::from(workers));
        let index = ChainIndex::new();
        let mut handles: Vec<ChainWorker> = (0..workers).map(|_| index.add_worker().expect("there is room")).collect();
        let (mut hashes, mut out, mut dynamo) = (Vec::new(), Vec::new(), Dynamo::new());
        for prompt in &prompts.seen {
            SCHEME.hash_prompt(Namespace::default(), &prompt.tokens, &mut hashes);
            let blocks = named(&hashes);
            let head = prompt.template_tokens / 16;
            if prompt.template < 6 && random.below(20) == 0 {
                // A template that most of the fleet has.
                for worker in &mut handles {
                    if random.below(10) > 0 {
                        worker.store(View::MAIN, None, &blocks[..head], &mut out).expect("from the root");
                        dynamo.store(worker.id().0, &blocks[..head]);
                    }
                }
            }
            let holders = 1 + random.below(6);
            for _ in 0..holders {
                let worker = &mut handles[random.below(u64::from(workers)) as usize];
                worker.store(View::MAIN, None, &blocks, &mut out).expect("from the root");
                dynamo.store(worker.id().0, &blocks);
            }
        }
        let mut pool = Pool::new();
        for handle in &handles {
            pool.insert(handle.id(), handle.id().0, 0).expect("there is room");
            let in_flight = random.below(12) as u32;
            let load = Load {
                in_flight,
                running: in_flight,
                queued_tokens: random.below(4_000),
                kept_tokens: u64::from(in_flight) * 900,
                rate_tokens_per_s: Some(9_000.0 + random.below(4_000) as f32),
                kv_usage: Some(random.below(90) as f32 / 100.0),
                reported: true,
                ..Load::default()
            };
            pool.update(handle.id(), |candidate| candidate.load = load).expect("it is there");
            dynamo.set_load(handle.id().0, &load);
        }
        dynamo.flush();
        let booked = std::collections::VecDeque::new();
        Self { index, pool, dynamo, _workers: handles, booked, joint: RefCell::default() }
    }

    /// Books a request, and lets the one booked 500 before go.
    pub fn book(&mut self, worker: u32, nth: u64) {
        let mut change = |worker: u32, more: bool| {
            let change = |load: &mut Load| {
                load.in_flight = if more { load.in_flight + 1 } else { load.in_flight.saturating_sub(1) };
                load.queued_tokens = load.queued_tokens.wrapping_add(nth) % 4_000;
            };
            self.pool.update(WorkerId(worker), |candidate| change(&mut candidate.load)).expect("it was chosen");
            let candidate = self.pool.candidate(WorkerId(worker)).expect("it was chosen");
            self.dynamo.set_load(worker, &candidate.load);
        };
        change(worker, true);
        if self.booked.len() == 500 {
            let done = self.booked.pop_front().expect("500 are booked");
            change(done, false);
        }
        self.booked.push_back(worker);
    }

    /// What a hybrid model's window groups leave of a depth: one lookup for each.
    pub fn refine(&self, worker: WorkerId, depth: u32, groups: u32, request: &[ContentHash]) -> u32 {
        let (joint, runs) = &mut *self.joint.borrow_mut();
        joint.clear();
        for group in 0..=groups {
            if group == 0 {
                // What the main group covers of it, the lookup has found.
                runs.clear();
                runs.push(0, depth);
            } else {
                self.index.coverage(worker, View::MAIN, &request[..depth as usize], runs);
            }
            let tokens = std::num::NonZeroU32::new(512 * group.max(1)).expect("not 0");
            let kind = if group == 0 { GroupKind::Full } else { GroupKind::Window { tokens, rule: WindowRule::Vllm } };
            joint.push(Group { kind, block_tokens: SCHEME.block_tokens }, SCHEME.block_tokens, runs);
        }
        joint.longest(depth)
    }

    /// The index says of this prompt what every worker's own depth says.
    pub fn check(&self, prompt: &Prompt, hashes: &[ContentHash], matches: &Matches) {
        let reusable = SCHEME.reusable_in(prompt.tokens.len());
        for level in matches.levels().take(3) {
            let (worker, view) = level.holders().next().expect("a level has a holder");
            assert_eq!(self.index.depth(worker, view, &hashes[..reusable]), level.depth);
        }
    }
}

fn named(hashes: &[ContentHash]) -> Vec<Block> {
    let mut name = 0u64;
    let named = hashes.iter().map(|&content| {
        name = contest::random::scatter(name ^ content.0);
        Block::named(BlockName(name), content)
    });
    named.collect()
}
