//! One model of what engines announce, whatever the wire.
//!
//! The decoders of [`crate::wire`] fill it field by field and change nothing: words stay as the engine
//! wrote them (media, kinds, ownership), absent fields stay absent, full hashes stay full. What the
//! words *mean* is decided later, by [`crate::normalize`].

use kv_index::BlockName;

use crate::loss::{Loss, Losses};

/// What one message of an engine holds: the events of one scheduler step of one rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The engine's wall clock when it published, in seconds since the epoch. Not monotonic; 0 when unreadable.
    pub timestamp_s: f64,
    /// The data-parallel rank that the payload names. Absent on the oldest wires, and an absent rank is not rank 0.
    pub rank: Option<u32>,
    /// The readable events, in the engine's order.
    pub events: Vec<Event>,
    /// What of this batch could not be read.
    pub losses: Losses,
}

impl Batch {
    /// Whether it says more than could be read: what that would have changed is not known.
    pub(crate) fn is_damaged(&self) -> bool {
        [Loss::UnreadablePayload, Loss::Malformed, Loss::OverLimit].into_iter().any(|loss| self.losses.count(loss) > 0)
    }

    /// Whether the batch starts a new life of the whole rank: it holds a clear that no secondary owner made.
    pub fn clears(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Cleared(clear) if clear.ownership.is_none()))
    }
}

/// One announcement.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Blocks entered the cache. Boxed: a removal is the most frequent event, and a third of the size.
    Stored(Box<Stored>),
    /// Blocks left the cache.
    Removed(Removed),
    /// The whole cache of the rank was emptied.
    Cleared(Cleared),
}

/// Blocks that entered the cache, as the engine told it. Lengths are not checked against each other here:
/// the number of hashes times the block size differs from the number of tokens in several honest cases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    /// The engine's hashes of the listed blocks, in path order.
    pub hashes: Vec<EngineHash>,
    /// The block before the range; absent for a range that starts a prompt (and on some wires when it doesn't).
    pub parent: Option<EngineHash>,
    /// The tokens that the range spans.
    pub tokens: Tokens,
    /// Tokens (or bigrams) in a block; 0 in placeholders that name blocks without their tokens.
    pub block_size: u32,
    /// vLLM's per-server number of the LoRA adapter.
    pub lora_id: Option<i64>,
    /// The served name of the LoRA adapter.
    pub lora_name: Option<String>,
    /// The salt, where the wire has a field for it (SGLang).
    pub cache_salt: Option<String>,
    /// vLLM's extra keys: nothing if the field was not sent, else an entry for each listed hash.
    pub extra_keys: Option<Vec<Vec<ExtraKey>>>,
    /// The storage medium's word.
    pub medium: Option<String>,
    /// The cache group of a hybrid model.
    pub group: Option<u32>,
    /// The group's attention kind, as the engine's word.
    pub kind: Option<String>,
    /// The group's sliding window in tokens.
    pub window: Option<u32>,
    /// `LOCAL`, `REMOTE` or a word not known yet.
    pub locality: Option<String>,
    /// The secondary owner, where one stored the blocks.
    pub ownership: Option<String>,
    /// For each listed hash, the tokens after the block that its hash covers too (vLLM 0.33 with EAGLE hashing).
    pub lookahead: Option<Vec<Vec<u32>>>,
    /// SGLang's component labels (`full`, `swa`, `mamba`), where a build sends them.
    pub components: Vec<String>,
    /// How the event was laid out: evidence of the engine's version.
    pub layout: Layout,
}

/// Blocks that left the cache.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Removed {
    /// The engine's hashes.
    pub hashes: Vec<EngineHash>,
    /// The storage medium's word.
    pub medium: Option<String>,
    /// The cache group of a hybrid model.
    pub group: Option<u32>,
    /// `LOCAL`, `REMOTE` or a word not known yet.
    pub locality: Option<String>,
    /// The secondary owner, where one removed the blocks.
    pub ownership: Option<String>,
}

/// The whole cache of the rank was emptied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cleared {
    /// The secondary owner, where only its share was cleared.
    pub ownership: Option<String>,
}

