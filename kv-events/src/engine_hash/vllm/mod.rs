//! vLLM's block hashes since 0.10.2: `H((parent, (token, ...), extra))`, serialised by pickle or by canonical CBOR.
//!
//! ```
//! use kv_events::engine_hash::vllm::{Algorithm, Block, DEFAULT_SEED};
//!
//! let algorithm = Algorithm::Sha256Cbor;
//! let root = algorithm.root(DEFAULT_SEED)?;
//! let first = algorithm.block(&root, &Block::of(&[1, 2, 3, 4]))?;
//! let second = algorithm.block(&first, &Block::of(&[5, 6, 7, 8]))?;
//! assert_eq!(second.event_word().cast_signed(), -3_153_830_497_298_837_583);
//! # Ok::<(), kv_events::engine_hash::Unverifiable>(())
//! ```

pub mod legacy;

use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh3::xxh3_128;

use super::value::Value;
use super::{Unverifiable, cbor, pickle};

/// `--prefix-caching-hash-algo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// SHA-256 of the pickle: the default since 0.10.2.
    Sha256,
    /// SHA-256 of the canonical CBOR.
    Sha256Cbor,
    /// XXH3-128 of the pickle (0.13 and later).
    Xxhash,
    /// XXH3-128 of the canonical CBOR (0.13 and later).
    XxhashCbor,
}

impl Algorithm {
    /// The parent of every first block: the hash of `seed`, a text.
    ///
    /// The seed is PYTHONHASHSEED where it is set. Where it is not, 0.29.0 and later take [`DEFAULT_SEED`] for the
    /// SHA-256 algorithms; the others, and all earlier releases, draw a random root in each process, and none of their
    /// hashes can be recomputed.
    ///
    /// # Errors
    /// [`Unverifiable::PickleTooLong`] on a seed of 64 KiB and more.
    pub fn root(self, seed: &str) -> Result<Digest, Unverifiable> {
        self.hash(&Value::Text(seed))
    }

    /// The digest of a block behind `parent`.
    ///
    /// # Errors
    /// [`Unverifiable`] where equal values can hash apart, or where the block's LoRA path is missing: then nothing can be
    /// said about the engine's hash.
    pub fn block(self, parent: &Digest, block: &Block<'_>) -> Result<Digest, Unverifiable> {
        let extra = block.extra()?;
        self.hash(&Value::Tuple(vec![Value::Bytes(parent.as_bytes()), Value::Tokens(block.tokens), extra]))
    }

    fn hash(self, value: &Value<'_>) -> Result<Digest, Unverifiable> {
        Ok(match self {
            Self::Sha256 => Digest::sha256(&pickle::encode(value)?),
            Self::Sha256Cbor => Digest::sha256(&cbor::encode(value)),
            Self::Xxhash => Digest::xxh3(&pickle::encode(value)?),
            Self::XxhashCbor => Digest::xxh3(&cbor::encode(value)),
        })
    }
}

/// A block's full digest, which its successors are chained on; the byte-string form of an event's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Digest {
    /// Of the SHA-256 algorithms.
    Sha256([u8; 32]),
    /// Of the xxhash algorithms, big-endian.
    Xxh3([u8; 16]),
}

impl Digest {
    /// The bytes that an event carries where integer hashes are switched off.
    pub const fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Sha256(bytes) => bytes,
            Self::Xxh3(bytes) => bytes,
        }
    }

    /// The 64 bits that an integer event carries: the last eight bytes, big-endian.
    pub fn event_word(&self) -> u64 {
        let tail = self.as_bytes().last_chunk().copied();
        u64::from_be_bytes(tail.unwrap_or_default())
    }

    fn sha256(bytes: &[u8]) -> Self {
        Self::Sha256(Sha256::digest(bytes).into())
    }

    fn xxh3(bytes: &[u8]) -> Self {
        Self::Xxh3(xxh3_128(bytes).to_be_bytes())
    }
}

/// What a block's hash covers besides its parent.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// The block's own tokens.
    pub tokens: &'a [u32],
    /// The extra keys in the engine's order: LoRA, multimodal items, cache salt (a chain's first block only), prompt
    /// embeddings.
    pub keys: &'a [ExtraKey<'a>],
    /// How the release writes them.
    pub form: KeyForm,
    /// Tokens *behind* the block that its hash covers too: EAGLE drafters of 0.33.0 and later with hash lookahead on.
    pub lookahead: &'a [u32],
}

impl<'a> Block<'a> {
    /// A block of nothing but tokens.
    pub fn of(tokens: &'a [u32]) -> Self {
        Self { tokens, keys: &[], form: KeyForm::Tagged, lookahead: &[] }
    }

    fn extra(&self) -> Result<Value<'a>, Unverifiable> {
        let keys = self.keys_value()?;
        if self.lookahead.is_empty() {
            return Ok(keys);
        }
        let tokens = self.lookahead.iter().map(|&token| Value::Int(token.into()));
        Ok(Value::Tuple([keys].into_iter().chain(tokens).collect()))
    }

    fn keys_value(&self) -> Result<Value<'a>, Unverifiable> {
        if self.keys.is_empty() {
            return Ok(Value::None);
        }
        let items: Result<_, _> = self.keys.iter().map(|key| key.value(self.form)).collect();
        Ok(Value::Tuple(items?))
    }
}

