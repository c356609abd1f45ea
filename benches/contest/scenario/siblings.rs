//! What a store, a miss and an eviction cost under a place with ever more children.

use super::lookups::{Depth, Requests};
use super::{Lane, Trial};
use crate::contender::Contender;
use crate::random::SplitMix64;
use crate::workload::siblings::Siblings;

/// Numbers of siblings at which is measured.
const SIZES: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Stores, and evictions, measured at each size.
const MEASURED: u64 = 1_000;
/// Lookups at each size.
const LOOKUPS: usize = 1_000;
/// Children that are never stored have numbers from here.
const UNKNOWN: u64 = 1 << 40;

/// One worker; children of the root, or of one block, up to each size.
pub fn siblings<C: Contender>(trial: &mut Trial) {
    let limit = limit::<C>(trial);
    for (place, siblings) in [("root", Siblings::ROOT), ("block", Siblings::BLOCK)] {
        let mut lane = Lane::<C>::open(1);
        lane.feed(|batch| siblings.store_parent(batch));
        let mut next = 0;
        for size in SIZES.into_iter().filter(|&size| size <= limit) {
            (next..size - MEASURED).for_each(|number| lane.feed(|batch| siblings.store(number, batch)));
            measure(trial, &format!("under {place}, {size}"), &mut lane, &siblings, size);
            next = size;
        }
    }
}

fn limit<C: Contender>(trial: &Trial) -> u64 {
    let scaled = (1_000_000.0 * trial.settings.scale) as u64;
    C::SIBLINGS_MAX.min(scaled.max(SIZES[1]))
}

/// The last stores up to `size`, misses, and evictions of random children, which then come back.
fn measure<C: Contender>(trial: &mut Trial, name: &str, lane: &mut Lane<C>, siblings: &Siblings, size: u64) {
    lane.lap();
    (size - MEASURED..size).for_each(|number| lane.feed(|batch| siblings.store(number, batch)));
    let stored = lane.lap();
    trial.report(format!("{name}: store"), "ns/block", stored.ns_per_block(), stored.blocks);
    look_up(trial, name, lane, siblings, size);
    let mut random = SplitMix64::new(size);
    let gone: Vec<u64> = random.sample(MEASURED as u32, size as u32).into_iter().map(u64::from).collect();
    gone.iter().for_each(|&number| lane.feed(|batch| siblings.remove(number, batch)));
    let evicted = lane.lap();
    trial.report(format!("{name}: evict"), "ns/block", evicted.ns_per_block(), evicted.blocks);
    gone.iter().for_each(|&number| lane.feed(|batch| siblings.store(number, batch)));
}

fn look_up<C: Contender>(trial: &mut Trial, name: &str, lane: &mut Lane<C>, siblings: &Siblings, size: u64) {
    let count = LOOKUPS.min(trial.settings.lookups);
    let requests =
        |from: u64| move |seed: u64| (0..count as u64).map(|i| siblings.path(from + (seed * 7 + i * 31) % size)).collect();
    let misses = Requests::<C>::draw(trial, requests(UNKNOWN));
    if trial.checks() {
        let hits = Requests::<C>::draw(trial, requests(0));
        trial.answer::<C>(&format!("{name} hits").replace([' ', ','], "-"), &mut lane.reader(), &hits.timed);
        trial.answer::<C>(&format!("{name} misses").replace([' ', ','], "-"), &mut lane.reader(), &misses.timed);
    } else {
        misses.time_hot(trial, &format!("{name}: miss"), &mut lane.reader(), Depth::Deepest);
    }
}
