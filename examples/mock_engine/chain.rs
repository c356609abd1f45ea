//! Names of the blocks of a token sequence.

/// The names of the full blocks of a growing token sequence.
///
/// A name is the FNV-1a 64 hash of all tokens from the first to the block's last, as little-endian bytes: equal names
/// mean equal prefixes, and the state after a block is its name, so extending the chain costs only the new tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockChain {
    block_size: usize,
    state: u64,
    tail_tokens: usize,
    names: Vec<u64>,
}

impl BlockChain {
    /// The chain of no tokens. `block_size` is in tokens, at least 1.
    pub fn new(block_size: usize) -> Self {
        Self { block_size: block_size.max(1), state: FNV_BASIS, tail_tokens: 0, names: Vec::new() }
    }

    /// The chain of `tokens`.
    pub fn of(tokens: &[u32], block_size: usize) -> Self {
        let mut chain = Self::new(block_size);
        tokens.iter().for_each(|&token| chain.push(token));
        chain
    }

    /// Appends one token.
    pub fn push(&mut self, token: u32) {
        for byte in token.to_le_bytes() {
            self.state = (self.state ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        self.tail_tokens += 1;
        if self.tail_tokens == self.block_size {
            self.names.push(self.state);
            self.tail_tokens = 0;
        }
    }

    /// Names of the full blocks, first block first.
    pub fn names(&self) -> &[u64] {
        &self.names
    }

    /// The names that a cache can serve to a prompt of this chain's tokens: without the block that holds the last
    /// token, because an engine must compute at least one token to have something to sample from.
    pub fn servable(&self) -> &[u64] {
        let tokens = self.names.len() * self.block_size + self.tail_tokens;
        &self.names[..tokens.saturating_sub(1) / self.block_size]
    }
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_hash_of_all_bytes_so_far() {
        // "foob" is in the published FNV-1a 64 test vectors.
        let tokens = [u32::from_le_bytes(*b"foob"), u32::from_le_bytes(*b"ar\0\0")];
        let names = BlockChain::of(&tokens, 1).names().to_vec();
        assert_eq!(names[0], 0xdd12_0e79_0c25_12af);
        assert_ne!(names[1], BlockChain::of(&tokens[1..], 1).names()[0]);
    }

    #[test]
    fn equal_prefixes_share_names_and_the_tail_has_none() {
        let chain = BlockChain::of(&[1, 2, 3, 4, 5], 2);
        let other = BlockChain::of(&[1, 2, 3, 9], 2);
        assert_eq!(chain.names().len(), 2);
        assert_eq!(chain.names()[0], other.names()[0]);
        assert_ne!(chain.names()[1], other.names()[1]);
    }

    #[test]
    fn the_last_token_is_never_servable() {
        let servable = |tokens: usize| BlockChain::of(&vec![7; tokens], 16).servable().len();
        assert_eq!([0, 1, 16, 17, 64, 65].map(servable), [0, 0, 0, 1, 3, 4]);
    }
}
