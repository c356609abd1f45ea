//! Ids and memory that are given to others.

use super::*;

/// A worker covers the first segment, its heir under the same id only what follows.
fn heir_beside(read: impl Fn(&ChainIndex, WorkerId) + Copy + Send + Sync + 'static) {
    check_large(move || {
        let index = chain();
        let [mut steady, mut former] = workers(&index);
        let id = former.id();
        store(&mut steady, None, [1, 2]);
        store(&mut steady, Some(1), [3]);
        store(&mut former, None, [1]);
        let writers = index.clone();
        let write = move || {
            drop(former);
            let mut heir = writers.add_worker().unwrap();
            assert_eq!(heir.id(), id);
            store_blocks(&mut heir, None, &[Block::step(ContentHash(1)), block(3)]);
            heir
        };
        let _heir = beside(write, || read(&index, id));
        assert_eq!(covered(&index, id, [1, 3]), 0b10);
    });
}

#[test]
fn an_id_that_is_used_again_against_a_lookup() {
    heir_beside(|index, id| assert_in(depths(index, [1, 3], [id])[0], 0..=1));
}

#[test]
fn an_id_that_is_used_again_against_coverage() {
    heir_beside(|index, id| assert!(covered(index, id, [1, 3]) != 0b11));
}

/// Two segments end and come back as another chain's, with the second one's content the same: what a free list's ABA would be here.
/// Their former reader must not go on from the old first to the new second.
#[test]
fn segments_that_are_freed_and_used_again_against_a_lookup() {
    check_large(|| {
        let index = chain();
        let [mut whole, mut head, mut guide] = workers(&index);
        let ids = [whole.id(), head.id()];
        store(&mut guide, None, [1, 2]);
        store(&mut head, None, [1]);
        store_blocks(&mut whole, None, &[Block::step(ContentHash(1)), block(3)]);
        remove(&mut guide, [2, 1]);
        let write = move || {
            remove(&mut whole, [3]);
            remove(&mut head, [1]);
            store(&mut head, None, [6, 7]);
            store(&mut head, Some(6), [3]);
            (whole, head)
        };
        let _workers = beside(write, || assert_in(depths(&index, [1, 3], ids)[1], 0..=1));
        assert_eq!(depths(&index, [6, 3], ids), [0, 2]);
        assert_eq!(index.stats().segments, 2);
    });
}
