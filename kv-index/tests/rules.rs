//! Each rule of the contract (head of `kv_index::index`) by name, on the reference, on the chain index and on shards of it.

use kv_index::limits::{VIEWS_MAX, WORKERS_MAX};
use kv_index::testing::{holdings, row};
use kv_index::{
    Block, BlockName, ChainIndex, ChainOptions, ContentHash, Index, Matches, ReferenceIndex, Removed, Runs, Sharded, StoreError,
    Stored, View, ViewsExhausted, Worker, WorkersExhausted,
};

const DEVICE: View = View(1);

/// An index that can be made empty.
trait Empty: Index {
    /// One that takes `workers_max` workers at a time.
    fn for_workers(workers_max: u32) -> Self;

    fn empty() -> Self
    where
        Self: Sized,
    {
        Self::for_workers(WORKERS_MAX)
    }
}

impl Empty for ReferenceIndex {
    fn for_workers(workers_max: u32) -> Self {
        Self::with_workers_max(workers_max)
    }
}

impl Empty for ChainIndex {
    fn for_workers(workers_max: u32) -> Self {
        Self::with_options(&ChainOptions { workers_max: Some(workers_max), ..ChainOptions::default() })
    }
}

impl<I: Empty> Empty for Sharded<I> {
    /// Two shards, where there is a worker for each.
    fn for_workers(workers_max: u32) -> Self {
        let shards = workers_max.min(2);
        Self::new((0..shards).map(|_| I::for_workers(workers_max / shards)).collect()).unwrap()
    }
}

