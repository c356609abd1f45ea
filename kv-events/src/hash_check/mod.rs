//! Whether an engine's blocks are called what their tokens say: the engine's own hashes, recomputed as its stores come.
//!
//! A stream that is read with the wrong idea of its engine (another seed, another algorithm, a page of another size, a salt that
//! only one side knows) still looks healthy: stores come, removals come, and no request ever matches. Its hashes show it with
//! the first store. The check is a stage beside the stream's others: it counts, and never drops or changes anything.
//!
//! # What is counted
//! | a listed block | counts as |
//! |---|---|
//! | its hash is the one recomputed from its parent's digest, tokens and keys | matched |
//! | it is another, though all that it covers is known | mismatched |
//! | behind a mismatch in the same store, or behind a block of unknown digest | unverifiable |
//! | what it covers is not on the wire: the path of a LoRA adapter, another namespace, an unknown key | unverifiable |
//! | it has no tokens, or as many as make no block | unverifiable |
//! | another than recomputed, in a store that lists fewer blocks than it spans: a block between may have had keys | unverifiable |
//!
//! So a mismatch is where something differs first, and not all that follows from it.
//!
//! # What can be recomputed
//! * **vLLM** `sha256_cbor`, `sha256` and the `xxhash` pair, if the seed of the root is known: PYTHONHASHSEED, or from 0.29 on and
//!   for the SHA-256 pair [`DEFAULT_SEED`](engine_hash::vllm::DEFAULT_SEED). Without either the root is random and every first block mismatches. `sha256` pickles, and
//!   texts that occur twice in a block's keys may be written once: such blocks are unverifiable. How a release writes keys is
//!   not on the wire: the form is learned from the first block with keys that matches one.
//! * **SGLang** from 0.5.6 on: the page chain, salted or not, of tokens or bigrams. Before, names are of a page alone: see
//!   [`Caveat::PositionFreeNames`](crate::Caveat::PositionFreeNames).
//!
//! # Memory
//! Integer events carry a quarter of a digest, so the digest of every block that may become a parent is remembered, by name: the
//! last [`CHECKED_DIGESTS_MAX`](crate::limits::CHECKED_DIGESTS_MAX). A name says what its digest is whether or not the block is still held, so
//! removals and further copies change nothing.

mod digests;
mod names;
mod sglang;
mod vllm;

use self::digests::Digests;
pub use self::names::HashingError;
use crate::engine_hash::vllm::{Algorithm, KeyForm};
use crate::engine_hash::{self, Unverifiable};
use crate::{Batch, EngineHash, Event, Stored};

/// How an engine is believed to hash its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashing {
    /// vLLM's chain.
    Vllm {
        /// What hashes.
        algorithm: Algorithm,
        /// The parent of every first block.
        root: engine_hash::vllm::Digest,
    },
    /// SGLang's page chain.
    Sglang,
}

/// The check of one stream.
#[derive(Clone, Debug)]
pub struct HashCheck {
    hashing: Hashing,
    digests: Digests,
    /// How this engine writes keys into its hashes, once a block has shown it.
    form: Option<KeyForm>,
    counts: HashCounts,
}

/// What became of a stream's listed blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashCounts {
    /// Called as recomputed.
    pub matched: u64,
    /// Called otherwise.
    pub mismatched: u64,
    /// Of these, first blocks of a prompt: what differs is the root, the algorithm, the page's length or a salt.
    pub mismatched_roots: u64,
    /// Of which nothing can be said.
    pub unverifiable: u64,
    /// The first mismatch.
    pub first: Option<Mismatch>,
}

/// A block that is not called what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The name that was recomputed.
    pub expected: u64,
    /// The name that came.
    pub got: u64,
    /// Whether it starts a prompt.
    pub is_root: bool,
    /// How the engine hashes instead, if that is one of the usual ways.
    pub actual: Option<&'static str>,
}

/// What can be said of one listed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Matched,
    Mismatched { expected: u64 },
    Unverifiable,
}

impl Hashing {
    /// vLLM with `algorithm`, whose root is the hash of `seed`: PYTHONHASHSEED, or [`DEFAULT_SEED`](engine_hash::vllm::DEFAULT_SEED).
    ///
    /// # Errors
    /// [`Unverifiable::PickleTooLong`] on a seed of 64 KiB and more.
    pub fn vllm(algorithm: Algorithm, seed: &str) -> Result<Self, Unverifiable> {
        Ok(Self::Vllm { algorithm, root: algorithm.root(seed)? })
    }
}