/// One extra key of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraKey<'a> {
    /// The adapter's number: 0.9 to 0.11.0.
    LoraId(i64),
    /// The adapter by name: 0.11.1 and later.
    Lora {
        /// Served name.
        name: &'a str,
        /// Path, part of the hash from 0.31.0 on. Events never show it.
        path: Option<&'a str>,
    },
    /// An image or another item that reaches into the block.
    Multimodal {
        /// The item's identifier.
        id: &'a str,
        /// Tokens from the block's start to the item's start, negative when the item began in an earlier block.
        offset: i64,
    },
    /// The request's cache salt.
    CacheSalt(&'a str),
    /// The digest of the block's part of the prompt embeddings.
    PromptEmbeds(&'a [u8]),
}

impl<'a> ExtraKey<'a> {
    fn value(&self, form: KeyForm) -> Result<Value<'a>, Unverifiable> {
        let parts = self.parts(form)?;
        Ok(match (form, self.tag()) {
            (KeyForm::Tagged, Some(tag)) => Value::Tuple([Value::Literal(tag)].into_iter().chain(parts).collect()),
            _ => single_or_tuple(parts),
        })
    }

    fn parts(&self, form: KeyForm) -> Result<Vec<Value<'a>>, Unverifiable> {
        Ok(match *self {
            Self::LoraId(id) => vec![Value::Int(id)],
            Self::Lora { name, path } if form == KeyForm::Tagged => {
                let unknown = || Unverifiable::LoraPathUnknown { name: name.to_owned() };
                vec![Value::Text(name), Value::Text(path.ok_or_else(unknown)?)]
            }
            Self::Lora { name, .. } => vec![Value::Text(name)],
            Self::Multimodal { id, .. } if form == KeyForm::BareId => vec![Value::Text(id)],
            Self::Multimodal { id, offset } => vec![Value::Text(id), Value::Int(offset)],
            Self::CacheSalt(salt) => vec![Value::Text(salt)],
            Self::PromptEmbeds(digest) => vec![Value::Bytes(digest)],
        })
    }

    /// The engine's tag. Numbered adapters are older than tags.
    const fn tag(&self) -> Option<&'static str> {
        match self {
            Self::LoraId(_) => None,
            Self::Lora { .. } => Some("lora"),
            Self::Multimodal { .. } => Some("mm"),
            Self::CacheSalt(_) => Some("cache_salt"),
            Self::PromptEmbeds(_) => Some("prompt_embeds"),
        }
    }
}

/// How a release writes extra keys into the hash. Events show them untagged in every release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// Up to 0.18: bare values, a multimodal item by its identifier alone.
    BareId,
    /// 0.19 to 0.30: bare values, a multimodal item as (identifier, offset).
    IdAndOffset,
    /// 0.31.0 and later: tuples that begin with a tag.
    Tagged,
}

fn single_or_tuple(mut parts: Vec<Value<'_>>) -> Value<'_> {
    if parts.len() == 1 { parts.remove(0) } else { Value::Tuple(parts) }
}

/// What 0.29.0 and later hash into the root when PYTHONHASHSEED is not set, for the SHA-256 algorithms.
pub const DEFAULT_SEED: &str = "vllm-none-hash";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lora_without_its_path_cannot_be_checked() {
        let algorithm = Algorithm::Sha256Cbor;
        let root = algorithm.root("0").unwrap();
        let keys = [ExtraKey::Lora { name: "sql", path: None }];
        let tagged = Block { keys: &keys, ..Block::of(&[1]) };
        let unknown = Unverifiable::LoraPathUnknown { name: "sql".to_owned() };
        assert_eq!(algorithm.block(&root, &tagged), Err(unknown));
        let untagged = Block { form: KeyForm::IdAndOffset, ..tagged };
        assert!(algorithm.block(&root, &untagged).is_ok());
    }

    #[test]
    fn one_image_twice_in_a_block_is_refused_by_pickle_only() {
        let keys = [3, 9].map(|offset| ExtraKey::Multimodal { id: "img", offset });
        let block = Block { keys: &keys, ..Block::of(&[1]) };
        let cbor = Algorithm::Sha256Cbor;
        assert!(cbor.block(&cbor.root("0").unwrap(), &block).is_ok());
        let pickle = Algorithm::Sha256;
        let refused = pickle.block(&pickle.root("0").unwrap(), &block);
        assert!(matches!(refused, Err(Unverifiable::RepeatedText { .. })));
    }

    #[test]
    fn words_are_the_last_eight_bytes() {
        let mut bytes = [0; 16];
        bytes[15] = 7;
        bytes[7] = 9;
        assert_eq!(Digest::Xxh3(bytes).event_word(), 7);
    }
}