/// The tokens of a store.
#[derive(Clone, Debug, PartialEq)]
pub enum Tokens {
    /// Plain ids.
    Ids(Vec<u32>),
    /// Overlapping pairs of an EAGLE engine: `[t0, t1], [t1, t2], ...`.
    Bigrams(Vec<[u32; 2]>),
}

impl Tokens {
    /// How many units (ids or pairs) there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Ids(ids) => ids.len(),
            Self::Bigrams(pairs) => pairs.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for Tokens {
    fn default() -> Self {
        Self::Ids(Vec::new())
    }
}

/// One of the things besides its tokens that make a vLLM block different. Untagged on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ExtraKey {
    /// A bare text: the LoRA's name, the salt, or (0.17 and 0.18) a multimodal id.
    Text(String),
    /// A multimodal item and where it starts, in tokens from the block's start; negative when it began earlier.
    Item {
        /// The item's identifier.
        id: String,
        /// Tokens from the start of the block.
        offset: i64,
    },
    /// A byte digest, as of prompt embeddings.
    Bytes(Vec<u8>),
    /// A shape that no release here has; the bytes of its msgpack value as they were sent.
    Unknown(Vec<u8>),
}

/// How an event was laid out on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// A tag-first array of so many slots, the tag included.
    Array(u8),
    /// A map with a `type` key.
    #[default]
    Map,
    /// TensorRT-LLM's JSON.
    Json,
}

/// A block's hash as the engine sent it.
///
/// Its 64-bit identity, [`EngineHash::name`], follows one rule: an integer is its 64-bit pattern (so `-1` and
/// `u64::MAX` are one name), and a byte string is its **last** 8 bytes, big-endian (shorter ones are extended with
/// zeros in front). vLLM's integers are the last 8 bytes of its digests, so both forms of one hash give one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EngineHash {
    /// Sent as an integer of either sign.
    Word(u64),
    /// Sent as bytes, or as a text of hexadecimal digits.
    Digest(Box<[u8]>),
}

impl EngineHash {
    /// The 64-bit identity of the block within its rank.
    pub fn name(&self) -> BlockName {
        match self {
            Self::Word(word) => BlockName(*word),
            Self::Digest(bytes) => BlockName(bytes.iter().rev().take(8).rev().fold(0, |word, byte| word << 8 | u64::from(*byte))),
        }
    }
}

impl From<Stored> for Event {
    fn from(stored: Stored) -> Self {
        Self::Stored(Box::new(stored))
    }
}

impl From<Removed> for Event {
    fn from(removed: Removed) -> Self {
        Self::Removed(removed)
    }
}

impl From<u64> for EngineHash {
    fn from(word: u64) -> Self {
        Self::Word(word)
    }
}

impl From<i64> for EngineHash {
    fn from(word: i64) -> Self {
        Self::Word(word.cast_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_the_digest_they_were_cut_from_are_one_name() {
        let mut digest = [7u8; 32];
        digest[24..].copy_from_slice(&0xfedc_ba98_7654_3210_u64.to_be_bytes());
        let full = EngineHash::Digest(digest.into());
        assert_eq!(full.name(), EngineHash::from(0xfedc_ba98_7654_3210_u64).name());
        assert_eq!(full.name(), EngineHash::from(0xfedc_ba98_7654_3210_u64.cast_signed()).name());
    }

    #[test]
    fn a_clear_by_a_secondary_owner_starts_no_new_life() {
        let batch = |ownership: Option<&str>| Batch {
            events: vec![Removed::default().into(), Event::Cleared(Cleared { ownership: ownership.map(Into::into) })],
            ..Batch::default()
        };
        assert!(batch(None).clears() && !batch(Some("kvcr")).clears() && !Batch::default().clears());
    }

    #[test]
    fn a_short_digest_is_extended_in_front() {
        assert_eq!(EngineHash::Digest(vec![1, 2].into()).name(), BlockName(0x0102));
        assert_eq!(EngineHash::Digest(Vec::new().into()).name(), BlockName(0));
    }
}
