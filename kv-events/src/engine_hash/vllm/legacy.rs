//! vLLM's block hashes of 0.9.0 to 0.10.1, which are Python integers and are chained as such.
//!
//! `sha256` of those releases hashes to 256 bits, which no event can carry: the engine loses every batch with a store.

use sha2::{Digest as _, Sha256};

use super::super::cpython::Hasher;
use super::super::value::Value;
use super::super::{Unverifiable, cbor, pickle};
use super::{Block, Digest};

/// The default algorithm of those releases: CPython's `hash` of the block's key.
///
/// It can be recomputed only for an engine on Python 3.12 or later that runs under a PYTHONHASHSEED: before, the
/// hash of `None` is an address of the process.
pub struct Builtin {
    release: Release,
    hasher: Hasher,
    seed: String,
}

/// The releases differ in the parent of a first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// 0.9: the SHA-256 of the seed's pickle, as an integer.
    V0_9,
    /// 0.10.0 and 0.10.1: the hash of the seed's text.
    V0_10,
}

impl Builtin {
    /// An engine under PYTHONHASHSEED=`seed`.
    pub fn new(release: Release, seed: u32) -> Self {
        Self { release, hasher: Hasher::new(seed), seed: seed.to_string() }
    }

    /// The hash of a block behind `parent`, or of a first block. It is signed on the wire; its bits name the block.
    ///
    /// # Errors
    /// [`Unverifiable::LoraPathUnknown`], for a key form that is younger than these releases.
    pub fn block(&self, parent: Option<i64>, block: &Block<'_>) -> Result<i64, Unverifiable> {
        let digest;
        let parent = match (parent, self.release) {
            (Some(hash), _) => Value::Int(hash),
            (None, Release::V0_10) => Value::Int(self.hasher.hash(&Value::Text(&self.seed))),
            (None, Release::V0_9) => {
                digest = sha256_root(&self.seed)?;
                Value::Big(&digest)
            }
        };
        Ok(self.hasher.hash(&key(parent, block)?))
    }
}

/// `sha256_cbor_64bit` of 0.10.0 and 0.10.1: 64 bits of SHA-256 over canonical CBOR, chained on the 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sha256Cbor64 {
    root: u64,
}

impl Sha256Cbor64 {
    /// Under PYTHONHASHSEED=`seed`; without one the engine's root is random.
    pub fn new(seed: &str) -> Self {
        Self { root: low_word(&Value::Text(seed)) }
    }

    /// The hash of a block behind `parent`, or of a first block.
    ///
    /// # Errors
    /// [`Unverifiable::LoraPathUnknown`], for a key form that is younger than these releases.
    pub fn block(&self, parent: Option<u64>, block: &Block<'_>) -> Result<u64, Unverifiable> {
        let parent = Value::Word(parent.unwrap_or(self.root));
        Ok(low_word(&key(parent, block)?))
    }
}

/// The root of `sha256` in 0.9: a big-endian integer of 256 bits.
///
/// # Errors
/// [`Unverifiable::PickleTooLong`] on a seed of 64 KiB and more.
pub fn sha256_root(seed: &str) -> Result<[u8; 32], Unverifiable> {
    pickled(&Value::Text(seed))
}

/// A block's `sha256` in 0.9, behind a parent that may be the root. Never seen in an event.
///
/// # Errors
/// [`Unverifiable`] as for [`Algorithm::block`](super::Algorithm::block).
pub fn sha256_block(parent: &[u8; 32], block: &Block<'_>) -> Result<[u8; 32], Unverifiable> {
    pickled(&key(Value::Big(parent), block)?)
}

fn key<'a>(parent: Value<'a>, block: &Block<'a>) -> Result<Value<'a>, Unverifiable> {
    Ok(Value::Tuple(vec![parent, Value::Tokens(block.tokens), block.extra()?]))
}

fn low_word(value: &Value<'_>) -> u64 {
    Digest::sha256(&cbor::encode(value)).event_word()
}

fn pickled(value: &Value<'_>) -> Result<[u8; 32], Unverifiable> {
    Ok(Sha256::digest(pickle::encode(value)?).into())
}
