//! The words that every crate of the workspace shares.

use std::fmt;

/// The engine's own hash of a block: 64 bits that mean something to one worker only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockName(pub u64);

/// Our hash of a block's tokens and of everything else that makes two blocks different (LoRA, salt, multimodal
/// items), but not of what stands before it. See [`crate::hash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct ContentHash(pub u64);

/// The index's handle for one stream of events. Dense, from 0; the id of a dropped worker is given out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u32);

/// One storage tier or one cache group of a worker, scored apart. Dense, from [`View::MAIN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct View(pub u8);

impl View {
    /// The view that every worker has.
    pub const MAIN: Self = Self(0);
}

/// One block of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// The engine's name; without one the block is a step of the path that nobody holds by this store.
    pub name: Option<BlockName>,
    /// What the block contains.
    pub content: ContentHash,
}

impl Block {
    /// A block that the view will hold.
    pub const fn named(name: BlockName, content: ContentHash) -> Self {
        Self { name: Some(name), content }
    }

    /// A step of the path, placed and not held.
    pub const fn step(content: ContentHash) -> Self {
        Self { name: None, content }
    }
}

/// What a store did with one of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stored {
    /// The view holds the name now, and did not before; no view held it elsewhere.
    New,
    /// The view held the name at this place already: nothing changed.
    AlreadyHeld,
    /// The name stood at another place. Every view lost it there, and the storing view holds it here.
    Moved,
    /// The block has no name: a step.
    Step,
}

/// What a removal did with one of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Removed {
    /// The view held the name and no longer does.
    Removed,
    /// The view did not hold the name: nothing changed.
    Unknown,
}

/// One name that a view holds at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holding {
    /// The holding view.
    pub view: View,
    /// Blocks between the root and the place.
    pub position: u32,
    /// The content at the place.
    pub content: ContentHash,
    /// The name held there.
    pub name: BlockName,
}

/// A summary of all that one view of a worker holds, kept in constant time for each change: two views hold the
/// same set of (position, content, name) if their digests are equal, up to a collision of 192 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digest {
    /// Names held. Twins count twice.
    pub count: u64,
    /// Exclusive or of [`Holding`] mixes.
    pub xor: u64,
    /// Wrapping sum of the same mixes.
    pub sum: u64,
}

impl Digest {
    /// Takes one more holding in.
    #[inline]
    pub fn add(&mut self, position: u32, content: ContentHash, name: BlockName) {
        let mix = mix(position, content, name);
        self.count += 1;
        self.xor ^= mix;
        self.sum = self.sum.wrapping_add(mix);
    }

    /// Takes a holding out that was taken in before.
    #[inline]
    pub fn subtract(&mut self, position: u32, content: ContentHash, name: BlockName) {
        let mix = mix(position, content, name);
        self.count -= 1;
        self.xor ^= mix;
        self.sum = self.sum.wrapping_sub(mix);
    }
}

impl fmt::Display for BlockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.0)
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "view {}", self.0)
    }
}

/// Scatters a holding over 64 bits: two rounds of a full product, whose halves are folded together. The name has a round of
/// its own, so that `content ^ name` coincidences (SGLang's names are hashes of the very tokens) do not cancel out.
#[inline]
fn mix(position: u32, content: ContentHash, name: BlockName) -> u64 {
    let place = fold(content.0 ^ GOLDEN_GAMMA, u64::from(position).wrapping_mul(GOLDEN_GAMMA) ^ PI);
    fold(place ^ name.0, name.0.rotate_left(32) ^ PI)
}

#[inline]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    #[expect(clippy::cast_possible_truncation, reason = "the lower half, and then the upper")]
    let (low, high) = (product as u64, (product >> 64) as u64);
    low ^ high
}

/// 2^64 over the golden ratio: odd, and without a pattern in its bits.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The first 64 bits of the fraction of pi.
const PI: u64 = 0x243f_6a88_85a3_08d3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_forgets_what_is_taken_out_in_any_order() {
        let holdings: Vec<_> = (0..64).map(|i| (i, ContentHash(u64::from(i) * 3), BlockName(u64::from(i) * 7))).collect();
        let mut digest = Digest::default();
        holdings.iter().for_each(|&(position, content, name)| digest.add(position, content, name));
        assert_eq!(digest.count, 64);
        holdings.iter().rev().for_each(|&(position, content, name)| digest.subtract(position, content, name));
        assert_eq!(digest, Digest::default());
    }

    #[test]
    fn a_digest_sees_a_swap_of_names_contents_or_positions() {
        let of = |holdings: [(u32, u64, u64); 2]| {
            let mut digest = Digest::default();
            holdings.iter().for_each(|&(position, content, name)| digest.add(position, ContentHash(content), BlockName(name)));
            digest
        };
        let all =
            [of([(0, 5, 9), (1, 6, 10)]), of([(0, 5, 10), (1, 6, 9)]), of([(0, 6, 9), (1, 5, 10)]), of([(1, 5, 9), (0, 6, 10)])];
        for (i, left) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|right| left != right));
        }
    }
}