impl HashCheck {
    /// A check that has seen nothing.
    pub fn new(hashing: Hashing) -> Self {
        Self { hashing, digests: Digests::default(), form: None, counts: HashCounts::default() }
    }

    /// Checks the stores of the next batch. `unit` are the tokens of the blocks that the engine hashes, where a cache group's may be
    /// longer; without it, a store's own blocks are taken.
    pub fn observe(&mut self, batch: &Batch, unit: Option<u32>) {
        for event in &batch.events {
            if let Event::Stored(stored) = event {
                self.check(stored, unit);
            }
        }
    }

    /// Another process publishes: its seed and release may be others. The counts go on.
    pub fn restart(&mut self) {
        (self.digests, self.form) = (Digests::default(), None);
    }

    /// What was counted.
    pub fn counts(&self) -> &HashCounts {
        &self.counts
    }

    fn check(&mut self, stored: &Stored, unit: Option<u32>) {
        let verdicts = match self.hashing {
            Hashing::Vllm { algorithm, root } => {
                let mut chain = vllm::Chain { algorithm, root, form: &mut self.form, digests: &mut self.digests };
                chain.check(stored, unit)
            }
            Hashing::Sglang => sglang::check(stored, &mut self.digests),
        };
        let unsaid = stored.hashes.len().saturating_sub(verdicts.len());
        self.counts.unverifiable += unsaid as u64;
        for (at, (verdict, hash)) in verdicts.into_iter().zip(&stored.hashes).enumerate() {
            self.count(verdict, hash, stored, at);
        }
    }

    fn count(&mut self, verdict: Verdict, hash: &EngineHash, stored: &Stored, at: usize) {
        match verdict {
            Verdict::Matched => self.counts.matched += 1,
            Verdict::Unverifiable => self.counts.unverifiable += 1,
            Verdict::Mismatched { expected } => {
                let (got, is_root) = (hash.name().0, at == 0 && stored.parent.is_none());
                self.counts.mismatched += 1;
                self.counts.mismatched_roots += u64::from(is_root);
                let actual = || is_root.then(|| usual_way(stored, got)).flatten();
                self.counts.first = self.counts.first.or_else(|| Some(Mismatch { expected, got, is_root, actual: actual() }));
            }
        }
    }
}

/// Which of the usual ways to hash calls the first block of a prompt so.
fn usual_way(stored: &Stored, name: u64) -> Option<&'static str> {
    use engine_hash::vllm::{Block, DEFAULT_SEED};
    let crate::Tokens::Ids(tokens) = &stored.tokens else { return None };
    let page = tokens.get(..stored.block_size as usize)?;
    let vllm = |algorithm: Algorithm, seed| {
        let digest = algorithm.block(&algorithm.root(seed).ok()?, &Block::of(page)).ok()?;
        Some(digest.event_word())
    };
    let ways = [
        ("vLLM's sha256_cbor, no PYTHONHASHSEED", vllm(Algorithm::Sha256Cbor, DEFAULT_SEED)),
        ("vLLM's sha256, no PYTHONHASHSEED", vllm(Algorithm::Sha256, DEFAULT_SEED)),
        ("vLLM's sha256_cbor, PYTHONHASHSEED=0", vllm(Algorithm::Sha256Cbor, "0")),
        ("vLLM's sha256, PYTHONHASHSEED=0", vllm(Algorithm::Sha256, "0")),
        ("vLLM's xxhash_cbor, PYTHONHASHSEED=0", vllm(Algorithm::XxhashCbor, "0")),
        ("vLLM's xxhash, PYTHONHASHSEED=0", vllm(Algorithm::Xxhash, "0")),
        ("SGLang's page chain", Some(engine_hash::sglang::Chain::root(None).next(page).event_word())),
        ("SGLang's pages before 0.5.6", Some(engine_hash::sglang::legacy_page(page))),
        ("TokenSpeed's", Some(engine_hash::tokenspeed::block(None, page))),
    ];
    ways.into_iter().find(|way| way.1 == Some(name)).map(|way| way.0)
}
