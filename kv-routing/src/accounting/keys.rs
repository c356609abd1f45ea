//! The names of a prompt's prefixes.

use kv_index::ContentHash;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::limits::PREDICTION_BLOCKS_MAX;

/// Keys for a prompt's first 1, 2, 4, 8, ... blocks and for all of them, each standing for the whole prefix. The first one is the first
/// block's content hash; each other one is XXH3-64 over the content hashes from the key before on, with that key as the seed. So a prompt is
/// hashed once, in long pieces. Keys leave no process, so no peer has to agree.
#[derive(Clone, Debug, Default)]
pub struct PrefixKeys {
    keys: Vec<Key>,
    /// The blocks' content hashes, little-endian.
    bytes: Vec<u8>,
}

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

    /// Becomes the keys of another prompt, in the memory of the last one.
    pub fn fill(&mut self, blocks: &[ContentHash]) {
        self.bytes.resize(blocks.len() * BLOCK, 0);
        for (bytes, block) in self.bytes.chunks_exact_mut(BLOCK).zip(blocks) {
            bytes.copy_from_slice(&block.0.to_le_bytes());
        }
        self.keys.clear();
        let powers = (0..).map_while(|power| 1_usize.checked_shl(power)).take_while(|length| *length < blocks.len());
        let (mut from, mut hash) = (0, 0);
        for length in powers.chain((!blocks.is_empty()).then_some(blocks.len())) {
            hash = if length == 1 { blocks[0].0 } else { xxh3_64_with_seed(&self.bytes[from * BLOCK..length * BLOCK], hash) };
            // A prompt of more blocks is none.
            self.keys.push(Key { blocks: u32::try_from(length).unwrap_or(u32::MAX), hash });
            from = length;
        }
    }

    /// How many of the prompt's first blocks are those of another one, of which these are the blocks' bytes.
    pub(super) fn shared_with(&self, other: &[u8]) -> u32 {
        let blocks = self.bytes.chunks_exact(BLOCK).zip(other.chunks_exact(BLOCK));
        u32::try_from(blocks.take_while(|(left, right)| left == right).count()).unwrap_or(u32::MAX)
    }

    /// The bytes of the first blocks, as many as a placement remembers.
    pub(super) fn remembered(&self) -> &[u8] {
        &self.bytes[..self.bytes.len().min(PREDICTION_BLOCKS_MAX * BLOCK)]
    }

    /// The keys, the shortest prefix first.
    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }
}

/// Bytes of one content hash.
const BLOCK: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(blocks: impl IntoIterator<Item = u64>) -> Vec<(u32, u64)> {
        let prompt: Vec<_> = blocks.into_iter().map(ContentHash).collect();
        PrefixKeys::of(&prompt).keys().iter().map(|key| (key.blocks, key.hash)).collect()
    }

    #[test]
    fn powers_of_two_and_all() {
        let depths = |blocks| keys(0..blocks).into_iter().map(|(blocks, _)| blocks).collect::<Vec<_>>();
        assert_eq!((depths(0), depths(1), depths(8), depths(10)), (vec![], vec![1], vec![1, 2, 4, 8], vec![1, 2, 4, 8, 10]));
    }

    #[test]
    fn each_key_depends_on_all_blocks_of_its_prefix_and_on_no_other() {
        let prompt: Vec<u64> = (100..120).collect();
        let plain = keys(prompt.clone());
        assert_eq!(plain[0], (1, 100));
        for changed in 0..20 {
            let mut other = prompt.clone();
            other[changed] += 1;
            for (before, after) in plain.iter().zip(keys(other)) {
                assert_eq!(*before == after, before.0 as usize <= changed, "block {changed}, {before:?}");
            }
        }
        assert_eq!(keys(100..112)[..4], plain[..4], "a shorter sibling");
    }

    #[test]
    fn memory_is_used_again() {
        let mut keys = PrefixKeys::of(&[ContentHash(1); 20]);
        keys.fill(&[ContentHash(2), ContentHash(3)]);
        assert_eq!(keys.keys(), PrefixKeys::of(&[ContentHash(2), ContentHash(3)]).keys());
    }
}
