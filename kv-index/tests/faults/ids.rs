//! Ids that were recycled, lost or never given out, and answers that are read while more is asked.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kv_index::{ChainIndex, ContentHash, Digest, Index, Matches, Runs, View, Worker, WorkerId};

use crate::scene::{Scene, agreed, blocks, request};

#[test]
fn twins_never_lead_into_what_their_places_memory_holds_later() {
    let mut scene = Scene::new(1);
    for round in 0..200_u64 {
        let old = round * 100;
        scene.store(0, None, &agreed(old..old + 8));
        // Twins of half of the chain, then the whole chain away, twins first or last in turn.
        scene.store(0, None, &blocks(old + 50..old + 54, old..old + 4));
        let (first, twins) = (old + 1_000_000_000..old + 1_000_000_008, old + 50..old + 54);
        let names: Vec<u64> = if round % 2 == 0 { first.chain(twins).collect() } else { twins.chain(first).collect() };
        scene.remove(0, names.into_iter().rev());
        assert_eq!((scene.depths(old..old + 8), scene.segments()), (vec![], 0));
        // Another chain in the same memory: removing the twins again must not touch it.
        let new = old + 20;
        scene.store(0, None, &agreed(new..new + 4));
        scene.remove(0, old + 50..old + 54);
        assert_eq!(scene.depths(new..new + 8), [(0, 4)], "4, and neither 7 nor 1");
        scene.remove(0, (new..new + 4).map(|content| content + 1_000_000_000));
    }
}

#[test]
fn a_name_is_not_taken_for_the_former_owner_of_its_place() {
    let mut scene = Scene::new(2);
    for round in 0..100_u64 {
        let old = round * 100;
        scene.store(0, None, &agreed(old..old + 70));
        scene.leave(0);
        scene.add();
        scene.store(1, None, &agreed(old + 1..old + 71));
        scene.store(0, None, &agreed([old + 7]));
        assert_eq!(scene.depths(old..old + 70), []);
        assert_eq!(scene.depths(old + 1..old + 71), [(1, 70)]);
        scene.clear(1, None);
        scene.clear(0, None);
    }
    scene.compare();
}

#[test]
fn a_worker_whose_writer_is_lost_in_a_panic_leaves_no_ghosts() {
    let index = ChainIndex::new();
    let lost = catch_unwind(AssertUnwindSafe(|| {
        let mut worker = index.add_worker().unwrap();
        worker.store(View::MAIN, None, &agreed(0..100), &mut Vec::new()).unwrap();
        assert_eq!(index.depth(worker.id(), View::MAIN, &request(0..100)), 100);
        panic!("the writer's thread is lost");
    }));
    assert!(lost.is_err());
    let mut matches = Matches::new();
    index.find(&request(0..100), &mut matches);
    assert!(matches.is_empty() && index.workers().is_empty() && index.stats().segments == 0);
    let heir = index.add_worker().unwrap();
    assert_eq!((heir.id(), index.digest(heir.id(), View::MAIN)), (WorkerId(0), Digest::default()));
    assert!(!heir.knows(agreed([0])[0].name.unwrap()));
}

// D18.
#[test]
fn an_id_that_was_never_given_out_covers_nothing() {
    let mut scene = Scene::new(1);
    scene.store(0, None, &agreed(0..10));
    let index = scene.chain.index();
    for id in [1, 2, 63, 64, 65_535, 65_536, u32::MAX].map(WorkerId) {
        let mut runs = Runs::new();
        index.coverage(id, View::MAIN, &request(0..10), &mut runs);
        assert!(runs.as_slice().is_empty() && index.depth(id, View(255), &request(0..10)) == 0);
        assert_eq!((index.depth(id, View::MAIN, &request(0..10)), index.digest(id, View::MAIN)), (0, Digest::default()));
        index.for_each_holding(id, &mut |_| panic!("it holds something"));
    }
}

#[test]
fn a_lookup_is_asked_while_another_answer_is_read() {
    let mut scene = Scene::new(3);
    (0..3).for_each(|seat| _ = scene.store(seat, None, &agreed(0..10 + seat as u64)));
    let index = scene.chain.index();
    let (mut outer, mut inner) = (Matches::new(), Matches::new());
    index.find(&request(0..20), &mut outer);
    let mut seen = 0;
    for row in &outer {
        index.find(&request(0..20), &mut inner);
        assert_eq!(inner.depth(row.worker, row.view), row.depth);
        index.for_each_holding(row.worker, &mut |held| {
            index.find(&[ContentHash(0)], &mut inner);
            seen += usize::from(inner.depth(row.worker, held.view) == 1);
        });
    }
    assert_eq!(seen, 10 + 11 + 12);
}

#[test]
fn a_selector_reads_the_deepest_of_a_thousand_holders_without_the_rest() {
    let index = ChainIndex::new();
    let mut workers: Vec<_> = (0..1_024).map(|_| index.add_worker().unwrap()).collect();
    for (nth, worker) in (0_u64..).zip(&mut workers) {
        worker.store(View::MAIN, None, &agreed(0..=nth % 9), &mut Vec::new()).unwrap();
    }
    let mut matches = Matches::new();
    index.find(&request(0..20), &mut matches);
    let deepest = matches.levels().next().unwrap();
    assert_eq!((deepest.depth, deepest.len()), (9, (0..1_024).filter(|nth| nth % 9 == 8).count()));
    assert!(deepest.holders().all(|(worker, view)| worker.0 % 9 == 8 && view == View::MAIN));
}
