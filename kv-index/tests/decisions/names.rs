//! Which name means which place to whom.

use kv_index::{ChainIndex, Digest, Index, Removed, Stored, View, Worker, WorkerId};

use crate::scene::{Scene, agreed, blocks, seeded};

const NAME: u64 = 1_000_000_000;

#[test]
fn the_trap_of_a_shared_name_that_is_found_at_a_place_held_under_another() {
    let mut scene = Scene::new(2);
    scene.store(0, None, &blocks([1, 2], [10, 20]));
    scene.store(1, None, &blocks([8, 9], [10, 20]));
    // Names 1 and 2 lead to places that worker 1 covers, and it has stored neither.
    assert_eq!(scene.remove(1, [2, 1]), [Removed::Unknown; 2]);
    assert_eq!(scene.depths([10, 20]), [(0, 2), (1, 2)]);
    assert_eq!(scene.remove(1, [9]), [Removed::Removed]);
    assert_eq!(scene.depths([10, 20]), [(0, 2), (1, 1)]);
    assert!(scene.offer(0, 1, Some(1), &agreed([30])).is_err(), "nor may it be a parent");
    scene.compare();
}

#[test]
fn the_trap_stays_shut_when_the_other_name_is_the_only_one_left() {
    let mut scene = Scene::new(2);
    scene.store(0, None, &blocks([1], [10]));
    scene.store(1, None, &blocks([1], [10]));
    assert_eq!(scene.store(1, None, &blocks([7], [10])), [Stored::New], "a twin");
    assert_eq!(scene.remove(1, [1, 1]), [Removed::Removed, Removed::Unknown]);
    assert_eq!(scene.depths([10]), [(0, 1), (1, 1)]);
    assert_eq!(scene.store(1, None, &blocks([1], [10])), [Stored::New], "it is a new holding again");
    assert_eq!(scene.remove(1, [7, 1]), [Removed::Removed; 2]);
    assert_eq!(scene.depths([10]), [(0, 1)]);
}

#[test]
fn twins_are_counted_at_their_place_view_by_view() {
    let mut scene = Scene::with_views(1, 2);
    for view in 0..2 {
        for name in 1..6 {
            assert_eq!(scene.store_in(view, 0, None, &blocks([name], [10])), [Stored::New]);
        }
    }
    for name in 1..5 {
        scene.remove(0, [name]);
        assert_eq!(scene.depths([10]), [(0, 1)]);
    }
    scene.remove(0, [5]);
    assert_eq!(scene.depths([10]), []);
    let digest = |scene: &Scene, view| scene.chain.index().digest(WorkerId(0), View(view));
    assert_eq!((digest(&scene, 0), digest(&scene, 1).count), (Digest::default(), 5));
    scene.remove_in(1, 0, 1..6);
    assert_eq!(scene.segments(), 0);
}

#[test]
fn a_name_that_another_worker_has_for_another_place_is_each_workers_own() {
    let mut scene = Scene::new(3);
    scene.store(0, None, &blocks([1], [10]));
    scene.store(1, None, &blocks([1], [11]));
    scene.store(2, None, &blocks([1], [11]));
    assert_eq!(scene.remove(1, [1]), [Removed::Removed]);
    assert_eq!((scene.depths([10]), scene.depths([11])), (vec![(0, 1)], vec![(2, 1)]));
    scene.store(0, Some(1), &blocks([2], [20]));
    scene.store(2, Some(1), &blocks([2], [20]));
    assert_eq!((scene.depths([10, 20]), scene.depths([11, 20])), (vec![(0, 2)], vec![(2, 2)]));
}

#[test]
fn a_moved_name_leaves_its_old_place_to_those_who_did_not_move_it() {
    let mut scene = Scene::new(2);
    (0..2).for_each(|seat| _ = scene.store(seat, None, &blocks([1, 2], [10, 20])));
    assert_eq!(scene.store(0, None, &blocks([2], [99])), [Stored::Moved]);
    assert_eq!((scene.depths([10, 20]), scene.depths([99])), (vec![(0, 1), (1, 2)], vec![(0, 1)]));
    scene.remove(0, [2]);
    assert_eq!((scene.depths([10, 20]), scene.depths([99])), (vec![(0, 1), (1, 2)], vec![]));
}

