//! Reproducible random numbers: everything that looks random here follows from a seed.

/// `SplitMix64` (Steele, Lea and Flood, 2014): 64 bits of state, passes the usual test batteries, three lines long.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The sequence that belongs to `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        mix64(self.0)
    }

    /// A number in `0..bound`, or 0 where `bound` is 0. The bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(u64::MAX)
    }
}

/// The finalizer of [`SplitMix64`]: a bijection in which every input bit reaches every output bit.
pub fn mix64(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// 30 of the mixed bits: half of the token ids that fit 31 bits.
pub(super) fn mix30(value: u64) -> u32 {
    let [a, b, c, d, ..] = mix64(value).to_le_bytes();
    u32::from_le_bytes([a, b, c, d]) >> 2
}

/// 2^64 divided by the golden ratio.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_numbers_of_the_published_sequence() {
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn below_reaches_both_ends_and_stays_inside() {
        let mut random = SplitMix64::new(7);
        let drawn: Vec<u64> = (0..200).map(|_| random.below(3)).collect();
        assert!(drawn.iter().all(|&n| n < 3));
        assert!((0..3).all(|n| drawn.contains(&n)));
        assert_eq!(random.below(0), 0);
    }
}
