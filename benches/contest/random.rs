//! `SplitMix64` (Steele, Lea, Flood 2014): one seed gives every shape again, on every machine.

/// 2^64 over the golden ratio, the generator's increment.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of random words.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The stream of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next word.
    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        scatter(self.state)
    }

    /// A number below `end`. The bias of the modulus is below 2^-32 for every `end` here.
    pub fn below(&mut self, end: u64) -> u64 {
        self.word() % end
    }

    /// A number from `range`, both ends included.
    pub fn within(&mut self, range: (u32, u32)) -> u32 {
        range.0 + self.below(u64::from(range.1 - range.0) + 1) as u32
    }

    /// An item of `items`.
    pub fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// Puts `items` into random order (Fisher and Yates, from the end).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// `count` different numbers below `end`, in random order.
    pub fn sample(&mut self, count: u32, end: u32) -> Vec<u32> {
        let mut all: Vec<u32> = (0..end).collect();
        for i in 0..count.min(end) as usize {
            let other = i + self.below((all.len() - i) as u64) as usize;
            all.swap(i, other);
        }
        all.truncate(count as usize);
        all
    }
}

/// The generator's finalizer: every input bit flips each output bit with probability near 1/2.
pub const fn scatter(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // The first words of seed 1234567, as the authors' reference code gives them.
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!([random.word(), random.word()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn a_sample_has_no_repeats_and_a_shuffle_loses_nothing() {
        let mut random = SplitMix64::new(5);
        let mut sample = random.sample(20, 128);
        sample.sort_unstable();
        sample.dedup();
        assert!(sample.len() == 20 && sample.iter().all(|&n| n < 128));
        let mut items: Vec<u32> = (0..100).collect();
        random.shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert!(items.into_iter().eq(0..100));
    }
}