#[test]
fn going_private_changes_nothing_that_anybody_sees() {
    let mut scene = Scene::new(3);
    (0..3).for_each(|seat| _ = scene.store(seat, None, &agreed(0..300)));
    let before = scene.depths(0..300);
    // One name after the other becomes worker 1's own, far beyond what an agreeing worker may keep.
    for at in 0..200_u64 {
        let parent = (at > 0).then_some(at);
        scene.store(1, parent, &blocks([at + 1], [at]));
        scene.remove(1, [NAME + at]);
        assert_eq!(scene.depths(0..300), before);
    }
    scene.compare();
    assert_eq!(scene.remove(1, (0..200).map(|at| NAME + at)), vec![Removed::Unknown; 200]);
    assert_eq!(scene.remove(1, (1..201).rev()), vec![Removed::Removed; 200]);
    assert_eq!(scene.depths(0..300), [(0, 300), (2, 300)]);
    assert_eq!(scene.remove(0, (0..300).rev().map(|at| NAME + at)), vec![Removed::Removed; 300]);
    scene.compare();
}

/// Bytes that one more worker's store adds to what `before` left behind.
fn bytes_after(before: impl FnOnce(&ChainIndex)) -> usize {
    let index = ChainIndex::with_options(&seeded());
    before(&index);
    let bytes_before = index.stats().bytes;
    let mut worker = index.add_worker().unwrap();
    worker.store(View::MAIN, None, &agreed(0..20_000), &mut Vec::new()).unwrap();
    index.stats().bytes - bytes_before
}

#[test]
fn names_of_a_departed_owner_can_be_claimed_by_who_comes_after() {
    let alone = bytes_after(|_| {});
    let owner_left = bytes_after(|index| {
        // Everybody's names, and the owner's for other contents.
        let mut owner = index.add_worker().unwrap();
        owner.store(View::MAIN, None, &blocks(NAME..NAME + 20_000, 50_000..70_000), &mut Vec::new()).unwrap();
    });
    // Names of one's own would be half as much again.
    assert!(owner_left * 10 < alone * 11, "{owner_left} bytes after an owner, {alone} without");
}

#[test]
fn names_that_nobody_stands_for_can_be_claimed_though_their_places_are_held() {
    let beside_a_loner = |index: &ChainIndex| {
        let mut loner = index.add_worker().unwrap();
        loner.store(View::MAIN, None, &blocks(1..20_001, 50_000..70_000), &mut Vec::new()).unwrap();
        std::mem::forget(loner);
    };
    let alone = bytes_after(beside_a_loner);
    let owner_left = bytes_after(|index| {
        let mut owner = index.add_worker().unwrap();
        owner.store(View::MAIN, None, &blocks(NAME..NAME + 20_000, 50_000..70_000), &mut Vec::new()).unwrap();
        beside_a_loner(index);
    });
    assert!(owner_left * 10 < alone * 12, "{owner_left} bytes after an owner, {alone} without");
}

#[test]
fn a_worker_that_was_private_agrees_again_after_a_clear() {
    let alone = bytes_after(|_| {});
    let index = ChainIndex::with_options(&seeded());
    let (mut leader, mut worker) = (index.add_worker().unwrap(), index.add_worker().unwrap());
    leader.store(View::MAIN, None, &agreed(0..20_000), &mut Vec::new()).unwrap();
    worker.store(View::MAIN, None, &blocks(1..20_001, 0..20_000), &mut Vec::new()).unwrap();
    let private = index.stats().bytes;
    worker.clear();
    worker.store(View::MAIN, None, &agreed(0..20_000), &mut Vec::new()).unwrap();
    let agreeing = index.stats().bytes;
    assert!(agreeing * 10 < alone * 11 && private * 10 > alone * 13, "{alone} alone, {private} private, {agreeing} agreeing");
}
