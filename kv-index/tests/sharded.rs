//! The sharded index against the reference: the same operations, the same answers under other ids.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use kv_index::testing::{Answer, Driver, Mix, Op, any_ops, holdings, random_ops};
use kv_index::{
    Block, BlockName, ChainIndex, ChainOptions, ContentHash, Digest, Index, Match, Matches, ReferenceIndex, ShardRefusal,
    Sharded, ShardsOutOfRange, View, Worker, WorkerId, WorkersExhausted, limits,
};
use proptest::prelude::*;

fn sharded(shards: usize, workers_max: u32) -> Sharded<ReferenceIndex> {
    Sharded::new((0..shards).map(|_| ReferenceIndex::with_workers_max(workers_max)).collect()).unwrap()
}

fn chain(names: std::ops::Range<u64>) -> Vec<Block> {
    names.map(|i| Block::named(BlockName(i), ContentHash(i))).collect()
}

fn contents(blocks: &[Block]) -> Vec<ContentHash> {
    blocks.iter().map(|block| block.content).collect()
}

fn chains(shards: usize, workers_max: u32) -> Sharded<ChainIndex> {
    let options = ChainOptions { workers_max: Some(workers_max), seed: Some([7, 13]), ..ChainOptions::default() };
    Sharded::new((0..shards).map(|_| ChainIndex::with_options(&options)).collect()).unwrap()
}

/// Both indexes under the same operations, and which id of one is which of the other.
struct Pair<I: Index> {
    flat: Driver<ReferenceIndex>,
    sharded: Driver<Sharded<I>>,
    ids: BTreeMap<WorkerId, WorkerId>,
}

impl<I: Index> Pair<I> {
    /// `sharded` and a flat one for `workers_max` workers.
    fn new(sharded: Sharded<I>, workers_max: usize) -> Self {
        let flat = ReferenceIndex::with_workers_max(u32::try_from(workers_max).unwrap());
        Self { flat: Driver::new(flat), sharded: Driver::new(sharded), ids: BTreeMap::new() }
    }

    fn apply(&mut self, op: &Op) {
        let (flat, sharded) = (self.flat.apply(op), self.sharded.apply(op));
        match (flat, &sharded) {
            (Answer::Added(flat), &Answer::Added(sharded)) => _ = self.ids.insert(flat, sharded),
            (Answer::Found(matches, runs), _) => assert_eq!(Answer::Found(self.translated(&matches), runs), sharded, "{op:?}"),
            (flat, _) => assert_eq!(flat, sharded, "{op:?}"),
        }
    }

    fn translated(&self, flat: &Matches) -> Matches {
        let mut matches = Matches::new();
        flat.iter().for_each(|row| matches.push(Match { worker: self.ids[&row.worker], ..row }));
        matches.finish();
        matches
    }

    fn assert_same(&self) {
        let (flat, sharded) = (self.flat.index(), self.sharded.index());
        let mut ids: Vec<_> = flat.workers().iter().map(|id| self.ids[id]).collect();
        ids.sort_unstable();
        assert_eq!(ids, sharded.workers());
        for worker in flat.workers() {
            let twin = self.ids[&worker];
            assert_eq!(holdings(flat, worker), holdings(sharded, twin), "{worker} {twin}");
            for view in (0..limits::VIEWS_MAX).map(View) {
                assert_eq!(flat.digest(worker, view), sharded.digest(twin, view), "{worker} {twin} {view}");
            }
        }
    }
}

proptest! {
    #[test]
    fn any_operations_have_the_answers_of_the_reference(shards in 1_usize..=3, ops in any_ops(Mix::DENSE, 200)) {
        let mut of_references = Pair::new(sharded(shards, 100), shards * 100);
        let mut of_chains = Pair::new(chains(shards, 100), shards * 100);
        for op in &ops {
            of_references.apply(op);
            of_chains.apply(op);
        }
        of_references.assert_same();
        of_chains.assert_same();
    }
}

#[test]
fn long_sequences_have_the_answers_of_the_reference() {
    for shards in 1..=3 {
        for (seed, mix) in [(1, Mix::DENSE), (2, Mix { workers: 9, ..Mix::DENSE }), (3, Mix::LONG)] {
            let ops = random_ops(seed, 3_000, &mix);
            // So few seats that the index is often full, in all shards or in some of them.
            replay(Pair::new(sharded(shards, 2), shards * 2), &ops);
            replay(Pair::new(chains(shards, 2), shards * 2), &ops);
        }
    }
}

