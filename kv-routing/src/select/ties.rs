//! The cheapest, and a uniform draw among equals: the first of them would collect every request that nobody is better for.

use crate::limits::TIE_S;

/// The index of a cost within [`TIE_S`] of the lowest, drawn uniformly under `seed`. Nothing when there is no cost.
/// A cost that is no number never wins over one that is.
pub fn cheapest(costs: impl Iterator<Item = f64> + Clone, seed: u64) -> Option<usize> {
    let lowest = costs.clone().fold(f64::INFINITY, f64::min);
    let tied = move |cost: &f64| *cost <= lowest + TIE_S || (lowest.is_infinite() && !cost.is_finite());
    let count = costs.clone().filter(tied).count() as u64;
    let nth = Draw::new(seed).below(count)?;
    costs.enumerate().filter(|(_, cost)| tied(cost)).nth(usize::try_from(nth).ok()?).map(|(index, _)| index)
}

/// Random numbers from a seed, the same everywhere: `SplitMix64` (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Starts from `seed`; any seed is as good as any other, 0 and counters included.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `bound`; nothing for a bound of 0. Biased by less than `bound` in 2^64.
    pub fn below(&mut self, bound: u64) -> Option<u64> {
        self.next_u64().checked_rem(bound)
    }

    /// A place below `len`; nothing for an empty slice.
    pub fn place(&mut self, len: usize) -> Option<usize> {
        self.below(len as u64).and_then(|place| usize::try_from(place).ok())
    }

    /// A number from 0 to 1, without 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what the number has room for")]
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(costs: &[f64], seed: u64) -> Option<usize> {
        cheapest(costs.iter().copied(), seed)
    }

    #[test]
    fn one_cheaper_worker_wins_every_time() {
        let mut costs = [1.0; 128];
        costs[77] = 0.999;
        assert!((0..1_000).all(|seed| pick(&costs, seed) == Some(77)));
    }

    #[test]
    fn equals_are_drawn_uniformly() {
        let mut hits = [0u32; 128];
        (0..1_000).for_each(|seed| hits[pick(&[0.5; 128], seed).unwrap()] += 1);
        // The mean is 7.8.
        assert!(hits.iter().all(|&hits| hits > 0 && hits <= 23), "{hits:?}");
    }

    #[test]
    fn a_nanosecond_is_no_difference() {
        let picks: Vec<_> = (0..64).map(|seed| pick(&[0.5, 0.5 + 1e-9, 0.6], seed).unwrap()).collect();
        assert!(picks.contains(&0) && picks.contains(&1) && !picks.contains(&2));
    }

    #[test]
    fn no_number_never_wins_over_a_number() {
        assert_eq!(pick(&[f64::NAN, 3.0, f64::INFINITY], 1), Some(1));
        assert_eq!(pick(&[], 1), None);
        assert!(pick(&[f64::INFINITY, f64::INFINITY], 1).is_some(), "when nobody is good, somebody serves all the same");
        assert!(pick(&[f64::NAN, f64::NAN], 1).is_some());
    }

    #[test]
    fn draws_are_splitmix64() {
        // The generator's published first outputs under the seed 0.
        let mut draw = Draw::new(0);
        assert_eq!([draw.next_u64(), draw.next_u64()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
        assert_eq!((Draw::new(0).below(1_000), Draw::new(0).below(0)), (Some(0xe220_a839_7b1d_cdaf % 1_000), None));
    }
}
