//! What is written comes back.

use kv_index::snapshot::{Loaded, Portable, Writer, load};
use kv_index::testing::{Driver, Fleet, Mix, Op, any_ops, assert_same, fleet_ops, holdings, random_ops};
use kv_index::{Block, BlockName, ChainIndex, ChainWorker, ContentHash, Index, ReferenceIndex, Runs, Sharded, View, Worker};
use proptest::prelude::*;

use crate::shared::{chain, driven, loaded, small, written};

/// Asserts that the seats of both hold the same, under whatever ids, along every request of `ops` as well.
fn assert_same_seats<L: Index, R: Index>(left: &Driver<L>, right: &Driver<R>, ops: &[Op]) {
    assert_eq!(left.workers().count(), right.workers().count());
    for (ours, theirs) in left.workers().zip(right.workers()) {
        assert_eq!(ours.views(), theirs.views());
        assert_eq!(holdings(left.index(), ours.id()), holdings(right.index(), theirs.id()));
        for view in (0..ours.views()).map(View) {
            assert_eq!(left.index().digest(ours.id(), view), right.index().digest(theirs.id(), view));
            for request in paths(ops) {
                let (mut ours_covered, mut theirs_covered) = (Runs::new(), Runs::new());
                left.index().coverage(ours.id(), view, &request, &mut ours_covered);
                right.index().coverage(theirs.id(), view, &request, &mut theirs_covered);
                assert_eq!(ours_covered, theirs_covered, "{view} of {} along {request:?}", ours.id());
            }
        }
    }
}

/// What the operations looked up, and what they stored from the root.
fn paths(ops: &[Op]) -> impl Iterator<Item = Vec<ContentHash>> {
    ops.iter().filter_map(|op| match op {
        Op::Find { request } => Some(request.clone()),
        Op::Store { parent: None, blocks, .. } => Some(blocks.iter().map(|block| block.content).collect()),
        _ => None,
    })
}

/// After `ops`, a snapshot of the chain index brings back what it held, in every index, and so does one of the reference. And
/// what was loaded goes on as the reference does.
fn comes_back(ops: &[Op], later: &[Op]) {
    let (chained, reference) = (driven(chain(), ops), driven(ReferenceIndex::new(), ops));
    let bytes = written(&chained);
    let mut ours = loaded(&bytes, chain());
    let mut theirs = loaded(&bytes, ReferenceIndex::new());
    assert_same_seats(&chained, &theirs, ops);
    assert_same(ours.index(), theirs.index());
    let sharded = loaded(&bytes, Sharded::new(vec![chain(), chain(), chain()]).unwrap());
    assert_same_seats(&chained, &sharded, &[]);
    let again = loaded(&written(&reference), chain());
    assert_same(again.index(), theirs.index());
    for (nth, op) in later.iter().enumerate() {
        assert_eq!(ours.apply(op), theirs.apply(op), "operation {nth} after the load: {op:?}");
    }
    assert_same(ours.index(), theirs.index());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 128 } else { 1_024 }))]

    #[test]
    fn everything_that_collides(ops in any_ops(Mix::DENSE, 120), later in any_ops(Mix::DENSE, 40)) {
        comes_back(&ops, &later);
    }
}

#[test]
fn long_corpora() {
    for seed in 0..10 {
        comes_back(&random_ops(seed, 1_000, &Mix::LONG), &random_ops(seed + 1_000, 200, &Mix::LONG));
    }
}

fn fleet(fleet: &Fleet, seeds: u64) {
    for seed in 0..seeds {
        let ops = fleet_ops(seed, 1_200, fleet);
        let (ops, later) = ops.split_at(900);
        comes_back(ops, later);
    }
}

#[test]
fn a_fleet_that_agrees_on_names() {
    fleet(&Fleet::AGREEING, 4);
}

#[test]
fn a_fleet_with_a_few_names_in_conflict() {
    fleet(&Fleet::MIXED, 8);
}

#[test]
fn a_fleet_where_everybody_names_blocks_in_its_own_way() {
    fleet(&Fleet::LONERS, 4);
}

#[test]
fn a_crowd_that_holds_the_same_prompts() {
    fleet(&Fleet::CROWD, 1);
}

#[test]
fn one_of_everything() {
    let driver = small(chain());
    let bytes = written(&driver);
    assert_same(driver.index(), loaded(&bytes, ReferenceIndex::new()).index());
    assert_same(driver.index(), loaded(&bytes, chain()).index());
    assert_same(small(ReferenceIndex::new()).index(), driver.index());
}

