//! The table of children, which is made anew when it grows and when it shrinks.

use super::*;

/// An index whose root has so many children, and who holds them.
fn with_first_blocks(count: u64) -> (ChainIndex, ChainWorker) {
    let index = chain();
    let [mut worker] = workers(&index);
    (1..=count).for_each(|content| store(&mut worker, None, [content]));
    (index, worker)
}

#[test]
fn a_table_that_grows_against_a_lookup() {
    check(|| {
        let (index, mut worker) = with_first_blocks(5);
        let id = worker.id();
        let write = move || {
            store(&mut worker, None, [6]);
            worker
        };
        let _worker = beside(write, || assert_eq!(depths(&index, [2], [id]), [1]));
        assert_eq!(depths(&index, [6], [id]), [1]);
    });
}

#[test]
fn a_table_that_shrinks_against_a_lookup() {
    check(|| {
        let (index, mut worker) = with_first_blocks(6);
        let id = worker.id();
        remove(&mut worker, [1, 3, 4, 5]);
        let write = move || {
            remove(&mut worker, [6]);
            worker
        };
        let _worker = beside(write, || assert_eq!(depths(&index, [2], [id]), [1]));
    });
}

/// The room of an old table goes to a record before the lookup is done with it.
#[test]
fn a_table_whose_room_is_used_again_against_a_lookup() {
    check(|| {
        let (index, mut worker) = with_first_blocks(5);
        let id = worker.id();
        let views: Vec<View> = (1..5).map(|_| worker.add_view().unwrap()).collect();
        let write = move || {
            store(&mut worker, None, [6]);
            // Takes a block of one line, as the old table was.
            views.iter().for_each(|&view| worker.store(view, None, &[block(6)], &mut Vec::new()).unwrap());
            worker
        };
        let _worker = beside(write, || assert_eq!(depths(&index, [2], [id]), [1]));
    });
}
