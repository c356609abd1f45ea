//! One home for a place, what stays of a path that nobody holds, and cascades.

use kv_index::{Index, Removed, Runs, View, WorkerId};

use crate::scene::{Scene, agreed, blocks, request};

const NAME: u64 = 1_000_000_000;

fn path(head: std::ops::Range<u64>, tail: &[u64]) -> Vec<u64> {
    head.chain(tail.iter().copied()).collect()
}

#[test]
fn what_one_worker_appends_and_another_hangs_below_is_one_place() {
    let mut scene = Scene::new(3);
    (0..3).for_each(|seat| _ = scene.store(seat, None, &agreed(0..10)));
    // Worker 0 makes a child there, as worker 1 and 2 cover the end; both then go where it is.
    scene.store(0, Some(NAME + 9), &agreed([10]));
    let segments = scene.segments();
    scene.store(1, Some(NAME + 9), &agreed([10]));
    scene.store(2, None, &agreed(0..11));
    assert_eq!(scene.segments(), segments, "nobody made a second home");
    assert_eq!(scene.depths(0..20), [(0, 11), (1, 11), (2, 11)]);
    // The last holder of the end alone appends, beside the edge that leaves at the same offset.
    scene.store(0, Some(NAME + 9), &blocks([77], [77]));
    scene.remove(1, (0..11).rev().map(|at| NAME + at));
    scene.remove(2, (0..11).rev().map(|at| NAME + at));
    scene.store(0, Some(NAME + 9), &blocks([78], [78]));
    scene.store(0, Some(NAME + 10), &agreed([11]));
    for (tail, depth) in [(&[10, 11][..], 12), (&[77], 11), (&[78], 11), (&[79], 10)] {
        assert_eq!(scene.depths(path(0..10, tail)), [(0, depth)], "{tail:?}");
    }
    scene.compare();
}

#[test]
fn an_end_that_was_cut_off_at_a_child_is_not_appended_to() {
    let mut scene = Scene::new(3);
    scene.store(0, None, &agreed(0..20));
    scene.store(0, Some(NAME + 9), &agreed([900]));
    scene.remove(0, (10..20).rev().map(|at| NAME + at));
    // The child leaves at the very end now. Who comes along its content must find it, and who brings another makes a child as well.
    scene.store(1, None, &agreed(path(0..10, &[900, 901])));
    scene.store(2, None, &agreed(path(0..10, &[10, 11])));
    scene.store(0, Some(NAME + 9), &agreed([10]));
    assert_eq!(scene.depths(path(0..10, &[900, 901])), [(0, 11), (1, 12), (2, 10)]);
    assert_eq!(scene.depths(path(0..10, &[10, 11])), [(0, 11), (1, 10), (2, 12)]);
    scene.compare();
}

// #23.
#[test]
fn chains_that_part_at_every_offset_keep_their_own_ends() {
    let mut scene = Scene::new(2);
    scene.store(0, None, &agreed(0..130));
    for at in 0..130_u64 {
        let parent = at.checked_sub(1).map(|before| NAME + before);
        scene.store(0, parent, &blocks([5_000 + at], [5_000 + at]));
        scene.store(1, None, &agreed(path(0..at, &[6_000 + at])));
    }
    for at in 0..130_u64 {
        assert_eq!(scene.depths(path(0..at, &[5_000 + at])).first(), Some(&(0, at + 1)));
        assert_eq!(scene.depths(path(0..at, &[6_000 + at])).last(), Some(&(1, at + 1)));
    }
    scene.compare();
}

#[test]
fn a_truncation_stops_where_a_child_leaves() {
    let mut scene = Scene::new(2);
    scene.store(0, None, &agreed(0..60));
    scene.store(1, None, &agreed(path(0..30, &[900, 901])));
    scene.remove(0, (0..60).rev().map(|at| NAME + at));
    assert_eq!(scene.depths(path(0..30, &[900, 901])), [(1, 32)]);
    scene.compare();
}

#[test]
fn unheld_places_stay_while_something_hangs_below_them_and_go_with_it() {
    let mut scene = Scene::new(1);
    scene.store(0, None, &agreed(path(0..100, &[900, 901])));
    scene.store(0, Some(NAME + 49), &agreed([950]));
    scene.remove(0, (0..100).rev().map(|at| NAME + at));
    assert_eq!(scene.depths(path(0..100, &[900])), []);
    let mut runs = Runs::new();
    scene.chain.index().coverage(WorkerId(0), View::MAIN, &request(path(0..100, &[900, 901])), &mut runs);
    assert_eq!(runs.as_slice(), [100..102]);
    // A healed path is whole at once.
    scene.store(0, None, &agreed(0..100));
    assert_eq!(scene.depths(path(0..100, &[900, 901])), [(0, 102)]);
    scene.remove(0, (0..100).map(|at| NAME + at));
    scene.remove(0, [NAME + 901, NAME + 900]);
    assert_eq!(scene.depths(path(0..50, &[950])), []);
    assert!(scene.segments() > 0, "950 is still there");
    scene.remove(0, [NAME + 950]);
    assert_eq!(scene.segments(), 0, "and with it the path to it");
}

#[test]
fn a_hole_that_is_healed_by_another_name_is_healed() {
    let mut scene = Scene::new(1);
    scene.store(0, None, &agreed(0..10));
    scene.remove(0, [NAME + 4]);
    assert_eq!(scene.depths(0..10), [(0, 4)]);
    scene.store(0, Some(NAME + 3), &blocks([44], [4]));
    assert_eq!(scene.depths(0..10), [(0, 10)]);
    assert_eq!(scene.remove(0, [NAME + 4, 44]), [Removed::Unknown, Removed::Removed]);
    assert_eq!(scene.depths(0..10), [(0, 4)]);
}

#[test]
fn a_cascade_from_the_root_unlinks_every_segment() {
    let mut scene = Scene::new(2);
    let long = 0..30_000;
    scene.store(0, None, &agreed(long.clone()));
    scene.store(1, None, &agreed(path(0..20_000, &[40_000])));
    // Root first, in one event: nothing can go before the last of it has.
    assert!(scene.remove(0, long.map(|at| NAME + at)).iter().all(|&removed| removed == Removed::Removed));
    assert_eq!(scene.depths(path(0..20_000, &[40_000])), [(1, 20_001)]);
    scene.remove(1, (0..20_000).chain([40_000]).map(|at| NAME + at));
    assert_eq!(scene.segments(), 0);
    scene.compare();
}

#[test]
fn answers_do_not_depend_on_the_seed() {
    use kv_index::testing::{Driver, Mix, assert_same, random_ops};
    let of = |seed| kv_index::ChainIndex::with_options(&kv_index::ChainOptions { seed: Some([seed, 3]), ..Default::default() });
    let (mut left, mut right) = (Driver::new(of(1)), Driver::new(of(2)));
    for op in random_ops(5, 2_000, &Mix::DENSE) {
        assert_eq!(left.apply(&op), right.apply(&op), "{op:?}");
    }
    assert_same(left.index(), right.index());
}
