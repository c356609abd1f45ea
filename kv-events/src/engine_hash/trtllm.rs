//! TensorRT-LLM's block hash, version 1 (`hash_algo` `v1_block_key`), for text blocks with or without LoRA.
//!
//! Known from a transcription of the engine's C++, not from a run of it: treat a mismatch as a question, not as a
//! verdict. Left out, because nothing here can confirm them: cache salts (newer releases salt with `std::hash`, which
//! is not portable), extra token ids and multimodal keys.

/// The hash of a block of `tokens` behind `parent`; a first block has no parent.
///
/// The engine writes "no parent" as zero, so a parent of zero is the root.
pub fn block(parent: Option<u64>, tokens: &[u32], lora_id: Option<u64>) -> u64 {
    let parent = parent.unwrap_or(0).wrapping_mul(MIX_1);
    let seed = tokens.len() as u64 ^ parent;
    let hash = tokens.iter().fold(seed, |hash, &token| fold_token(hash, token));
    lora_id.map_or(hash, |id| combine(hash, mix_word(id).wrapping_add(u64::from(GOLDEN))))
}

/// The sum with the golden ratio wraps at 32 bits: both operands are `unsigned int` in the engine.
fn fold_token(hash: u64, token: u32) -> u64 {
    combine(hash, u64::from(mix_token(token).wrapping_add(GOLDEN)))
}

fn combine(hash: u64, addend: u64) -> u64 {
    hash ^ addend.wrapping_add(hash << 6).wrapping_add(hash >> 2)
}

fn mix_token(token: u32) -> u32 {
    let once = (token >> 16 ^ token).wrapping_mul(MIX_TOKEN);
    let twice = (once >> 16 ^ once).wrapping_mul(MIX_TOKEN);
    twice >> 16 ^ twice
}

fn mix_word(word: u64) -> u64 {
    let once = (word ^ word >> 30).wrapping_mul(MIX_1);
    let twice = (once ^ once >> 27).wrapping_mul(MIX_2);
    twice ^ twice >> 31
}

/// The 32-bit golden ratio of Boost's `hash_combine`.
const GOLDEN: u32 = 0x9e37_79b9;
const MIX_TOKEN: u32 = 0x045d_9f3b;
// The multipliers of SplitMix64's finalizer.
const MIX_1: u64 = 0xbf58_476d_1ce4_e5b9;
const MIX_2: u64 = 0x94d0_49bb_1331_11eb;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transcribed_vectors() {
        let first: Vec<u32> = (1..=16).collect();
        let second: Vec<u32> = (17..=32).collect();
        let root = block(None, &first, None);
        assert_eq!(root, 6_052_439_777_046_529_588);
        assert_eq!(block(Some(root), &second, None), 757_415_256_212_586_101);
        assert_eq!(block(None, &first, Some(7)), 8_407_615_999_964_725_614);
    }

    #[test]
    fn parent_zero_is_the_root() {
        assert_eq!(block(Some(0), &[1, 2], None), block(None, &[1, 2], None));
    }
}
