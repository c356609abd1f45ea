//! Who holds a place: full and partial holders, many of them, and workers that leave and come back.

use kv_index::{Index, Matches, Removed, View, WorkerId};

use crate::scene::{Scene, agreed, blocks, request};

const NAME: u64 = 1_000_000_000;

#[test]
fn an_append_behind_a_full_holder_is_not_the_other_holders() {
    let mut scene = Scene::new(3);
    (0..3).for_each(|seat| _ = scene.store(seat, None, &agreed(0..10)));
    scene.store(1, Some(NAME + 9), &agreed(10..12));
    assert_eq!(scene.depths(0..20), [(0, 10), (1, 12), (2, 10)]);
    scene.store(2, Some(NAME + 9), &agreed(10..11));
    assert_eq!(scene.depths(0..20), [(0, 10), (1, 12), (2, 11)]);
    scene.compare();
}

#[test]
fn an_append_behind_a_hole_is_covered_beyond_it_only() {
    let mut scene = Scene::new(2);
    (0..2).for_each(|seat| _ = scene.store(seat, None, &agreed(0..10)));
    scene.remove(0, [NAME + 3]);
    scene.store(0, Some(NAME + 9), &agreed(10..12));
    assert_eq!(scene.depths(0..20), [(0, 3), (1, 10)]);
    scene.store(0, Some(NAME + 2), &agreed([3]));
    assert_eq!(scene.depths(0..20), [(0, 12), (1, 10)]);
}

#[test]
fn a_holder_turns_from_full_to_partial_and_back_at_every_place() {
    let mut scene = Scene::new(2);
    (0..2).for_each(|seat| _ = scene.store(seat, None, &agreed(0..64)));
    for at in 0..64 {
        assert_eq!(scene.remove(0, [NAME + at]), [Removed::Removed]);
        let expected: Vec<_> = [(0, at), (1, 64)].into_iter().filter(|row| row.1 > 0).collect();
        assert_eq!(scene.depths(0..64), expected);
        let parent = at.checked_sub(1).map(|before| NAME + before);
        scene.store(0, parent, &agreed([at]));
        assert_eq!(scene.depths(0..64), [(0, 64), (1, 64)]);
    }
    scene.compare();
}

#[test]
fn a_prefix_that_a_truncation_made_whole_is_not_what_is_appended_later() {
    let mut scene = Scene::new(3);
    scene.store(0, None, &agreed(0..20));
    scene.store(1, None, &agreed(0..10));
    scene.store(2, None, &agreed(0..9));
    scene.remove(0, (10..20).rev().map(|at| NAME + at));
    assert_eq!(scene.depths(0..20), [(0, 10), (1, 10), (2, 9)]);
    scene.store(0, Some(NAME + 9), &agreed(10..15));
    assert_eq!(scene.depths(0..20), [(0, 15), (1, 10), (2, 9)]);
    scene.remove(0, (9..15).rev().map(|at| NAME + at));
    scene.store(2, Some(NAME + 8), &agreed(9..12));
    assert_eq!(scene.depths(0..20), [(0, 9), (1, 10), (2, 12)]);
    scene.compare();
}

#[test]
fn a_place_is_held_until_the_last_of_many_holders_goes() {
    let mut scene = Scene::new(300);
    (0..300).for_each(|seat| _ = scene.store(seat, None, &agreed(0..40 + seat as u64 % 3)));
    for seat in 0..299 {
        scene.remove(seat, (0..42).rev().map(|at| NAME + at));
    }
    let (seat, depth) = (299, 40 + 299 % 3);
    assert_eq!(scene.depths(0..50), [(seat, depth)]);
    assert!(scene.segments() > 0);
    scene.remove(299, (0..42).rev().map(|at| NAME + at));
    assert_eq!((scene.depths(0..50), scene.segments()), (vec![], 0));
}

#[test]
fn a_thousand_partial_holders_of_one_segment_are_scored_apart() {
    let mut scene = Scene::new(1_100);
    for seat in 0..1_100 {
        scene.store(seat, None, &agreed(0..=seat as u64 % 64));
        // Every fifth has holes as well, of more kinds than there are classes.
        if seat % 5 == 0 {
            scene.remove(seat, [seat as u64 * 7 % 61, seat as u64 * 13 % 59].map(|at| NAME + at));
        }
    }
    let depths = scene.depths(0..70);
    assert!(depths.len() > 1_000);
    assert!(depths.iter().filter(|row| row.0 % 5 != 0).all(|row| row.1 == u64::from(row.0 % 64) + 1));
    scene.compare();
}

