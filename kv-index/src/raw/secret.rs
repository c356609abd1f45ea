//! Hashing for our own tables, keyed with a secret: content hashes and some engines' names can be chosen by whoever sends prompts.

use super::segments::SegmentId;

/// Two random words. Whoever does not know them cannot make entries collide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Secret([u64; 2]);

impl Secret {
    pub(crate) const fn new(words: [u64; 2]) -> Self {
        Self(words)
    }

    /// Of a child: where it leaves its parent, and its first content.
    #[inline]
    pub(crate) const fn edge(self, parent: SegmentId, offset: usize, content: u64) -> u64 {
        let from = (parent.0 as u64) << 7 | offset as u64;
        fold(fold(content ^ self.0[0], from ^ self.0[1]) ^ self.0[0], ODD)
    }

    /// Of an engine's name.
    #[inline]
    pub(crate) const fn name(self, name: u64) -> u64 {
        fold(fold(name ^ self.0[1], ODD) ^ self.0[0], self.0[1] | 1)
    }

    /// Of anything, where a false likeness costs no more than a closer look: the high bits are the good ones.
    #[inline]
    pub(crate) const fn quick(self, value: u64) -> u64 {
        (value ^ self.0[0]).wrapping_mul(ODD)
    }

    /// A permutation of the names, so that a table may keep the permuted name and no hash beside it. Undone by
    /// [`unscramble`](Self::unscramble).
    #[inline]
    pub(crate) const fn scramble(self, name: u64) -> u64 {
        let once = (name ^ self.0[0]).wrapping_mul(self.0[1] | 1);
        let twice = (once ^ once >> 32).wrapping_mul(ODD);
        twice ^ twice >> 32
    }

    /// The name that was scrambled.
    pub(crate) const fn unscramble(self, scrambled: u64) -> u64 {
        let once = (scrambled ^ scrambled >> 32).wrapping_mul(inverse(ODD));
        (once ^ once >> 32).wrapping_mul(inverse(self.0[1] | 1)) ^ self.0[0]
    }
}

/// The odd number that `odd` times is 1. Newton's iteration doubles the right bits: 3, 6, 12, 24, 48, 96.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

/// Both halves of the product, so that every input bit reaches every output bit.
#[inline]
const fn fold(left: u64, right: u64) -> u64 {
    let product = left as u128 * right as u128;
    (product as u64) ^ (product >> 64) as u64
}

/// 2^64 over the golden ratio: odd, and without a pattern in its bits.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrambled_names_come_back() {
        for secret in [Secret::new([0, 0]), Secret::new([u64::MAX, 1 << 63]), Secret::new([7, 12_345_678_901])] {
            for name in [0, 1, u64::MAX, 1 << 32, 0x0123_4567_89ab_cdef] {
                assert_eq!(secret.unscramble(secret.scramble(name)), name);
            }
        }
    }
}
