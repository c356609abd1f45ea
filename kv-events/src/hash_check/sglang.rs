//! SGLang's page chain, against a store.

use super::Verdict;
use super::digests::Digests;
use crate::engine_hash::sglang::{self, Chain, Digest, Namespace};
use crate::{Stored, Tokens};

/// What can be said of each listed page, in order; nothing of those beyond.
pub(super) fn check(stored: &Stored, digests: &mut Digests) -> Vec<Verdict> {
    let (flat, width) = match &stored.tokens {
        Tokens::Ids(ids) => (ids.as_slice(), 1),
        Tokens::Bigrams(pairs) => (pairs.as_flattened(), 2),
    };
    let page = stored.block_size as usize * width;
    // A LoRA's namespace is not on the wire.
    let has_lora = stored.lora_name.as_ref().is_some_and(|name| !name.is_empty());
    if has_lora || page == 0 || flat.len() != page * stored.hashes.len() {
        return Vec::new();
    }
    let Some(mut chain) = start(stored, digests) else { return Vec::new() };
    let mut verdicts = Vec::with_capacity(stored.hashes.len());
    for (hash, tokens) in stored.hashes.iter().zip(flat.chunks_exact(page)) {
        let (digest, name) = (chain.next(tokens), hash.name());
        let expected = digest.event_word();
        let verdict = match name.0 {
            name if name == expected || Some(name) == rehashed(stored, &digest) => Verdict::Matched,
            // Before 0.5.6, without a chain.
            name if name == sglang::legacy_page(tokens) => Verdict::Unverifiable,
            _ => Verdict::Mismatched { expected },
        };
        verdicts.push(verdict);
        if verdict != Verdict::Matched {
            break;
        }
        digests.insert(name, digest.as_bytes());
    }
    verdicts
}

fn start(stored: &Stored, digests: &Digests) -> Option<Chain> {
    match stored.parent.as_ref().map(crate::EngineHash::name) {
        None => Some(Chain::root(stored.cache_salt.as_deref())),
        Some(parent) if parent.0 == sglang::LEGACY_ROOT => Some(Chain::root(None)),
        Some(parent) => digests.get(parent).map(|digest| Chain::after(Digest::new(*digest))),
    }
}

/// What the `dynamo` format publishes for a page of a salted request.
fn rehashed(stored: &Stored, digest: &Digest) -> Option<u64> {
    let salt = stored.cache_salt.as_deref().filter(|salt| !salt.is_empty())?;
    Some(Namespace::new(None, Some(salt)).event_word(digest))
}