#[test]
fn four_thousand_workers_hold_one_chain_and_half_of_them_leave() {
    let mut scene = Scene::new(4_096);
    (0..4_096).for_each(|seat| _ = scene.store(seat, None, &agreed(0..5)));
    let mut matches = Matches::new();
    let ask = |scene: &Scene, matches: &mut Matches| {
        scene.chain.index().find(&request(0..9), matches);
        let level = matches.levels().next().unwrap();
        (matches.levels().count(), level.depth, level.len(), level.contains(WorkerId(4_095), View::MAIN))
    };
    assert_eq!(ask(&scene, &mut matches), (1, 5, 4_096, true));
    (1..4_096).step_by(2).for_each(|seat| _ = scene.remove(seat, [NAME]));
    assert_eq!(ask(&scene, &mut matches), (1, 5, 2_048, false));
    scene.compare();
}

#[test]
fn a_clear_finds_what_was_left_and_joined_again_and_nothing_twice() {
    let mut scene = Scene::with_views(2, 2);
    for _ in 0..50 {
        for seat in 0..2 {
            scene.store(seat, None, &agreed(0..200));
            scene.store_in(1, seat, None, &agreed(0..100));
        }
        scene.remove(0, (0..200).rev().map(|at| NAME + at));
        scene.remove_in(1, 0, (0..100).rev().map(|at| NAME + at));
    }
    scene.store(0, None, &agreed(0..200));
    let mut seen = 0;
    scene.chain.index().for_each_holding(WorkerId(0), &mut |_| seen += 1);
    assert_eq!(seen, 200);
    scene.clear(0, Some(0));
    assert_eq!(scene.depths(0..200), [(1, 200)]);
    scene.clear(1, None);
    assert_eq!((scene.depths(0..200), scene.segments()), (vec![], 0));
}

#[test]
fn a_view_that_is_cleared_leaves_the_others_their_places() {
    let mut scene = Scene::with_views(1, 3);
    scene.store_in(0, 0, None, &agreed(0..100));
    scene.store_in(1, 0, None, &agreed(0..80));
    scene.store_in(2, 0, None, &blocks(5_000..5_040, 0..40));
    scene.clear(0, Some(1));
    let digest = |view| scene.chain.index().digest(WorkerId(0), View(view)).count;
    assert_eq!([0, 1, 2].map(digest), [100, 0, 40]);
    assert_eq!(scene.chain.index().depth(WorkerId(0), View(2), &request(0..100)), 40);
}

/// A table of cutoffs has rows of 64 workers, and up to two of them in the record; results are words of 64 workers too.
#[test]
fn fleets_of_every_size_around_a_row_are_scored_apart() {
    for fleet in [4, 5, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257] {
        let mut scene = Scene::new(fleet);
        // Over two segments: a third stops in the first, a third at its end, a third goes on.
        let reach = |seat: usize| [1 + seat as u64 % 63, 64, 65 + seat as u64 % 30][seat % 3];
        (0..fleet).for_each(|seat| _ = scene.store(seat, None, &agreed(0..reach(seat))));
        let expected: Vec<_> = (0..).zip((0..fleet).map(reach)).collect();
        assert_eq!(scene.depths(0..100), expected, "a fleet of {fleet}");
        // The last worker has the highest bit of the last word; then it leaves and its number is another's.
        scene.remove(fleet - 1, [NAME]);
        assert_eq!(scene.depths(0..100), expected[..fleet - 1], "a fleet of {fleet}");
        scene.leave(0);
        scene.add();
        assert_eq!(scene.depths(0..100), expected[1..fleet - 1], "a fleet of {fleet}");
    }
}

/// Further views have rows of their own behind those of the workers, so that few workers with many views are many rows.
#[test]
fn views_of_small_and_large_fleets_are_told_apart_from_workers() {
    for (fleet, views) in [(1, 31), (3, 9), (64, 3), (65, 8), (130, 5)] {
        let mut scene = Scene::with_views(fleet, views);
        for seat in 0..fleet {
            scene.store(seat, None, &agreed(0..70));
            for view in 1..views {
                scene.store_in(view, seat, None, &agreed(0..=(seat as u64 * 7 + u64::from(view) * 11) % 70));
            }
        }
        let expected: Vec<_> = (0..).zip((0..fleet).map(|_| 70)).collect();
        assert_eq!(scene.depths(0..80), expected, "{fleet} workers of {views} views");
        scene.compare();
    }
}
