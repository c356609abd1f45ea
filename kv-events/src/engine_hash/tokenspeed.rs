//! TokenSpeed's block hash: FNV-1a over parent, token count and tokens.

use super::fnv::Fnv1a;

/// The hash of a block of `tokens` behind `parent`; a first block has no parent.
///
/// A partial tail is hashed like a full block, over the tokens it has. The engine's tokens are signed; a negative one
/// is the same four bytes unsigned.
pub fn block(parent: Option<u64>, tokens: &[u32]) -> u64 {
    let mut hash = Fnv1a::new();
    hash.update(&[u8::from(parent.is_some())]);
    if let Some(word) = parent {
        hash.update(&word.to_le_bytes());
    }
    hash.update(&(tokens.len() as u64).to_le_bytes());
    tokens.iter().for_each(|token| hash.update(&token.to_le_bytes()));
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes of the engine's own `kv_cache_events.cpp` (0.1.42).
    #[test]
    fn chain_and_tail() {
        let first: Vec<u32> = (1..=16).collect();
        let second: Vec<u32> = (17..=32).collect();
        let root = block(None, &first);
        assert_eq!(root, 11_880_442_419_270_333_855);
        assert_eq!(block(Some(root), &second), 2_806_543_249_796_439_827);
        assert_eq!(block(Some(root), &second[..5]), 10_739_287_746_543_653_111);
    }

    #[test]
    fn a_zero_parent_is_a_parent() {
        assert_ne!(block(Some(0), &[1]), block(None, &[1]));
    }
}
