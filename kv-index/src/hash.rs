//! Content hashing: from the tokens of a prompt, or of an engine's event, to [`ContentHash`]es.
//!
//! A block's content hash is XXH3-64 over its tokens as little-endian `u32`s, with a seed that stands for the
//! namespace. Seed 1337 and the way a LoRA and a salt enter it are what routers in the field use, so corpora and
//! peers can be compared. Both sides of a match, the request and the event, go through [`Scheme`].

use std::num::NonZeroU32;
use std::ops::Range;

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::ContentHash;

/// The seed of the base namespace: no LoRA, no salt.
pub const CONTENT_SEED: u64 = 1337;

/// How a stream cuts tokens into blocks.
///
/// An EAGLE engine's block of `B` bigrams covers `B + 1` tokens and its successor starts `B` tokens later: windows that
/// overlap by one. vLLM's lookahead hashing makes each block's hash cover `L` tokens more. Both are a `lookahead`
/// here, and a request is cut in the same windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scheme {
    /// Tokens from the start of one block to the start of the next.
    pub block_tokens: NonZeroU32,
    /// Tokens after its own that a block's content covers too: 0 for plain blocks, 1 for bigrams.
    pub lookahead_tokens: u32,
}

/// What makes equal tokens different content for a whole request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Namespace<'a> {
    /// The served name of the LoRA adapter. An empty one is none.
    pub lora: Option<&'a str>,
    /// The cache salt. An empty one is none.
    pub salt: Option<&'a str>,
}

/// The seed that a [`Namespace`] gives to the hash of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed(u64);

/// Something inside one block that its tokens do not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Item<'a> {
    /// A multimodal item.
    Multimodal {
        /// The item's identifier, as the engine hashes it.
        id: &'a str,
        /// Where it starts, in tokens from the start of the block; negative when it began in an earlier one.
        offset: i64,
    },
    /// A key that no request can be given: the content it makes is matched by no request.
    Opaque(&'a [u8]),
}

impl Scheme {
    /// Plain blocks of `block_tokens` tokens.
    pub const fn plain(block_tokens: NonZeroU32) -> Self {
        Self { block_tokens, lookahead_tokens: 0 }
    }

    /// How many blocks a prompt of `tokens` tokens has.
    pub fn blocks_in(&self, tokens: usize) -> usize {
        tokens.saturating_sub(self.lookahead_tokens as usize) / self.block()
    }

    /// The most blocks of a prompt of `tokens` tokens that an engine can reuse: its last token is always computed.
    pub fn reusable_in(&self, tokens: usize) -> usize {
        self.blocks_in(tokens).min(tokens.saturating_sub(1) / self.block())
    }

    /// The tokens that block `index` covers, lookahead included.
    pub fn window(&self, index: usize) -> Range<usize> {
        let start = index * self.block();
        start..start + self.block() + self.lookahead_tokens as usize
    }

    /// Hashes one block. `tokens` is its [`window`](Self::window).
    pub fn hash_block(&self, seed: Seed, tokens: &[u32], items: &[Item<'_>]) -> ContentHash {
        // Windows of another lookahead are another content, even where they happen to span the same tokens.
        let seed = seed.0 ^ u64::from(self.lookahead_tokens).wrapping_mul(LOOKAHEAD_SEED);
        let plain = hash_tokens(seed, tokens);
        if items.is_empty() { plain } else { hash_items(seed, plain, items) }
    }

    /// Hashes every whole block of a prompt into `out`, which is cleared first.
    pub fn hash_prompt(&self, namespace: Namespace<'_>, tokens: &[u32], out: &mut Vec<ContentHash>) {
        let seed = namespace.seed();
        out.clear();
        out.extend((0..self.blocks_in(tokens.len())).map(|index| self.hash_block(seed, &tokens[self.window(index)], &[])));
    }

    fn block(&self) -> usize {
        self.block_tokens.get() as usize
    }
}

impl Namespace<'_> {
    /// `1337 + XXH3(lora, seed 0) + XXH3(salt, seed 1)`, wrapping; what is absent or empty adds nothing.
    pub fn seed(&self) -> Seed {
        let part = |text: Option<&str>, seed| match text {
            None | Some("") => 0,
            Some(text) => xxh3_64_with_seed(text.as_bytes(), seed),
        };
        Seed(CONTENT_SEED.wrapping_add(part(self.lora, 0)).wrapping_add(part(self.salt, 1)))
    }
}

