//! Places that come and go: appends, cuts, new children, and the end of segments.

use super::*;

/// Behind the first place stand the contents 8 and 9, cut off, until 2 and 3 are appended. A lookup must not see the length before the
/// contents.
fn append_beside(request: [u64; 3], deepest: u32) {
    check(move || {
        let index = chain();
        let [mut writer, mut steady] = workers(&index);
        let ids = [writer.id(), steady.id()];
        store(&mut writer, None, [1, 8, 9]);
        remove(&mut writer, [8, 9]);
        store(&mut steady, None, [1]);
        let append = move || {
            store(&mut writer, Some(1), [2, 3]);
            writer
        };
        let _writer = beside(append, || {
            let [depth, other] = depths(&index, request, ids);
            assert_in(depth, 1..=deepest);
            assert_eq!(other, 1);
        });
        assert_eq!(depths(&index, [1, 2, 3], ids), [3, 1]);
    });
}

#[test]
fn an_append_against_a_lookup_of_what_is_appended() {
    append_beside([1, 2, 3], 3);
}

#[test]
fn an_append_against_a_lookup_of_what_stood_there() {
    append_beside([1, 8, 9], 1);
}

/// One worker's place is cut off, and another's put there on another thread, which has nothing from the first but the lock.
fn cut_and_append_beside(request: [u64; 2], most: [u32; 2]) {
    check(move || {
        let index = chain();
        let [mut former, mut later] = workers(&index);
        let ids = [former.id(), later.id()];
        store(&mut former, None, [1, 2]);
        store(&mut later, None, [1]);
        let write = move || {
            let former = on_another_thread(former, |former| remove(former, [2]));
            store(&mut later, Some(1), [3]);
            (former, later)
        };
        let _workers = beside(write, || {
            let found = depths(&index, request, ids);
            assert!(found.iter().zip(most).all(|(&depth, most)| (1..=most).contains(&depth)), "{found:?}");
        });
        assert_eq!(depths(&index, [1, 3], ids), [1, 2]);
    });
}

#[test]
fn a_place_cut_off_and_used_again_against_a_lookup_of_what_it_was() {
    cut_and_append_beside([1, 2], [2, 1]);
}

#[test]
fn a_place_cut_off_and_used_again_against_a_lookup_of_what_it_becomes() {
    cut_and_append_beside([1, 3], [1, 2]);
}

/// The same for one worker's depth and coverage.
#[test]
fn a_place_cut_off_and_used_again_against_a_look_at_one_worker() {
    check(|| {
        let index = chain();
        let [mut former, mut later] = workers(&index);
        let id = later.id();
        store(&mut former, None, [1, 2]);
        store(&mut later, None, [1]);
        let write = move || {
            remove(&mut former, [2]);
            store(&mut later, Some(1), [3]);
            (former, later)
        };
        let _workers = beside(write, || assert_eq!(covered(&index, id, [1, 2]), 0b1));
    });
}

#[test]
fn two_workers_creating_one_first_block() {
    check(|| {
        let index = chain();
        let [mut left, mut right] = workers(&index);
        let ids = [left.id(), right.id()];
        let write = move || {
            store(&mut left, None, [1, 2]);
            left
        };
        let _left = beside(write, || store(&mut right, None, [1, 2]));
        assert_eq!(depths(&index, [1, 2], ids), [2, 2]);
        assert_eq!(index.stats().segments, 1);
    });
}

#[test]
fn two_workers_creating_one_child_of_a_segment() {
    check(|| {
        let index = chain();
        let [mut left, mut right, mut steady] = workers(&index);
        let ids = [left.id(), right.id()];
        store(&mut steady, None, [1, 2]);
        store(&mut left, None, [1]);
        store(&mut right, None, [1]);
        let write = move || {
            store(&mut left, Some(1), [3]);
            left
        };
        let _left = beside(write, || store(&mut right, Some(1), [3]));
        assert_eq!(depths(&index, [1, 3], ids), [2, 2]);
        assert_eq!(index.stats().segments, 2);
    });
}