fn replay<I: Index>(mut pair: Pair<I>, ops: &[Op]) {
    for ops in ops.chunks(500) {
        ops.iter().for_each(|op| pair.apply(op));
        pair.assert_same();
    }
}

#[test]
fn workers_are_spread_and_their_ids_are_dense() {
    let index = sharded(3, 100);
    let workers: Vec<_> = (0..7).map(|_| index.add_worker().unwrap()).collect();
    assert_eq!(workers.iter().map(|worker| worker.id().0).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(workers.iter().map(kv_index::ShardedWorker::shard).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2, 0]);
    assert!(workers.iter().all(|worker| index.shard_of(worker.id()) == worker.shard()));
}

#[test]
fn a_dropped_workers_seat_and_id_go_to_the_next() {
    let index = sharded(2, 100);
    let mut workers: Vec<_> = (0..4).map(|_| index.add_worker().unwrap()).collect();
    let blocks = chain(0..3);
    workers[1].store(View::MAIN, None, &blocks, &mut Vec::new()).unwrap();
    drop(workers.remove(1));
    let heir = index.add_worker().unwrap();
    assert_eq!((heir.id(), heir.shard()), (WorkerId(1), 1));
    assert!(holdings(&index, heir.id()).is_empty() && !heir.knows(BlockName(0)));
    assert_eq!(index.depth(heir.id(), View::MAIN, &contents(&blocks)), 0);
    drop((heir, workers));
    assert!(index.workers().is_empty());
    assert_eq!(index.add_worker_in(1).unwrap().id(), WorkerId(1));
}

#[test]
fn one_content_on_workers_of_all_shards_is_found_once_each() {
    let index = sharded(3, 100);
    let blocks = chain(0..5);
    let mut workers: Vec<_> = [2, 0, 2, 1].map(|shard| index.add_worker_in(shard).unwrap()).into();
    for (worker, held) in workers.iter_mut().zip([5, 2, 3, 5]) {
        worker.store(View::MAIN, None, &blocks[..held], &mut Vec::new()).unwrap();
    }
    let mut matches = Matches::new();
    index.find(&contents(&blocks), &mut matches);
    let rows: Vec<_> = matches.iter().map(|row| (row.depth, row.worker.0)).collect();
    assert_eq!(rows, [(5, 1), (5, 2), (3, 5), (2, 0)], "deepest first, whatever the shard");
    index.find(&[], &mut matches);
    assert!(matches.is_empty(), "the answer before is gone");
}

#[test]
fn an_id_that_nobody_has_covers_nothing() {
    let index = sharded(2, 100);
    let _worker = index.add_worker().unwrap();
    for id in [1, 2, 3, u32::MAX].map(WorkerId) {
        assert_eq!((index.depth(id, View::MAIN, &[ContentHash(0)]), index.digest(id, View::MAIN)), (0, Digest::default()));
        assert!(holdings(&index, id).is_empty());
    }
}

#[test]
fn refusals_say_what_is_full_and_leave_nothing_behind() {
    let index = sharded(2, 1);
    let _first = index.add_worker_in(1).unwrap();
    let full = ShardRefusal::Full { shard: 1, source: WorkersExhausted { max: 1 } };
    assert_eq!(index.add_worker_in(1).unwrap_err(), full);
    assert_eq!(index.add_worker_in(2).unwrap_err(), ShardRefusal::Unknown { shard: 2, shards: 2 });
    let second = index.add_worker().unwrap();
    assert_eq!(second.shard(), 0);
    assert_eq!(index.add_worker().unwrap_err(), WorkersExhausted { max: 2 });
    drop(second);
    assert_eq!(index.add_worker().unwrap().shard(), 0);
    for shards in [0, limits::SHARDS_MAX + 1] {
        let given = (0..shards).map(|_| ReferenceIndex::with_workers_max(1)).collect();
        assert_eq!(Sharded::new(given).unwrap_err(), ShardsOutOfRange { shards, max: limits::SHARDS_MAX });
    }
}