/// Runs each rule on each index.
macro_rules! on_every_index {
    ($($rule:ident),+ $(,)?) => {
        on_every_index!(@on reference, kv_index::ReferenceIndex, $($rule),+);
        on_every_index!(@on chain, kv_index::ChainIndex, $($rule),+);
        on_every_index!(@on sharded, kv_index::Sharded<kv_index::ChainIndex>, $($rule),+);
    };
    (@on $module:ident, $index:ty, $($rule:ident),+) => {
        mod $module {
            $(#[test] fn $rule() { super::$rule::<$index>(); })+
        }
    };
}

fn named(name: u64, content: u64) -> Block {
    Block::named(BlockName(name), ContentHash(content))
}

fn step(content: u64) -> Block {
    Block::step(ContentHash(content))
}

fn request(contents: &[u64]) -> Vec<ContentHash> {
    contents.iter().copied().map(ContentHash).collect()
}

fn two_views<I: Index>(index: &I) -> I::Worker {
    let mut worker = index.add_worker().unwrap();
    assert_eq!(worker.add_view(), Ok(DEVICE));
    worker
}

fn store(worker: &mut impl Worker, view: View, parent: Option<u64>, blocks: &[Block]) -> Vec<Stored> {
    let mut out = Vec::new();
    worker.store(view, parent.map(BlockName), blocks, &mut out).unwrap();
    out
}

fn remove(worker: &mut impl Worker, view: View, names: &[u64]) -> Vec<Removed> {
    let mut out = Vec::new();
    let names: Vec<_> = names.iter().copied().map(BlockName).collect();
    worker.remove(view, &names, &mut out);
    out
}

fn depth<I: Index>(index: &I, worker: &I::Worker, view: View, contents: &[u64]) -> u32 {
    index.depth(worker.id(), view, &request(contents))
}

fn rules_1_and_2_stores_stand_at_the_root_or_after_their_parent<I: Empty>() {
    let index = I::empty();
    let mut worker = index.add_worker().unwrap();
    store(&mut worker, View::MAIN, None, &[named(1, 10), named(2, 20)]);
    store(&mut worker, View::MAIN, Some(2), &[named(3, 30)]);
    assert_eq!(depth(&index, &worker, View::MAIN, &[10, 20, 30, 40]), 3);
    assert_eq!(depth(&index, &worker, View::MAIN, &[20]), 0);
}

fn rule_2_an_unheld_parent_refuses_the_whole_store<I: Empty>() {
    let index = I::empty();
    let mut worker = two_views(&index);
    store(&mut worker, View::MAIN, None, &[named(1, 10)]);
    let mut out = vec![Stored::New];
    let parent = BlockName(9);
    assert_eq!(worker.store(View::MAIN, Some(parent), &[named(2, 20)], &mut out), Err(StoreError::ParentNotHeld { parent }));
    assert!(out.is_empty() && holdings(&index, worker.id()).len() == 1);
    // A parent that only another view holds is held.
    store(&mut worker, DEVICE, Some(1), &[named(2, 20)]);
    remove(&mut worker, View::MAIN, &[1]);
    assert!(!worker.knows(BlockName(1)), "and one that nobody holds any more is not");
    assert!(worker.store(DEVICE, Some(BlockName(1)), &[], &mut out).is_err());
    assert_eq!(worker.store(View(2), None, &[named(5, 5)], &mut out), Err(StoreError::UnknownView { view: View(2), views: 2 }));
}

fn rule_3_a_name_stands_at_one_place_and_the_latest_store_wins<I: Empty>() {
    let index = I::empty();
    let mut worker = two_views(&index);
    assert_eq!(store(&mut worker, View::MAIN, None, &[named(1, 10)]), [Stored::New]);
    assert_eq!(store(&mut worker, View::MAIN, None, &[named(1, 10)]), [Stored::AlreadyHeld]);
    assert_eq!(store(&mut worker, DEVICE, None, &[named(1, 10)]), [Stored::New], "another view holds it too");
    assert_eq!(index.digest(worker.id(), View::MAIN).count, 1);
    assert!(worker.holds(View::MAIN, BlockName(1)) && worker.holds(DEVICE, BlockName(1)));
    assert_eq!(store(&mut worker, DEVICE, None, &[named(1, 11)]), [Stored::Moved]);
    assert_eq!(depth(&index, &worker, View::MAIN, &[10]), 0, "every view lost the old place");
    assert_eq!(depth(&index, &worker, View::MAIN, &[11]), 0, "only the storing view holds the new one");
    assert_eq!(depth(&index, &worker, DEVICE, &[11]), 1);
    assert!(!worker.holds(View::MAIN, BlockName(1)) && worker.knows(BlockName(1)));
}

fn rule_4_twins_cover_until_the_last_goes<I: Empty>() {
    let index = I::empty();
    let mut worker = index.add_worker().unwrap();
    store(&mut worker, View::MAIN, None, &[named(1, 10)]);
    assert_eq!(store(&mut worker, View::MAIN, None, &[named(2, 10)]), [Stored::New]);
    assert_eq!(index.digest(worker.id(), View::MAIN).count, 2);
    remove(&mut worker, View::MAIN, &[1]);
    assert_eq!(depth(&index, &worker, View::MAIN, &[10]), 1);
    remove(&mut worker, View::MAIN, &[2]);
    assert_eq!(depth(&index, &worker, View::MAIN, &[10]), 0);
}

fn rule_5_a_step_is_placed_and_not_held<I: Empty>() {
    let index = I::empty();
    let mut worker = index.add_worker().unwrap();
    assert_eq!(
        store(&mut worker, View::MAIN, None, &[step(10), named(2, 20), step(30)]),
        [Stored::Step, Stored::New, Stored::Step]
    );
    assert_eq!(depth(&index, &worker, View::MAIN, &[10, 20, 30]), 0);
    let mut runs = Runs::new();
    index.coverage(worker.id(), View::MAIN, &request(&[10, 20, 30]), &mut runs);
    assert_eq!(runs.as_slice(), [1..2]);
}

fn rule_6_a_name_repeated_in_one_store_moves_along<I: Empty>() {
    let index = I::empty();
    let mut worker = index.add_worker().unwrap();
    assert_eq!(store(&mut worker, View::MAIN, None, &[named(1, 10), named(1, 20)]), [Stored::New, Stored::Moved]);
    let held: Vec<_> = holdings(&index, worker.id()).into_iter().map(|held| (held.position, held.content)).collect();
    assert_eq!(held, [(1, ContentHash(20))]);
    // A block that is its own parent moves below itself; the place it left stays a step of the path.
    store(&mut worker, View::MAIN, None, &[named(5, 50)]);
    assert_eq!(store(&mut worker, View::MAIN, Some(5), &[named(5, 51)]), [Stored::Moved]);
    store(&mut worker, View::MAIN, None, &[named(6, 50)]);
    assert_eq!(depth(&index, &worker, View::MAIN, &[50, 51]), 2);
}

fn rule_7_removing_what_is_not_held_changes_nothing<I: Empty>() {
    let index = I::empty();
    let mut worker = two_views(&index);
    store(&mut worker, View::MAIN, None, &[named(1, 10)]);
    assert_eq!(remove(&mut worker, DEVICE, &[1, 7]), [Removed::Unknown; 2]);
    assert_eq!(remove(&mut worker, View::MAIN, &[1, 1]), [Removed::Removed, Removed::Unknown]);
}

fn rule_8_a_hole_stops_a_lookup_and_heals<I: Empty>() {
    let index = I::empty();
    let mut worker = index.add_worker().unwrap();
    let chain = [named(1, 10), named(2, 20), named(3, 30), named(4, 40)];
    store(&mut worker, View::MAIN, None, &chain);
    remove(&mut worker, View::MAIN, &[2]);
    assert_eq!(depth(&index, &worker, View::MAIN, &[10, 20, 30, 40]), 1);
    let mut runs = Runs::new();
    index.coverage(worker.id(), View::MAIN, &request(&[10, 20, 30, 40]), &mut runs);
    assert_eq!(runs.as_slice(), [0..1, 2..4]);
    store(&mut worker, View::MAIN, Some(1), &[named(2, 20)]);
    assert_eq!(depth(&index, &worker, View::MAIN, &[10, 20, 30, 40]), 4);
}

fn rule_9_clears_and_drops_leave_no_trace<I: Empty>() {
    let index = I::for_workers(1);
    let mut worker = two_views(&index);
    store(&mut worker, View::MAIN, None, &[named(1, 10)]);
    store(&mut worker, DEVICE, None, &[named(1, 10), named(2, 20)]);
    worker.clear_view(DEVICE);
    assert_eq!((depth(&index, &worker, View::MAIN, &[10]), depth(&index, &worker, DEVICE, &[10])), (1, 0));
    worker.clear();
    assert!(holdings(&index, worker.id()).is_empty() && worker.views() == 2);
    store(&mut worker, View::MAIN, None, &[named(1, 10)]);
    let id = worker.id();
    assert_eq!(index.add_worker().err(), Some(WorkersExhausted { max: 1 }));
    drop(worker);
    let heir = index.add_worker().unwrap();
    assert_eq!((heir.id(), heir.views()), (id, 1));
    assert!(holdings(&index, id).is_empty() && !heir.knows(BlockName(1)));
}

fn rules_10_and_12_workers_are_scored_apart_whatever_their_names<I: Empty>() {
    let index = I::empty();
    let (mut left, mut right) = (index.add_worker().unwrap(), index.add_worker().unwrap());
    store(&mut left, View::MAIN, None, &[named(1, 10), named(2, 20)]);
    store(&mut right, View::MAIN, None, &[named(2, 10), named(1, 99)]);
    let mut matches = Matches::new();
    index.find(&request(&[10, 20]), &mut matches);
    let rows: Vec<_> = matches.iter().collect();
    assert_eq!(rows, [row(2, left.id(), View::MAIN), row(1, right.id(), View::MAIN)]);
    remove(&mut left, View::MAIN, &[1]);
    assert_eq!(depth(&index, &right, View::MAIN, &[10, 99]), 2);
}

fn empty_and_oversized_input_is_ordinary<I: Empty>() {
    let index = I::empty();
    let mut worker = index.add_worker().unwrap();
    assert!(store(&mut worker, View::MAIN, None, &[]).is_empty());
    assert!(remove(&mut worker, View::MAIN, &[]).is_empty());
    let mut matches = Matches::new();
    index.find(&[], &mut matches);
    assert!(matches.is_empty());
    store(&mut worker, View::MAIN, None, &[named(1, 10)]);
    assert_eq!(depth(&index, &worker, View::MAIN, &vec![10; 10_000]), 1);
    assert_eq!(depth(&index, &worker, View(31), &[10]), 0, "a view that does not exist covers nothing");
}

fn holdings_can_be_moved_to_another_worker_while_they_are_visited<I: Empty>() {
    let index = I::empty();
    let (mut left, mut right) = (index.add_worker().unwrap(), index.add_worker().unwrap());
    store(&mut left, View::MAIN, None, &[named(1, 10), named(2, 20)]);
    index.for_each_holding(left.id(), &mut |held| {
        assert_eq!(index.depth(left.id(), held.view, &request(&[10, 20])), 2);
        store(&mut right, held.view, None, &[Block::named(held.name, held.content)]);
    });
    assert_eq!(index.digest(right.id(), View::MAIN).count, 2);
}

fn answers_hold_the_last_question_only<I: Empty>() {
    let index = I::empty();
    let mut worker = index.add_worker().unwrap();
    store(&mut worker, View::MAIN, None, &[named(1, 10), named(2, 20)]);
    let (mut matches, mut runs) = (Matches::new(), Runs::new());
    for asked in [vec![10, 20], vec![10], vec![30]] {
        index.find(&request(&asked), &mut matches);
        index.coverage(worker.id(), View::MAIN, &request(&asked), &mut runs);
        let expected = u32::from(asked[0] == 10) * u32::try_from(asked.len()).unwrap();
        assert_eq!((matches.iter().count(), runs.depth()), (usize::from(expected > 0), expected), "{asked:?}");
    }
    let mut removed = vec![Removed::Unknown];
    worker.remove(View::MAIN, &[BlockName(1)], &mut removed);
    assert_eq!(removed, [Removed::Removed]);
}

fn ids_are_dense_and_the_lowest_free_one_is_given_out<I: Empty>() {
    let index = I::empty();
    let mut workers: Vec<_> = (0..3).map(|_| index.add_worker().unwrap()).collect();
    assert_eq!(workers.iter().map(|worker| worker.id().0).collect::<Vec<_>>(), [0, 1, 2]);
    drop(workers.remove(1));
    assert_eq!(index.workers().len(), 2);
    assert_eq!(index.add_worker().unwrap().id().0, 1);
}

fn views_end_at_their_bound<I: Empty>() {
    let index = I::empty();
    let mut worker = index.add_worker().unwrap();
    for view in 1..VIEWS_MAX {
        assert_eq!(worker.add_view(), Ok(View(view)));
    }
    assert_eq!(worker.add_view(), Err(ViewsExhausted { max: VIEWS_MAX }));
    assert_eq!(worker.views(), VIEWS_MAX);
}

fn a_chain_of_a_million_blocks_comes_and_goes<I: Empty>() {
    let index = I::empty();
    let mut worker = index.add_worker().unwrap();
    let chain: Vec<Block> = (0..1_000_000).map(|i| named(i, i / 3)).collect();
    store(&mut worker, View::MAIN, None, &chain);
    let all: Vec<_> = chain.iter().map(|block| block.content).collect();
    assert_eq!(index.depth(worker.id(), View::MAIN, &all), 1_000_000);
    remove(&mut worker, View::MAIN, &(0..1_000_000).collect::<Vec<_>>());
    assert_eq!(index.digest(worker.id(), View::MAIN), kv_index::Digest::default());
}

on_every_index! {
    rules_1_and_2_stores_stand_at_the_root_or_after_their_parent,
    rule_2_an_unheld_parent_refuses_the_whole_store,
    rule_3_a_name_stands_at_one_place_and_the_latest_store_wins,
    rule_4_twins_cover_until_the_last_goes,
    rule_5_a_step_is_placed_and_not_held,
    rule_6_a_name_repeated_in_one_store_moves_along,
    rule_7_removing_what_is_not_held_changes_nothing,
    rule_8_a_hole_stops_a_lookup_and_heals,
    rule_9_clears_and_drops_leave_no_trace,
    rules_10_and_12_workers_are_scored_apart_whatever_their_names,
    empty_and_oversized_input_is_ordinary,
    holdings_can_be_moved_to_another_worker_while_they_are_visited,
    answers_hold_the_last_question_only,
    ids_are_dense_and_the_lowest_free_one_is_given_out,
    views_end_at_their_bound,
    a_chain_of_a_million_blocks_comes_and_goes,
}
