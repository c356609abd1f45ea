use std::collections::HashSet;

use kv_index::{Index, ReferenceIndex};

use super::*;
use crate::contender::{Contender, Reference};
use crate::scenario::SEED;
use crate::workload::Event;

/// The text's counts of different blocks and of memberships.
const TEXT: [(Shape, usize, usize); 3] =
    [(Shape::SHARED, 86_226, 1_992_330), (Shape::PRIVATE, 1_541_246, 2_002_941), (Shape::LONG, 482_000, 2_000_000)];

#[test]
fn the_shapes_have_the_sizes_of_the_text() {
    let ours = TEXT.map(|(shape, ..)| {
        let prompts = Prompts::draw(shape, Names::Agree, SEED);
        (prompts.distinct(), prompts.memberships())
    });
    assert_eq!(ours, [(86_227, 1_991_409), (1_541_236, 2_003_314), (482_000, 2_000_000)]);
    for ((distinct, memberships), (_, text_distinct, text_memberships)) in ours.into_iter().zip(TEXT) {
        assert!(distinct.abs_diff(text_distinct) * 2_000 <= text_distinct, "within 0.05 %: {distinct}");
        assert!(memberships.abs_diff(text_memberships) * 2_000 <= text_memberships, "within 0.05 %: {memberships}");
    }
}

#[test]
fn one_prompt_set_has_1024_holders() {
    let crowd = Prompts::draw(Shape::CROWD, Names::Agree, SEED);
    assert_eq!(crowd.memberships(), crowd.distinct() * 1_024);
    assert!((1_900_000..2_100_000).contains(&crowd.memberships()));
}

/// Everything that a pair's store, in store order, says.
fn stores(prompts: &Prompts) -> Batch {
    let mut batch = Batch::default();
    prompts.pairs().iter().for_each(|pair| prompts.store(pair, &mut batch));
    batch
}

#[test]
fn a_worker_stores_each_block_once_and_only_under_parents_it_holds() {
    for (shape, ..) in TEXT {
        for names in Names::ALL {
            let prompts = Prompts::draw(shape.scaled(0.01), names, 7);
            let batch = stores(&prompts);
            assert_eq!(batch.blocks.len(), prompts.memberships());
            let mut held = HashSet::new();
            for event in &batch.events {
                let Event::Store { worker, parent, start, end } = *event else { panic!("stores only") };
                assert!(parent.is_none_or(|parent| held.contains(&(worker, parent))));
                let blocks = &batch.blocks[start as usize..end as usize];
                assert!(blocks.iter().all(|block| held.insert((worker, block.name))), "{}: stored twice", shape.name);
            }
            let held_by = prompts.held();
            assert_eq!(held_by.iter().map(Vec::len).sum::<usize>(), held.len());
            assert!((0..).zip(held_by).all(|(worker, names)| names.iter().all(|&name| held.contains(&(worker, name)))));
        }
    }
}

/// How many blocks the reference holds after all of `batches`.
fn held_after(workers: u32, batches: &[Batch]) -> u64 {
    let mut reference = Reference::with_workers(workers);
    for batch in batches {
        let mut prepared = reference.prepare(batch);
        reference.apply(&mut prepared);
    }
    let index: &ReferenceIndex = reference.index();
    index.workers().into_iter().map(|worker| index.digest(worker, kv_index::View::MAIN).count).sum()
}

#[test]
fn turning_over_keeps_the_size_and_removing_all_leaves_nothing() {
    for (shape, ..) in TEXT {
        let prompts = Prompts::draw(shape.scaled(0.01), Names::Conflict, 7);
        let (mut turn, mut removal) = (Batch::default(), Batch::default());
        for pair in prompts.pairs() {
            prompts.remove_suffix(pair, 0, &mut turn);
            prompts.store_suffix(pair, 1, &mut turn);
            prompts.remove_suffix(pair, 1, &mut removal);
        }
        let bringing = prompts.pairs().iter().filter(|pair| pair.brings_head);
        bringing.for_each(|pair| prompts.remove_head(pair, &mut removal));
        let batches = [stores(&prompts), turn, removal];
        let held = [1, 2, 3].map(|count| held_after(shape.workers, &batches[..count]));
        assert_eq!(held, [prompts.memberships() as u64, prompts.memberships() as u64, 0]);
    }
}

#[test]
fn a_new_generation_shares_the_head_and_nothing_else() {
    let prompts = Prompts::draw(Shape::LONG.scaled(0.02), Names::Agree, 7);
    let (old, new) = (prompts.path(0, 0), prompts.path(0, 1));
    assert_eq!(old[..300], new[..300]);
    assert!((300..1_000).all(|at| old[at] != new[at]));
}