/// XXH3 over little-endian words, through a buffer on the stack: engines' blocks have 1 to 256 tokens, and most have 16. The
/// buffer is filled with zeros first, which for the longest takes longer than hashing 16 tokens.
fn hash_tokens(seed: u64, tokens: &[u32]) -> ContentHash {
    match tokens.len() {
        ..=20 => hash_in::<{ 4 * 20 }>(seed, tokens),
        21..=68 => hash_in::<{ 4 * 68 }>(seed, tokens),
        69..=260 => hash_in::<{ 4 * 260 }>(seed, tokens),
        _ => {
            let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
            ContentHash(xxh3_64_with_seed(&bytes, seed))
        }
    }
}

/// Hashes tokens that take at most `BYTES` bytes, without an allocation.
#[inline]
fn hash_in<const BYTES: usize>(seed: u64, tokens: &[u32]) -> ContentHash {
    let mut bytes = [0; BYTES];
    for (word, token) in bytes.chunks_exact_mut(4).zip(tokens) {
        word.copy_from_slice(&token.to_le_bytes());
    }
    ContentHash(xxh3_64_with_seed(&bytes[..4 * tokens.len()], seed))
}

/// Each item enters with a tag and its length, so that no two lists of items are one string of bytes.
fn hash_items(seed: u64, plain: ContentHash, items: &[Item<'_>]) -> ContentHash {
    let mut hasher = Xxh3::with_seed(seed);
    hasher.update(&plain.0.to_le_bytes());
    for item in items {
        let (tag, bytes, offset) = match *item {
            Item::Multimodal { id, offset } => (1u8, id.as_bytes(), offset),
            Item::Opaque(bytes) => (2, bytes, 0),
        };
        hasher.update(&[tag]);
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
        hasher.update(&offset.to_le_bytes());
    }
    ContentHash(hasher.digest())
}

/// Any odd constant far from 1 will do; this is 2^64 over the golden ratio.
const LOOKAHEAD_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    fn scheme(block: u32, lookahead_tokens: u32) -> Scheme {
        Scheme { block_tokens: NonZeroU32::new(block).unwrap(), lookahead_tokens }
    }

    fn prompt(scheme: Scheme, namespace: Namespace<'_>, tokens: &[u32]) -> Vec<ContentHash> {
        let mut out = vec![ContentHash(0)];
        scheme.hash_prompt(namespace, tokens, &mut out);
        out
    }

    #[test]
    fn the_hash_is_xxh3_over_little_endian_tokens_with_seed_1337() {
        let bytes: Vec<u8> = (1u32..=4).flat_map(u32::to_le_bytes).collect();
        let expected = ContentHash(xxh3_64_with_seed(&bytes, 1337));
        assert_eq!(prompt(scheme(4, 0), Namespace::default(), &[1, 2, 3, 4, 5]), [expected]);
    }

    #[test]
    fn blocks_of_any_length_hash_the_same_way() {
        for block in [1u32, 16, 19, 20, 21, 64, 68, 69, 256, 260, 261, 1000] {
            let tokens: Vec<u32> = (0..block).collect();
            let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
            assert_eq!(prompt(scheme(block, 0), Namespace::default(), &tokens), [ContentHash(xxh3_64_with_seed(&bytes, 1337))]);
        }
    }

    #[test]
    fn lora_and_salt_are_told_apart_and_empty_is_absent() {
        let of = |lora, salt| Namespace { lora, salt }.seed();
        let base = of(None, None);
        assert_eq!(base, Seed(1337));
        assert_eq!(of(Some(""), Some("")), base);
        assert_ne!(of(Some("a"), None), of(None, Some("a")));
        assert_ne!(of(Some("a"), None), base);
        let hash = |text: &str, seed| xxh3_64_with_seed(text.as_bytes(), seed);
        assert_eq!(of(Some("ad1"), Some("tenant")).0, 1337u64.wrapping_add(hash("ad1", 0)).wrapping_add(hash("tenant", 1)));
    }

    #[test]
    fn windows_overlap_by_the_lookahead() {
        let tokens: Vec<u32> = (1..=9).collect();
        let bigram = scheme(4, 1);
        assert_eq!(bigram.blocks_in(8), 1, "the second window would want a ninth token");
        assert_eq!(bigram.blocks_in(9), 2);
        assert_eq!((bigram.window(0), bigram.window(1)), (0..5, 4..9));
        let hashes = prompt(bigram, Namespace::default(), &tokens);
        assert_eq!(hashes[1], bigram.hash_block(Namespace::default().seed(), &[5, 6, 7, 8, 9], &[]));
        assert_ne!(hashes[0], prompt(scheme(5, 0), Namespace::default(), &tokens)[0], "five plain tokens are another content");
    }

    #[test]
    fn the_last_token_is_never_reusable() {
        assert_eq!([31, 32, 33, 64, 65].map(|n| scheme(32, 0).reusable_in(n)), [0, 0, 1, 1, 2]);
        assert_eq!([4, 5, 8, 9].map(|n| scheme(4, 1).reusable_in(n)), [0, 1, 1, 2]);
        assert_eq!(scheme(1, 0).reusable_in(0), 0);
    }

    #[test]
    fn items_enter_with_their_kind_length_and_offset() {
        let seed = Namespace::default().seed();
        let of = |items: &[Item<'_>]| scheme(2, 0).hash_block(seed, &[1, 2], items);
        let image = |id, offset| Item::Multimodal { id, offset };
        let all = [
            of(&[]),
            of(&[image("ab", 0)]),
            of(&[image("ab", -1)]),
            of(&[image("a", 0), image("b", 0)]),
            of(&[Item::Opaque(b"ab")]),
            of(&[image("b", 0), image("a", 0)]),
        ];
        for (i, left) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|right| left != right), "{i}");
        }
    }

    #[test]
    fn the_hash_of_items_is_pinned() {
        let seed = Namespace { lora: None, salt: Some("tenant") }.seed();
        let tokens = [1, 2];
        let items = [Item::Multimodal { id: "img", offset: -3 }, Item::Opaque(b"xy")];
        let plain = scheme(2, 0).hash_block(seed, &tokens, &[]).0.to_le_bytes();
        let image = [&[1][..], &3u64.to_le_bytes(), b"img", &(-3i64).to_le_bytes()].concat();
        let opaque = [&[2][..], &2u64.to_le_bytes(), b"xy", &0i64.to_le_bytes()].concat();
        let expected = xxh3_64_with_seed(&[&plain[..], &image, &opaque].concat(), seed.0);
        assert_eq!(scheme(2, 0).hash_block(seed, &tokens, &items), ContentHash(expected));
    }

    #[test]
    fn no_two_lists_of_items_are_one_string_of_bytes() {
        let seed = Namespace::default().seed();
        let of = |items: &[Item<'_>]| scheme(2, 0).hash_block(seed, &[1, 2], items);
        // Without their lengths, both would be a tag, eight zeros, a tag, eight zeros.
        assert_ne!(of(&[Item::Opaque(b""), Item::Opaque(b"")]), of(&[Item::Opaque(&[0, 0, 0, 0, 0, 0, 0, 0, 2])]));
    }
}
