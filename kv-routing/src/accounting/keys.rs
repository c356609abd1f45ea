//! The names of a prompt's prefixes.

use kv_index::ContentHash;
use xxhash_rust::xxh3::xxh3_64;

/// The chain hashes of a prompt's first 1, 2, 4, 8, ... blocks and of all of them. A chain hash stands for a whole prefix: the first
/// block's content hash, then XXH3-64 over the one before and the block's content hash, both little-endian.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixKeys(Vec<Key>);

/// One prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Its length in blocks.
    pub(super) blocks: u32,
    pub(super) hash: u64,
}

impl PrefixKeys {
    /// The keys of a prompt of these blocks. One without a whole block has none.
    pub fn of(blocks: &[ContentHash]) -> Self {
        let mut keys = Self::default();
        keys.fill(blocks);
        keys
    }

    /// Becomes the keys of another prompt.
    pub fn fill(&mut self, blocks: &[ContentHash]) {
        self.0.clear();
        let mut hash = 0;
        for (length, block) in (1_u32..).zip(blocks) {
            hash = if length == 1 { block.0 } else { chained(hash, *block) };
            if length.is_power_of_two() || length as usize == blocks.len() {
                self.0.push(Key { blocks: length, hash });
            }
        }
    }

    /// The keys, the shortest prefix first.
    pub(super) fn keys(&self) -> &[Key] {
        &self.0
    }
}

fn chained(prefix: u64, block: ContentHash) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&prefix.to_le_bytes());
    bytes[8..].copy_from_slice(&block.0.to_le_bytes());
    xxh3_64(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depths(blocks: u64) -> Vec<u32> {
        let prompt: Vec<_> = (0..blocks).map(ContentHash).collect();
        PrefixKeys::of(&prompt).keys().iter().map(|key| key.blocks).collect()
    }

    #[test]
    fn powers_of_two_and_all() {
        assert_eq!((depths(0), depths(1), depths(8), depths(10)), (vec![], vec![1], vec![1, 2, 4, 8], vec![1, 2, 4, 8, 10]));
    }

    #[test]
    fn the_first_key_is_the_bare_content_hash_and_the_others_depend_on_all_before() {
        let keys =
            |blocks: [u64; 2]| PrefixKeys::of(&blocks.map(ContentHash)).keys().iter().map(|key| key.hash).collect::<Vec<_>>();
        assert_eq!(keys([5, 6])[0], 5);
        assert_eq!(keys([5, 6])[1], xxh3_64(&[5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]));
        assert_ne!(keys([5, 6])[1], keys([6, 5])[1]);
    }
}