#[test]
fn an_empty_index_and_an_empty_worker() {
    assert_eq!(loaded(&written(&Driver::new(chain())), chain()).workers().count(), 0);
    let index = chain();
    let mut worker = index.add_worker().unwrap();
    (1..32).for_each(|view| assert_eq!(worker.add_view(), Ok(View(view))));
    let back = loaded(&written(&Driver::with_workers(index, [worker])), chain());
    assert_eq!(back.workers().map(Worker::views).collect::<Vec<_>>(), [32]);
}

#[test]
fn workers_come_beside_those_that_are_there() {
    let bytes = written(&small(chain()));
    let index = chain();
    let mut here = index.add_worker().unwrap();
    let block = |name, content| Block::named(BlockName(name), ContentHash(content));
    // The same prompt, cut into segments elsewhere and by other names, and one that leaves it.
    here.store(View::MAIN, None, &[block(900, 101), block(901, 102)], &mut Vec::new()).unwrap();
    here.store(View::MAIN, Some(BlockName(900)), &[block(1, 999)], &mut Vec::new()).unwrap();
    let before = holdings(&index, here.id());
    let new = load(&bytes[..], &index).unwrap();
    let reference = loaded(&bytes, ReferenceIndex::new());
    for (Loaded { worker: ours, .. }, theirs) in new.iter().zip(reference.workers()) {
        assert_eq!(holdings(&index, ours.id()), holdings(reference.index(), theirs.id()));
    }
    assert_eq!(holdings(&index, here.id()), before);
    let mut covered = Runs::new();
    index.coverage(new[0].worker.id(), View::MAIN, &[101, 102, 103, 104, 105, 7].map(ContentHash), &mut covered);
    assert_eq!(covered.as_slice(), [0..2, 3..6]);
}

#[test]
fn a_second_load_does_not_touch_the_first() {
    let bytes = written(&small(chain()));
    let index = chain();
    let first = load(&bytes[..], &index).unwrap();
    let second = load(&bytes[..], &index).unwrap();
    for (ours, theirs) in first.iter().zip(&second) {
        assert_eq!(holdings(&index, ours.worker.id()), holdings(&index, theirs.worker.id()));
    }
    drop((first, second));
    assert_eq!(index.stats().segments, 0);
}

/// A worker that holds `held` of the positions of one prompt of so many blocks.
fn holes<I: Index>(index: I, blocks: u64, held: impl Fn(u64) -> bool) -> Driver<I> {
    let mut worker = index.add_worker().unwrap();
    let path: Vec<Block> = (0..blocks).map(|nth| Block::named(BlockName(nth), ContentHash(nth))).collect();
    worker.store(View::MAIN, None, &path, &mut Vec::new()).unwrap();
    let gone: Vec<BlockName> = (0..blocks).filter(|&nth| !held(nth)).map(BlockName).collect();
    worker.remove(View::MAIN, &gone, &mut Vec::new());
    Driver::with_workers(index, [worker])
}

#[test]
fn a_chain_of_a_million_blocks_of_which_every_other_segment_is_held() {
    let driver = holes(chain(), 1_000_000, |nth| nth / 64 % 2 == 1);
    let back = loaded(&written(&driver), chain());
    let (ours, theirs) = (back.workers().next().unwrap(), driver.workers().next().unwrap());
    assert_eq!(back.index().digest(ours.id(), View::MAIN), driver.index().digest(theirs.id(), View::MAIN));
    assert_eq!(back.index().digest(ours.id(), View::MAIN).count, 499_968);
}

#[test]
fn thousands_of_branches_behind_a_long_trunk_that_nobody_holds() {
    const TRUNK: u64 = 100_000;
    let index = chain();
    let mut worker = index.add_worker().unwrap();
    let trunk: Vec<Block> = (0..TRUNK).map(|nth| Block::named(BlockName(nth), ContentHash(nth))).collect();
    worker.store(View::MAIN, None, &trunk, &mut Vec::new()).unwrap();
    for branch in TRUNK..TRUNK + 5_000 {
        let block = Block::named(BlockName(branch), ContentHash(branch));
        worker.store(View::MAIN, Some(BlockName(TRUNK - 1)), &[block], &mut Vec::new()).unwrap();
    }
    let names: Vec<BlockName> = (0..TRUNK).map(BlockName).collect();
    worker.remove(View::MAIN, &names, &mut Vec::new());
    let driver = Driver::with_workers(index, [worker]);
    // From the root for each branch, it would be half a billion steps.
    let back = loaded(&written(&driver), chain());
    assert_same(driver.index(), back.index());
    let mut request: Vec<ContentHash> = trunk.iter().map(|block| block.content).collect();
    request.push(ContentHash(TRUNK + 7));
    let mut covered = Runs::new();
    back.index().coverage(back.workers().next().unwrap().id(), View::MAIN, &request, &mut covered);
    assert_eq!(covered.as_slice(), [100_000..100_001]);
}

