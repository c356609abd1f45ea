//! A draw that prefers the cheap without insisting on the cheapest.

use super::{Draw, cheapest};

/// The index of a cost, drawn under `seed` with a weight of `exp(-c / temperature)`, where `c` is the cost's place between the
/// lowest, 0, and the highest, 1. At a temperature of 0, or one that is no number, the [`cheapest`]. A cost that is no number is
/// drawn only if all are none. Several routers with one view of a fleet need it, so that they do not all choose the same worker.
pub fn soften(costs: impl Iterator<Item = f64> + Clone, temperature: f64, seed: u64) -> Option<usize> {
    let finite = costs.clone().filter(|cost| cost.is_finite());
    let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), cost| (low.min(cost), high.max(cost)));
    let range = high - low;
    if !(temperature > 0.0 && range > 0.0 && range.is_finite()) {
        return cheapest(costs, seed);
    }
    let weight = move |cost: f64| if cost.is_finite() { (-(cost - low) / range / temperature).exp() } else { 0.0 };
    let sum: f64 = costs.clone().map(weight).sum();
    let mut left = Draw::new(seed).fraction() * sum;
    let drawn = costs.clone().position(|cost| {
        left -= weight(cost);
        left < 0.0
    });
    // Rounding may leave a crumb behind the last weight.
    drawn.or_else(|| cheapest(costs, seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(costs: &[f64], temperature: f64) -> Vec<u32> {
        let mut hits = vec![0; costs.len()];
        (0..4_000).for_each(|seed| hits[soften(costs.iter().copied(), temperature, seed).unwrap()] += 1);
        hits
    }

    #[test]
    fn zero_is_strict_and_warmer_is_more_even() {
        let costs = [3.0, 1.0, 2.0, f64::NAN];
        assert_eq!(hits(&costs, 0.0), [0, 4_000, 0, 0]);
        assert_eq!(hits(&costs, f64::NAN), [0, 4_000, 0, 0]);
        // exp(0), exp(-1) and exp(-2) of 4,000, at a temperature of one half.
        let (cold, expected) = (hits(&costs, 0.5), [360.0, 2_661.0, 979.0]);
        for (hits, expected) in cold.iter().zip(expected) {
            assert!((f64::from(*hits) - expected).abs() < 100.0, "{cold:?}");
        }
        let warm = hits(&costs, 100.0);
        assert!(warm[..3].iter().all(|hits| (1_230..1_440).contains(hits)) && warm[3] == 0, "{warm:?}");
    }

    #[test]
    fn equals_and_odd_numbers_are_drawn_from_all_the_same() {
        assert!(hits(&[2.0; 4], 0.7).iter().all(|hits| (880..1_120).contains(hits)));
        assert!(soften([f64::NAN, f64::INFINITY].into_iter(), 1.0, 3).is_some());
        assert_eq!(soften([].into_iter(), 1.0, 3), None);
        assert_eq!(soften([f64::MIN, f64::MAX].into_iter(), 1.0, 3), Some(0), "the range is no number");
    }
}
