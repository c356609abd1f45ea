//! Several routers in front of one fleet, each with an index of its own that is fed with the same events.

use std::num::NonZeroU32;
use std::time::Duration;

use kv_index::{Block, BlockName, ChainIndex, ChainWorker, ContentHash, Index, Matches, Scheme, View, Worker};
use kv_routing::select::{Scratch, Sessions};
use kv_routing::{Lookup, Policy, Pool, Request, Router};

const WORKERS: u32 = 8;
const SCHEME: Scheme = Scheme::plain(NonZeroU32::new(16).unwrap());
const SESSION: u64 = 77;

/// One router's process.
struct Replica {
    index: ChainIndex,
    workers: Vec<ChainWorker>,
    pool: Pool,
    sessions: Sessions,
}

impl Replica {
    fn new() -> Self {
        let index = ChainIndex::new();
        let workers: Vec<ChainWorker> = (0..WORKERS).map(|_| index.add_worker().unwrap()).collect();
        let mut pool = Pool::new();
        workers.iter().zip(0..).for_each(|(worker, number)| pool.insert(worker.id(), number, 0).unwrap());
        Self { index, workers, pool, sessions: Sessions::new(Duration::from_mins(10)) }
    }

    /// Places one turn, and notes what a sticky router would.
    fn place(&mut self, policy: Policy, prompt: &[Block], sticky: bool, seed: u64) -> u32 {
        let contents: Vec<ContentHash> = prompt.iter().map(|block| block.content).collect();
        let mut matches = Matches::new();
        self.index.find(&contents, &mut matches);
        let home = self.sessions.home(Duration::ZERO, SESSION).filter(|_| sticky);
        let request = Request { prompt_tokens: prompt.len() as u64 * 16 + 1, home };
        let lookup = Lookup { matches: &matches, scheme: SCHEME, predicted: &[] };
        let choice = self.pool.choose(&Router::new(policy), request, &lookup, None, seed, &mut Scratch::new()).unwrap();
        self.sessions.note(Duration::ZERO, SESSION, choice.worker);
        choice.worker
    }

    fn hear(&mut self, worker: u32, prompt: &[Block]) {
        self.workers[worker as usize].store(View::MAIN, None, prompt, &mut Vec::new()).unwrap();
    }
}

/// The workers of twelve turns of one conversation, which are dealt to three replicas in turn.
fn turns(policy: Policy, sticky: bool, seed: u64) -> Vec<u32> {
    let mut replicas = [(); 3].map(|()| Replica::new());
    let block = |nth: u64| Block::named(BlockName(nth), ContentHash(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let turn = |(replica, nth): (usize, u64)| {
        let prompt: Vec<Block> = (1..=4 * (nth + 1)).map(block).collect();
        let worker = replicas[replica].place(policy, &prompt, sticky, seed * 100 + nth);
        replicas.iter_mut().for_each(|replica| replica.hear(worker, &prompt));
        worker
    };
    [0, 1, 2].into_iter().cycle().zip(0..12).map(turn).collect()
}

// D33: affinity by a table of each process scatters the turns of a conversation over replicas. The index is the same in all of them.
#[test]
fn turns_that_are_dealt_to_several_routers_stay_together() {
    for policy in [Policy::CacheAware, Policy::Blend] {
        for (seed, sticky) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
            let workers = turns(policy, sticky, seed);
            assert!(workers.iter().all(|worker| *worker == workers[0]), "{policy:?}, seed {seed}: {workers:?}");
        }
    }
    let scattered = |seed: &u64| turns(Policy::Random, true, *seed).windows(2).any(|pair| pair[0] != pair[1]);
    assert!((0..20).filter(scattered).count() > 15, "by sessions alone they are scattered");
}