#[test]
fn holes_of_every_kind_in_one_prompt() {
    for period in [1, 2, 3, 5, 64, 65, 127, 128] {
        let driver = holes(chain(), 700, |nth| nth % period == period - 1);
        assert_same(driver.index(), loaded(&written(&driver), ReferenceIndex::new()).index());
        assert_same(driver.index(), loaded(&written(&driver), chain()).index());
    }
}

/// Workers that hold one prompt of so many blocks; of each, its own index names it by `name`.
fn holders(count: u64, blocks: u64, name: impl Fn(u64, u64) -> u64) -> Driver<ChainIndex> {
    let index = chain();
    let workers: Vec<_> = (0..count)
        .map(|nth| {
            let mut worker = index.add_worker().unwrap();
            let path: Vec<Block> = (0..blocks).map(|at| Block::named(BlockName(name(nth, at)), ContentHash(at << 32))).collect();
            worker.store(View::MAIN, None, &path, &mut Vec::new()).unwrap();
            worker
        })
        .collect();
    Driver::with_workers(index, workers)
}

#[test]
fn twenty_holders_of_a_prompt_are_one_copy_of_it() {
    let one = written(&holders(1, 1_000, |_, at| at)).len();
    let twenty = written(&holders(20, 1_000, |_, at| at)).len();
    assert!(one > 16_000 && twenty < one + 20 * 500, "{one} and {twenty} bytes");
    let strangers = written(&holders(20, 1_000, |nth, at| nth << 32 | at)).len();
    assert!(strangers < one + 20 * 8_500, "{strangers} bytes: names 20 times, contents once");
}

#[test]
fn a_thousand_twins_at_one_place() {
    let build = |index: &dyn Fn() -> ReferenceIndex| {
        let index = index();
        let mut worker = index.add_worker().unwrap();
        let twins: Vec<u64> = (0..1_000).collect();
        for name in twins {
            let blocks = [Block::named(BlockName(name), ContentHash(1))];
            worker.store(View::MAIN, None, &blocks, &mut Vec::new()).unwrap();
        }
        Driver::with_workers(index, [worker])
    };
    let reference = build(&ReferenceIndex::new);
    let ours = loaded(&written(&reference), chain());
    assert_same(ours.index(), reference.index());
    assert_same(loaded(&written(&ours), ReferenceIndex::new()).index(), reference.index());
}

#[test]
fn a_worker_that_changes_between_two_snapshots_is_written_as_it_is() {
    let index = chain();
    let mut worker = index.add_worker().unwrap();
    let mut snapshot = Writer::new(Vec::new()).unwrap();
    // Extended, cut off and stored anew, renamed: the segment has the same id and is another stretch.
    let changes: [fn(&mut ChainWorker); 5] = [
        |worker| worker.store(View::MAIN, None, &[block(1), block(2)], &mut Vec::new()).unwrap(),
        |worker| worker.store(View::MAIN, Some(BlockName(2)), &[block(3)], &mut Vec::new()).unwrap(),
        |worker| worker.remove(View::MAIN, &[BlockName(2), BlockName(3)], &mut Vec::new()),
        |worker| worker.store(View::MAIN, Some(BlockName(1)), &[block(4), block(5)], &mut Vec::new()).unwrap(),
        |worker| {
            worker.remove(View::MAIN, &[BlockName(1)], &mut Vec::new());
            let renamed = Block::named(BlockName(9), ContentHash(1));
            worker.store(View::MAIN, None, &[renamed], &mut Vec::new()).unwrap();
        },
    ];
    let mut expected = Vec::new();
    for change in changes {
        change(&mut worker);
        snapshot.worker(b"", &worker).unwrap();
        expected.push(holdings(&index, worker.id()));
    }
    let bytes = snapshot.finish().unwrap();
    compare(&bytes, &chain(), &expected);
    compare(&bytes, &ReferenceIndex::new(), &expected);
}

/// A block whose name is its content.
fn block(nth: u64) -> Block {
    Block::named(BlockName(nth), ContentHash(nth))
}

fn compare<I: Index<Worker: Portable>>(bytes: &[u8], index: &I, expected: &[std::collections::BTreeSet<kv_index::Holding>]) {
    let workers = load(bytes, index).unwrap();
    let got: Vec<_> = workers.iter().map(|loaded| holdings(index, loaded.worker.id())).collect();
    assert_eq!(got, expected);
}
