//! The ways to hash by name, for settings.

use std::str::FromStr;

use thiserror::Error;

use super::Hashing;
use crate::engine_hash::vllm::{Algorithm, DEFAULT_SEED};

/// A text that names no way to hash.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "expected sglang, or vllm-sha256, vllm-sha256-cbor, vllm-xxhash or vllm-xxhash-cbor, perhaps with :PYTHONHASHSEED, got {got:?}"
)]
pub struct HashingError {
    /// The text.
    pub got: String,
}

impl FromStr for Hashing {
    type Err = HashingError;

    /// `sglang`, or a vLLM algorithm with the seed of its root behind a colon. The `SHA-256` pair has a default seed, from vLLM
    /// 0.29 on; the others have none.
    fn from_str(text: &str) -> Result<Self, HashingError> {
        let none = || HashingError { got: text.to_owned() };
        let (name, seed) = text.split_once(':').map_or((text, None), |(name, seed)| (name, Some(seed)));
        let (algorithm, seed) = match (name, seed) {
            ("sglang", None) => return Ok(Self::Sglang),
            ("vllm-sha256", seed) => (Algorithm::Sha256, seed.unwrap_or(DEFAULT_SEED)),
            ("vllm-sha256-cbor", seed) => (Algorithm::Sha256Cbor, seed.unwrap_or(DEFAULT_SEED)),
            ("vllm-xxhash", Some(seed)) => (Algorithm::Xxhash, seed),
            ("vllm-xxhash-cbor", Some(seed)) => (Algorithm::XxhashCbor, seed),
            _ => return Err(none()),
        };
        Self::vllm(algorithm, seed).map_err(|_| none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_named_with_their_seeds() {
        let vllm = |algorithm, seed| Ok(Hashing::vllm(algorithm, seed).unwrap());
        assert_eq!("sglang".parse(), Ok(Hashing::Sglang));
        assert_eq!("vllm-sha256".parse(), vllm(Algorithm::Sha256, "vllm-none-hash"));
        assert_eq!("vllm-sha256-cbor:0".parse(), vllm(Algorithm::Sha256Cbor, "0"));
        assert_eq!("vllm-xxhash:0".parse(), vllm(Algorithm::Xxhash, "0"));
        for none in ["", "vllm", "vllm-xxhash", "sglang:0", "VLLM-SHA256", "vllm-builtin:0"] {
            assert_eq!(none.parse::<Hashing>(), Err(HashingError { got: none.to_owned() }));
        }
    }
}
