//! The hashes that engines compute over their own blocks.
//!
//! A router that knows an engine's algorithm, seed and root can recompute the hash of every block that the engine
//! announces. Where the two agree, tokens, page size, salt and chaining are what the router believes they are; where
//! they do not, the worker is configured otherwise, and it is better to learn that from the first event than from a
//! hit rate. Everything here is a pure function over tokens and a parent; nothing is looked up or remembered.
//!
//! | engine | file | a block's hash covers |
//! |---|---|---|
//! | vLLM | [`vllm`], [`vllm::legacy`] | parent digest, tokens, extra keys (LoRA, images, salt), lookahead |
//! | SGLang | [`sglang`] | parent digest (a salt stands in for the root's), tokens or bigrams; then the namespace |
//! | TokenSpeed | [`tokenspeed`] | parent word, token count, tokens |
//! | TensorRT-LLM | [`trtllm`] | token count, parent word, tokens, LoRA id |
//! | llm-d (a router) | [`llmd`] | parent word, tokens, images; the model name stands in for the root's parent |
//!
//! # The 64 bits of a hash
//!
//! An event names a block by 64 bits, whatever the engine hashes to. The rule is one for each engine:
//!
//! * **vLLM**: the **last** eight bytes of the digest, big-endian. They are what its integer events carry, and what
//!   its byte-string events are folded to, so both forms of one stream name the same blocks.
//! * **SGLang**: the **first** eight bytes of the digest, big-endian. The wire shows them as a signed integer; here
//!   they are the same bits unsigned.
//! * the others hash to 64 bits in the first place.
//!
//! A chain continues from the *full* digest, so an integer event alone does not suffice to check its successors: keep
//! the digest that was computed for it.

mod cbor;
mod cpython;
mod fnv;
pub mod llmd;
mod pickle;
pub mod sglang;
pub mod tokenspeed;
pub mod trtllm;
mod value;
pub mod vllm;

use thiserror::Error;

/// Why a hash cannot be recomputed from values alone.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unverifiable {
    /// Pickle writes an object that it meets again as a reference, and two equal texts may or may not be one object.
    #[error("text {text:?} occurs twice in the extra keys: whether the engine pickles it twice depends on its memory")]
    RepeatedText {
        /// The text that occurs more than once.
        text: String,
    },
    /// From 0.31.0 vLLM hashes the adapter's path, which no event shows.
    #[error("the hash covers the path of LoRA adapter {name:?}, and the path is not known")]
    LoraPathUnknown {
        /// The adapter's served name.
        name: String,
    },
    /// Pickle splits its output into frames past this size; no block of a real engine comes near.
    #[error("pickle of {len} bytes, expected at most {max}")]
    PickleTooLong {
        /// Bytes of the pickle's body.
        len: usize,
        /// The largest body that fits one frame for certain.
        max: usize,
    },
}

#[cfg(test)]
fn to_hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}
