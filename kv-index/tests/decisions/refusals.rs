//! A refused store leaves the index as it was.

use kv_index::testing::holdings;
use kv_index::{BlockName, ChainIndex, ChainOptions, Index, StoreError, Stored, View, Worker, WorkerId};

use crate::scene::{Scene, agreed, blocks, request, seeded};

const NAME: u64 = 1_000_000_000;

fn with_budget(budget_bytes: usize) -> ChainIndex {
    ChainIndex::with_options(&ChainOptions { budget_bytes: Some(budget_bytes), ..seeded() })
}

#[test]
fn over_budget_leaves_the_index_as_it_was() {
    let empty = ChainIndex::with_options(&seeded()).stats().bytes;
    let mut refused = 0;
    for extra_kb in [4, 16, 64, 150, 400] {
        let budget = empty + extra_kb * 1024;
        let index = with_budget(budget);
        let mut worker = index.add_worker().unwrap();
        let mut out = Vec::new();
        for round in 0..400_u64 {
            let (first, digest) = (round * 1_000, index.digest(worker.id(), View::MAIN));
            let (held, bytes, segments) = (holdings(&index, worker.id()), index.stats().bytes, index.stats().segments);
            // A part of it is known, a part is a twin, a part is new.
            let known = if round > 0 { agreed(0..3) } else { Vec::new() };
            let store = [known, blocks([first + 1, first + 2], [0, 1]), agreed(first + 10..first + 10 + round % 90)].concat();
            match worker.store(View::MAIN, None, &store, &mut out) {
                Ok(()) => continue,
                Err(StoreError::OverBudget { budget_bytes, needed_bytes }) => {
                    assert!(budget_bytes == budget && needed_bytes > 0);
                }
                Err(other) => panic!("{other}"),
            }
            refused += 1;
            assert!(out.is_empty());
            assert_eq!((index.digest(worker.id(), View::MAIN), holdings(&index, worker.id())), (digest, held));
            assert_eq!((index.stats().bytes, index.stats().segments), (bytes, segments));
            // Tables grow in steps, which may pass it: by a third at most, and by a first chunk of memory in tiny budgets.
            assert!(bytes <= budget + budget / 3 + (128 << 10), "{bytes} bytes of {budget}");
            break;
        }
    }
    assert!(refused >= 4, "{refused} budgets were passed");
}

#[test]
fn after_a_refusal_there_is_room_again_once_something_goes() {
    let empty = ChainIndex::with_options(&seeded()).stats().bytes;
    let index = with_budget(empty + 300 * 1024);
    let mut worker = index.add_worker().unwrap();
    let mut out = Vec::new();
    let chain = |number: u64| agreed(number * 100..number * 100 + 60);
    let stored =
        (0..10_000).take_while(|&number| worker.store(View::MAIN, None, &chain(number), &mut out).is_ok()).count() as u64;
    assert!((3..10_000).contains(&stored), "{stored} chains fit");
    for number in 0..stored {
        assert_eq!(
            index.depth(worker.id(), View::MAIN, &request(number * 100..number * 100 + 60)),
            60,
            "all that fitted is held"
        );
    }
    worker.clear();
    assert!(worker.store(View::MAIN, None, &chain(stored), &mut out).is_ok());
}

#[test]
fn a_parent_that_is_not_held_refuses_the_store_whoever_else_holds_it() {
    let mut scene = Scene::new(2);
    scene.store(0, None, &agreed(0..5));
    scene.store(1, None, &agreed(0..3));
    let parent = BlockName(NAME + 4);
    assert_eq!(scene.offer(0, 1, Some(parent.0), &agreed([7])), Err(StoreError::ParentNotHeld { parent }));
    assert_eq!((scene.depths(0..5), scene.count(WorkerId(1))), (vec![(0, 5), (1, 3)], 3));
    // Known blocks before the refusal would not have been kept either.
    scene.remove(1, [NAME + 2]);
    assert!(scene.offer(0, 1, Some(NAME + 2), &agreed([0, 1])).is_err());
    assert_eq!(scene.store(1, Some(NAME + 1), &agreed([2])), [Stored::New]);
    scene.compare();
}
