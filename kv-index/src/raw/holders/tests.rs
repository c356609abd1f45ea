//! The holders of one segment, against a map.

use std::collections::BTreeMap;

use super::*;
use crate::raw::record::PLACES;
use crate::raw::segments::Locked;

fn masks(segment: &Locked<'_>) -> BTreeMap<u32, u64> {
    let holders = segment.holders();
    let mut all = BTreeMap::new();
    let _ = holders.try_for_each(|held| {
        assert_eq!(all.insert(held.slot().0, holders.mask(held)), None, "{:?} comes twice", held.slot());
        assert_eq!(held.cutoff() as u32, holders.mask(held).trailing_ones());
        ControlFlow::<()>::Continue(())
    });
    all
}

fn agrees_with_a_map(workers: u32, views: u32, steps: u32) {
    let segments = Segments::new();
    let mut segment = segments.create(Meta { len: PLACES, capacity: PLACES, ..Meta::default() }).unwrap();
    let mut expected = BTreeMap::new();
    let mut state = u64::from(workers);
    for step in 0..steps {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let slot = Slot::new((state >> 40) as u32 % workers, ((state >> 20) as u32 % views) as u8);
        let grows = step % 2_000 < 1_300;
        let mask = match (state >> 60, grows) {
            (0..6, true) => prefix((state >> 33) as usize % 65),
            (6..12, true) => state.rotate_left(17),
            _ => 0,
        };
        segment.set_mask(slot, mask);
        if mask == 0 {
            expected.remove(&slot.0)
        } else {
            expected.insert(slot.0, mask)
        };
        assert_eq!(segment.mask(slot), mask);
        assert_eq!(segment.record().meta().holders, expected.len());
        if step % 97 == 0 {
            assert_eq!(masks(&segment), expected, "{workers} workers, step {step}");
            let union = expected.values().fold(0, |all, mask| all | mask);
            assert_eq!(segment.held_of(u64::MAX, |_| true), union);
        }
    }
    assert_eq!(masks(&segment), expected);
    expected.keys().for_each(|&slot| segment.set_mask(Slot(slot), 0));
    segment.free_extension();
    segment.destroy();
    assert_eq!(segments.count(), 0);
}

#[test]
fn few_holders_agree_with_a_map() {
    agrees_with_a_map(3, 2, 4_000);
}

#[test]
fn dense_fleets_agree_with_a_map() {
    for workers in [40, 70, 128, 150, 400] {
        agrees_with_a_map(workers, 1, 20_000);
    }
}

#[test]
fn dense_fleets_with_further_views_agree_with_a_map() {
    for (workers, views) in [(70, 2), (8, 3), (12, 2), (30, 5)] {
        agrees_with_a_map(workers, views, 20_000);
    }
}

#[test]
fn a_sparse_fleet_of_many_views_agrees_with_a_map() {
    agrees_with_a_map(65_536, 5, 20_000);
}

#[test]
fn main_views_become_dense_and_the_last_few_thin_out() {
    let segments = Segments::new();
    let mut segment = segments.create(Meta { len: 1, capacity: 4, ..Meta::default() }).unwrap();
    (0..1_024).for_each(|worker| segment.set_mask(Slot(worker), 1));
    assert_eq!(segment.holders().span(), 1_024);
    assert_eq!(segment.holders().empty_halves(), 4);
    (5..1_024).for_each(|worker| segment.set_mask(Slot(worker), 0));
    assert_eq!((segment.holders().span(), masks(&segment).len()), (128, 5), "the record's own table");
}