#[test]
fn a_full_shard_sends_workers_to_the_others() {
    let uneven = vec![ReferenceIndex::with_workers_max(1), ReferenceIndex::with_workers_max(3)];
    let index = Sharded::new(uneven).unwrap();
    let workers: Vec<_> = (0..4).map(|_| index.add_worker().unwrap()).collect();
    assert_eq!(workers.iter().map(kv_index::ShardedWorker::shard).collect::<Vec<_>>(), [0, 1, 1, 1]);
    assert_eq!(index.add_worker().unwrap_err(), WorkersExhausted { max: 4 });
}

#[test]
fn a_sharded_index_can_be_a_shard() {
    let index = Sharded::new(vec![sharded(2, 10), sharded(2, 10)]).unwrap();
    let blocks = chain(0..2);
    let mut workers: Vec<_> = (0..5).map(|_| index.add_worker().unwrap()).collect();
    workers.iter_mut().for_each(|worker| worker.store(View::MAIN, None, &blocks, &mut Vec::new()).unwrap());
    let mut matches = Matches::new();
    index.find(&contents(&blocks), &mut matches);
    assert_eq!(matches.iter().map(|row| row.worker).collect::<Vec<_>>(), index.workers());
}

/// Rule 13, where it can be told: beside a writer that stores and evicts tails of a prompt and is replaced by writers of
/// another prompt, a reader must see between what is always held and what is ever held.
#[test]
fn lookups_beside_writers_see_what_was_there() {
    look_up_beside_writers(&sharded(2, 100));
    look_up_beside_writers(&chains(2, 100));
}

fn look_up_beside_writers(index: &impl Index) {
    const HEAD: usize = 8;
    const ROUNDS: u64 = 2_000;
    let done = AtomicBool::new(false);
    let prompts = [chain(0..16), chain(100..116)];
    let mut steady: Vec<_> = (0..4).map(|_| index.add_worker().unwrap()).collect();
    for worker in &mut steady {
        worker.store(View::MAIN, None, &prompts[0][..HEAD], &mut Vec::new()).unwrap();
    }
    let ids: Vec<_> = steady.iter().map(Worker::id).collect();
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| read(index, &contents(&prompts[0]), &ids, HEAD, &done))).collect();
        let churner = scope.spawn(|| replace(index, &prompts[1], ROUNDS));
        let writers: Vec<_> = steady.into_iter().map(|worker| scope.spawn(|| churn(worker, &prompts[0], HEAD, ROUNDS))).collect();
        let left: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        churner.join().unwrap();
        done.store(true, Ordering::Relaxed);
        assert!(readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u64>() > 0);
        assert_eq!(index.workers(), ids);
        drop(left);
    });
    assert!(index.workers().is_empty());
}

/// Looks up until the writers are done. Returns how often.
fn read(index: &impl Index, request: &[ContentHash], steady: &[WorkerId], head: usize, done: &AtomicBool) -> u64 {
    let mut matches = Matches::new();
    let mut lookups = 0;
    while !done.load(Ordering::Relaxed) {
        index.find(request, &mut matches);
        let mut found: Vec<_> = matches.iter().map(|row| row.worker).collect();
        found.sort_unstable();
        assert_eq!(found, steady, "each of them once, and none whose prompt is another");
        assert!(matches.iter().all(|row| (head..=request.len()).contains(&(row.depth as usize))));
        lookups += 1;
    }
    lookups
}

/// Stores and evicts the blocks after the head.
fn churn<W: Worker>(mut worker: W, prompt: &[Block], head: usize, rounds: u64) -> W {
    let names: Vec<_> = prompt[head..].iter().filter_map(|block| block.name).collect();
    for _ in 0..rounds {
        worker.store(View::MAIN, prompt[head - 1].name, &prompt[head..], &mut Vec::new()).unwrap();
        worker.remove(View::MAIN, &names, &mut Vec::new());
    }
    worker
}

/// Takes workers in and out again.
fn replace(index: &impl Index, prompt: &[Block], rounds: u64) {
    for _ in 0..rounds {
        index.add_worker().unwrap().store(View::MAIN, None, prompt, &mut Vec::new()).unwrap();
    }
}
