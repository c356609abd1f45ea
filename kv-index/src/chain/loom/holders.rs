//! Holders' words that move: inline, list, dense table, masks.

use super::*;

/// The fifth holder of a block makes the words of the first four move from the record into a dense table.
#[test]
fn words_that_move_from_the_record_into_a_table() {
    check(|| {
        let index = chain();
        let [mut a, mut b, mut c, mut d, mut fifth] = workers(&index);
        let ids = [a.id(), b.id(), c.id(), d.id(), fifth.id()];
        for steady in [&mut a, &mut b, &mut c, &mut d] {
            store(steady, None, [1]);
        }
        let write = move || {
            store(&mut fifth, None, [1]);
            fifth
        };
        let _fifth = beside(write, || {
            let [a, b, c, d, fifth] = depths(&index, [1], ids);
            assert_eq!([a, b, c, d], [1; 4]);
            assert_in(fifth, 0..=1);
        });
        assert_eq!(depths(&index, [1], ids), [1; 5]);
    });
}

/// When all but two have left a table, the two words move back into the record.
#[test]
fn words_that_move_from_a_table_into_the_record() {
    check(|| {
        let index = chain();
        let [mut a, mut b, mut c, mut d, mut e] = workers(&index);
        let ids = [a.id(), b.id()];
        for steady in [&mut a, &mut b, &mut c, &mut d, &mut e] {
            store(steady, None, [1]);
        }
        remove(&mut e, [1]);
        remove(&mut d, [1]);
        let write = move || {
            remove(&mut c, [1]);
            c
        };
        let _leaver = beside(write, || assert_eq!(depths(&index, [1], ids), [1, 1]));
        assert_eq!(depths(&index, [1], ids), [1, 1]);
    });
}

/// The fifth view goes into a list outside the record, whose beginning must be seen.
#[test]
fn a_word_that_goes_into_a_list() {
    check(|| {
        let index = chain();
        let [mut worker] = workers(&index);
        let id = worker.id();
        let views: Vec<View> = (1..5).map(|_| worker.add_view().unwrap()).collect();
        store(&mut worker, None, [1]);
        views[..3].iter().for_each(|&view| worker.store(view, None, &[block(1)], &mut Vec::new()).unwrap());
        let last = views[3];
        let write = move || {
            worker.store(last, None, &[block(1)], &mut Vec::new()).unwrap();
            worker
        };
        let _worker = beside(write, || {
            let mut matches = Matches::new();
            index.find(&[ContentHash(1)], &mut matches);
            assert_in(matches.depth(id, last), 0..=1);
            assert_eq!(views[..3].iter().map(|&view| matches.depth(id, view)).collect::<Vec<_>>(), [1; 3]);
        });
    });
}

/// A worker of four places loses the second one. Nobody may see more than that one go.
fn hole_beside(others_with_holes: usize) {
    check(move || {
        let index = chain();
        let [mut worker, mut a, mut b, mut c] = workers(&index);
        let id = worker.id();
        store(&mut worker, None, [1, 2, 3, 4]);
        for other in [&mut a, &mut b, &mut c].into_iter().take(others_with_holes) {
            store(other, None, [1, 2, 3, 4]);
            remove(other, [2]);
        }
        let write = move || {
            remove(&mut worker, [2]);
            worker
        };
        let _worker = beside(write, || {
            let seen = covered(&index, id, [1, 2, 3, 4]);
            assert!([0b1111, 0b1101].contains(&seen), "{seen:#b}");
        });
        assert_eq!(covered(&index, id, [1, 2, 3, 4]), 0b1101);
    });
}

#[test]
fn the_first_hole_of_a_segment_against_coverage() {
    hole_beside(0);
}

#[test]
fn a_further_hole_of_a_segment_against_coverage() {
    hole_beside(1);
}

#[test]
fn a_hole_that_makes_the_masks_move_against_coverage_of_another() {
    check(|| {
        let index = chain();
        let [mut worker, mut a, mut b, mut steady] = workers(&index);
        let id = steady.id();
        for other in [&mut steady, &mut a, &mut b] {
            store(other, None, [1, 2, 3, 4]);
            remove(other, [2]);
        }
        store(&mut worker, None, [1, 2, 3, 4]);
        let write = move || {
            remove(&mut worker, [2]);
            worker
        };
        let _worker = beside(write, || assert_eq!(covered(&index, id, [1, 2, 3, 4]), 0b1101));
    });
}

/// A hole that heals and comes back elsewhere: the mask of the first one must not be taken for that of the second.
#[test]
fn a_mask_that_is_used_again() {
    check(|| {
        let index = chain();
        let [mut worker] = workers(&index);
        let id = worker.id();
        store(&mut worker, None, [1, 2, 3, 4]);
        remove(&mut worker, [2]);
        store(&mut worker, Some(1), [2]);
        let write = move || {
            remove(&mut worker, [3]);
            worker
        };
        let _worker = beside(write, || {
            let seen = covered(&index, id, [1, 2, 3, 4]);
            assert!([0b1111, 0b1011].contains(&seen), "{seen:#b}");
        });
    });
}

/// A holder leaves its seat and takes another one, which a reader may have passed or not. It may be missed, but not the others, and
/// nobody comes twice.
#[test]
fn a_holder_that_changes_its_seat() {
    check(|| {
        let index = chain();
        let [mut first, mut mover, mut last] = workers(&index);
        let ids = [mover.id(), last.id()];
        store(&mut first, None, [1]);
        store(&mut mover, None, [1]);
        store(&mut last, None, [1]);
        remove(&mut first, [1]);
        let write = move || {
            remove(&mut mover, [1]);
            store(&mut mover, None, [1]);
            mover
        };
        let _mover = beside(write, || {
            let [mover, last] = depths(&index, [1], ids);
            assert_in(mover, 0..=1);
            assert_eq!(last, 1);
        });
    });
}