/// Who appends and who makes a child at the same place meet under the segment's lock: a place has one home.
#[test]
fn two_workers_going_on_from_the_end_of_a_segment() {
    check(|| {
        let index = chain();
        let [mut left, mut right] = workers(&index);
        let ids = [left.id(), right.id()];
        store(&mut left, None, [1]);
        store(&mut right, None, [1]);
        let write = move || {
            store(&mut left, Some(1), [2]);
            store(&mut left, Some(1), [3]);
            left
        };
        let _left = beside(write, || store(&mut right, Some(1), [3]));
        assert_eq!((depths(&index, [1, 2], ids), depths(&index, [1, 3], ids)), ([2, 1], [2, 2]));
        assert_eq!(index.stats().segments, 2);
    });
}

/// A place before which a child leaves is cut off: who goes on there goes to the child.
#[test]
fn two_workers_one_cutting_off_the_place_before_which_the_other_goes_on() {
    check(|| {
        let index = chain();
        let [mut left, mut right] = workers(&index);
        let ids = [left.id(), right.id()];
        store(&mut left, None, [1, 2]);
        store(&mut left, Some(1), [3]);
        store(&mut right, None, [1]);
        let write = move || {
            remove(&mut left, [2]);
            left
        };
        let _left = beside(write, || store(&mut right, Some(1), [3]));
        assert_eq!((depths(&index, [1, 3], ids), index.stats().segments), ([2, 2], 2));
    });
}

#[test]
fn a_first_block_that_ends_while_another_worker_stores_it() {
    check(|| {
        let index = chain();
        let [mut left, mut right] = workers(&index);
        let ids = [left.id(), right.id()];
        store(&mut left, None, [1]);
        let write = move || {
            remove(&mut left, [1]);
            left
        };
        let _left = beside(write, || store(&mut right, None, [1]));
        assert_eq!((depths(&index, [1], ids), index.stats().segments), ([0, 1], 1));
        remove(&mut right, [1]);
        assert_eq!((depths(&index, [1], ids), index.stats().segments), ([0, 0], 0));
    });
}

#[test]
fn a_child_that_ends_while_another_worker_stores_it() {
    check(|| {
        let index = chain();
        let [mut left, mut right] = workers(&index);
        let ids = [left.id(), right.id()];
        store(&mut left, None, [1, 2]);
        store(&mut left, Some(1), [3]);
        store(&mut right, None, [1]);
        let write = move || {
            remove(&mut left, [3]);
            left
        };
        let mut left = beside(write, || store(&mut right, Some(1), [3]));
        assert_eq!((depths(&index, [1, 3], ids), index.stats().segments), ([1, 2], 2));
        right.clear();
        left.clear();
        assert_eq!(index.stats().segments, 0);
    });
}

/// A writer that has seen a first block's segment finds another chain's under the same id when it has its lock.
#[test]
fn a_segment_that_is_used_again_while_another_worker_enters_it() {
    check_large(|| {
        let index = chain();
        let [mut left, mut right] = workers(&index);
        let ids = [left.id(), right.id()];
        store(&mut left, None, [1]);
        let write = move || {
            remove(&mut left, [1]);
            store(&mut left, None, [7]);
            left
        };
        let _left = beside(write, || store(&mut right, None, [1]));
        assert_eq!((depths(&index, [1], ids), depths(&index, [7], ids)), ([0, 1], [1, 0]));
        assert_eq!(index.stats().segments, 2);
    });
}

/// Steps that nobody else holds any more are cut off while the store that needs them is on its way: it makes them again.
#[test]
fn steps_that_vanish_under_a_store() {
    check(|| {
        let index = chain();
        let [mut left, mut right] = workers(&index);
        let ids = [left.id(), right.id()];
        store(&mut left, None, [1, 2, 3, 4]);
        let write = move || {
            remove(&mut left, [4, 3, 2]);
            left
        };
        let steps = [2, 3, 4].map(|content| Block::step(ContentHash(content)));
        let blocks: Vec<Block> = [&[block(1)], &steps[..], &[block(5)]].concat();
        let _left = beside(write, || store_blocks(&mut right, None, &blocks));
        assert_eq!(covered(&index, ids[1], [1, 2, 3, 4, 5]), 0b10001);
        assert_eq!(depths(&index, [1, 2, 3, 4, 5], ids), [1, 1]);
    });
}
