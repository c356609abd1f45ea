//! Workers that race for one name, or for the name of one block.

use super::*;

fn named(name: u64, content: u64) -> [Block; 1] {
    [Block::named(BlockName(name), ContentHash(content))]
}

#[test]
fn two_workers_naming_one_block() {
    check(|| {
        let index = chain();
        let [mut left, mut right] = workers(&index);
        let ids = [left.id(), right.id()];
        let write = move || {
            store_blocks(&mut left, None, &named(10, 1));
            left
        };
        let mut left = beside(write, || store_blocks(&mut right, None, &named(11, 1)));
        assert_eq!(depths(&index, [1], ids), [1, 1]);
        let knows = |worker: &ChainWorker| [10, 11].map(|name| worker.holds(View::MAIN, BlockName(name)));
        assert_eq!((knows(&left), knows(&right)), ([true, false], [false, true]));
        remove(&mut left, [11]);
        remove(&mut right, [11]);
        assert_eq!(depths(&index, [1], ids), [1, 0]);
    });
}

#[test]
fn two_workers_giving_one_name_to_two_blocks() {
    check_large(|| {
        let index = chain();
        let [mut left, mut right] = workers(&index);
        let ids = [left.id(), right.id()];
        let write = move || {
            store_blocks(&mut left, None, &named(10, 1));
            left
        };
        let mut left = beside(write, || store_blocks(&mut right, None, &named(10, 2)));
        assert_eq!((depths(&index, [1], ids), depths(&index, [2], ids)), ([1, 0], [0, 1]));
        remove(&mut left, [10]);
        assert_eq!((depths(&index, [1], ids), depths(&index, [2], ids)), ([0, 0], [0, 1]));
        assert!(right.holds(View::MAIN, BlockName(10)) && !left.knows(BlockName(10)));
        remove(&mut right, [10]);
        assert_eq!(index.stats().segments, 0);
    });
}

/// One claims a name while its last holder lets go of it elsewhere.
#[test]
fn a_name_that_is_given_up_and_claimed_elsewhere() {
    check(|| {
        let index = chain();
        let [mut left, mut right] = workers(&index);
        store_blocks(&mut left, None, &named(10, 1));
        let write = move || {
            remove(&mut left, [10]);
            left
        };
        let left = beside(write, || store_blocks(&mut right, None, &named(10, 2)));
        assert!(right.holds(View::MAIN, BlockName(10)) && !left.knows(BlockName(10)));
        remove(&mut right, [10]);
        assert!(!right.knows(BlockName(10)));
        assert_eq!(index.stats().segments, 0);
    });
}

/// A twin makes the worker private: its record loses its names, and nobody sees anything of it.
#[test]
fn going_private_against_a_lookup() {
    check(|| {
        let index = chain();
        let [mut worker] = workers(&index);
        let id = worker.id();
        store(&mut worker, None, [1, 2]);
        let write = move || {
            store_blocks(&mut worker, None, &named(10, 1));
            worker
        };
        let mut worker = beside(write, || assert_eq!(depths(&index, [1, 2], [id]), [2]));
        remove(&mut worker, [1]);
        assert_eq!(depths(&index, [1, 2], [id]), [2], "the twin covers it");
        remove(&mut worker, [10, 2]);
        assert_eq!(index.stats().segments, 0);
    });
}

/// The same while another worker that stands for the same names lets go of them.
#[test]
fn going_private_while_another_holder_leaves() {
    check(|| {
        let index = chain();
        let [mut worker, mut other] = workers(&index);
        let ids = [worker.id(), other.id()];
        store(&mut worker, None, [1, 2]);
        store(&mut other, None, [1, 2]);
        let write = move || {
            store_blocks(&mut worker, None, &named(10, 1));
            worker
        };
        let mut worker = beside(write, || remove(&mut other, [2, 1]));
        assert_eq!(depths(&index, [1, 2], ids), [2, 0]);
        assert!([1, 2, 10].into_iter().all(|name| worker.holds(View::MAIN, BlockName(name))));
        remove(&mut worker, [2, 1, 10]);
        assert_eq!(index.stats().segments, 0);
        store(&mut other, None, [2, 1]);
        assert!(other.holds(View::MAIN, BlockName(1)) && other.holds(View::MAIN, BlockName(2)), "the names are free again");
    });
}

/// A segment without names gets some when an agreeing worker comes: its record moves.
#[test]
fn a_record_that_gets_names_against_a_lookup() {
    check(|| {
        let index = chain();
        let [mut private, mut agreeing] = workers(&index);
        let ids = [private.id(), agreeing.id()];
        store(&mut private, None, [8]);
        store_blocks(&mut private, None, &named(9, 8));
        store(&mut private, None, [1, 2]);
        let write = move || {
            store(&mut agreeing, None, [1, 2]);
            agreeing
        };
        let _agreeing = beside(write, || {
            let [private, agreeing] = depths(&index, [1, 2], ids);
            assert_eq!(private, 2);
            assert_in(agreeing, 0..=2);
        });
    });
}
