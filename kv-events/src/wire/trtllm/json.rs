//! The JSON objects as TensorRT-LLM names them. Unknown members are passed over.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde_json::value::RawValue;

use crate::event::EngineHash;
use crate::limits::TEXT_BYTES_MAX;
use crate::wire::fields::hex_digest;

/// What every event must have to be placed at all.
#[derive(Deserialize)]
pub(super) struct Identity {
    pub(super) event_id: u64,
}

#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    pub(super) window_size: Option<u32>,
    pub(super) layer_group_id: Option<u32>,
    pub(super) attention_dp_rank: Option<u32>,
    #[serde(borrow)]
    pub(super) data: &'a RawValue,
}

#[derive(Deserialize)]
pub(super) struct Kind {
    #[serde(rename = "type")]
    pub(super) name: String,
}

#[derive(Deserialize)]
pub(super) struct Created {
    pub(super) num_blocks_per_cache_level: Vec<u64>,
}

#[derive(Deserialize)]
pub(super) struct Stored {
    pub(super) parent_hash: Option<Hash>,
    pub(super) lora_name: Option<Text>,
    pub(super) blocks: Vec<Block>,
}

#[derive(Deserialize)]
pub(super) struct Block {
    #[serde(rename = "block_hash")]
    pub(super) hash: Hash,
    pub(super) tokens: Vec<UniqueToken>,
    pub(super) cache_level: Option<u8>,
    pub(super) lora_id: Option<i64>,
    pub(super) cache_salt: Option<Text>,
    pub(super) mm_keys: Option<Vec<MultimodalKey>>,
}

#[derive(Deserialize)]
pub(super) struct UniqueToken {
    pub(super) token_id: Token,
}

#[derive(Deserialize)]
pub(super) struct MultimodalKey {
    pub(super) hash: Text,
    pub(super) start_offset: i64,
}

#[derive(Deserialize)]
pub(super) struct Removed {
    pub(super) block_hashes: Vec<Hash>,
}

#[derive(Deserialize)]
pub(super) struct Updated {
    pub(super) block_hash: Hash,
    pub(super) cache_level: Option<Move>,
}

/// A block's way between cache levels.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct Move {
    #[serde(rename = "old_value")]
    pub(super) from: u8,
    #[serde(rename = "new_value")]
    pub(super) to: u8,
}

/// A hash: a number of 64 bits, exact beyond 2^53, or a text of hexadecimal digits.
#[derive(Clone)]
pub(super) struct Hash(pub(super) EngineHash);

/// A text of at most [`TEXT_BYTES_MAX`] bytes.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Text(pub(super) String);

/// A token's id, or the digest of the multimodal item in whose place it stands.
pub(super) enum Token {
    Id(u32),
    Digest(Text),
}

impl TryFrom<String> for Text {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.len() {
            ..=TEXT_BYTES_MAX => Ok(Self(text)),
            len => Err(format!("expected a text of at most {TEXT_BYTES_MAX} bytes, got {len}")),
        }
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HashVisitor)
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TokenVisitor)
    }
}

struct HashVisitor;

impl Visitor<'_> for HashVisitor {
    type Value = Hash;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a hash of 64 bits or in hexadecimal digits")
    }

    fn visit_u64<E>(self, word: u64) -> Result<Hash, E> {
        Ok(Hash(word.into()))
    }

    fn visit_i64<E>(self, word: i64) -> Result<Hash, E> {
        Ok(Hash(word.into()))
    }

    fn visit_str<E: Error>(self, digits: &str) -> Result<Hash, E> {
        hex_digest(digits.as_bytes()).map(Hash).ok_or_else(|| E::invalid_value(Unexpected::Str(digits), &self))
    }
}

struct TokenVisitor;

impl Visitor<'_> for TokenVisitor {
    type Value = Token;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a token id of 32 bits or a digest")
    }

    fn visit_u64<E: Error>(self, id: u64) -> Result<Token, E> {
        u32::try_from(id).map(Token::Id).map_err(|_| E::invalid_value(Unexpected::Unsigned(id), &self))
    }

    fn visit_str<E: Error>(self, digest: &str) -> Result<Token, E> {
        Text::try_from(digest.to_owned()).map(Token::Digest).map_err(E::custom)
    }
}
