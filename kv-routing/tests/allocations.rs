//! Decisions allocate nothing once their scratch has grown.

use kv_index::{Match, Matches, Scheme, View, WorkerId};
use kv_routing::select::Scratch;
use kv_routing::{Candidate, Lookup, Overlap, Policy, Pool, Request, Router};

const POLICIES: [Policy; 3] = [Policy::Blend, Policy::CacheAware, Policy::PowerOfTwo];

/// Allocations of a thousand decisions, after a hundred others.
fn allocations(mut decide: impl FnMut(u64)) -> u64 {
    (0..100).for_each(&mut decide);
    allocation_counter::measure(|| (100..1_100).for_each(&mut decide)).count_total
}

#[test]
fn choosing_from_a_slice_allocates_nothing() {
    let all: Vec<Candidate> = (0..64)
        .map(|worker| Candidate { worker, overlap: Overlap::device(u64::from(worker) * 8), ..Candidate::default() })
        .collect();
    let request = Request { prompt_tokens: 1_000, home: None };
    for policy in POLICIES {
        let (router, mut scratch) = (Router::new(policy), Scratch::new());
        assert_eq!(allocations(|seed| _ = router.choose(request, &all, seed, &mut scratch)), 0, "{policy:?}");
    }
    let decides = allocations(|seed| _ = Router::default().decide(request, &all, seed));
    assert!(decides > 0, "the instrument works: a record is allocated");
}

#[test]
fn choosing_from_a_pool_allocates_nothing() {
    let (mut pool, mut matches) = (Pool::new(), Matches::new());
    for worker in (0..1_024).map(WorkerId) {
        pool.insert(worker, worker.0, 0).unwrap();
        matches.push(Match { depth: 1 + worker.0 % 40, worker, view: View::MAIN });
    }
    matches.finish();
    let lookup = Lookup { matches: &matches, scheme: Scheme::plain(16.try_into().unwrap()), predicted: &[] };
    let request = Request { prompt_tokens: 1_000, home: None };
    for policy in POLICIES {
        let (router, mut scratch) = (Router::new(policy), Scratch::new());
        let choose = |seed| _ = pool.choose(&router, request, &lookup, None, seed, &mut scratch);
        assert_eq!(allocations(choose), 0, "{policy:?}");
    }
}
