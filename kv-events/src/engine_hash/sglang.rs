//! SGLang's page hashes: a SHA-256 chain since 0.5.6, and CPython's `hash` of a tuple before.

use sha2::{Digest as _, Sha256};

use super::cpython;

/// A page's full digest, which its successors are chained on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// A digest that was kept elsewhere.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes that the next page's hash begins with.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 bits that an event carries: the first eight bytes, big-endian. The wire shows them signed.
    pub fn event_word(&self) -> u64 {
        let head = self.0.first_chunk().copied();
        u64::from_be_bytes(head.unwrap_or_default())
    }
}

/// A walk along one chain of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    prior: Option<Digest>,
}

impl Chain {
    /// The root: its first page hashes its tokens alone. A salt (0.5.18 and later) stands in front of them; without one,
    /// or with the empty one, the root is the plain one of every release.
    pub fn root(salt: Option<&str>) -> Self {
        let salt = salt.filter(|salt| !salt.is_empty());
        Self { prior: salt.map(salt_digest) }
    }

    /// Continues behind a page whose digest is known.
    pub fn after(page: Digest) -> Self {
        Self { prior: Some(page) }
    }

    /// The digest of the next page, full or partial.
    pub fn next(&mut self, tokens: &[u32]) -> Digest {
        let mut hash = Sha256::new();
        if let Some(Digest(prior)) = self.prior {
            hash.update(prior);
        }
        tokens.iter().for_each(|token| hash.update(token.to_le_bytes()));
        let digest = Digest(hash.finalize().into());
        self.prior = Some(digest);
        digest
    }

    /// The digest of the next page of an EAGLE tree, whose units are overlapping pairs of tokens.
    pub fn next_bigrams(&mut self, pairs: &[[u32; 2]]) -> Digest {
        self.next(pairs.as_flattened())
    }
}

/// What 0.5.22 and later fold into the hashes they *publish*; the tree itself keeps the plain chain.
///
/// In the `default` event format it applies to LoRA requests only, with the request's `extra_key` (LoRA id included)
/// and no salt; in the `dynamo` format to every request with an extra key or a salt. The extra key is not on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace(Digest);

impl Namespace {
    /// The namespace of a request's `extra_key` and, in the `dynamo` format, its salt.
    pub fn new(extra_key: Option<&str>, salt: Option<&str>) -> Self {
        let mut hash = Sha256::new();
        hash.update(NAMESPACE_DOMAIN);
        for part in [extra_key, salt] {
            hash.update([u8::from(part.is_some())]);
            if let Some(text) = part {
                hash.update((text.len() as u64).to_le_bytes());
                hash.update(text);
            }
        }
        Self(Digest(hash.finalize().into()))
    }

    /// The 64 bits under which a page of this namespace is published.
    pub fn event_word(&self, page: &Digest) -> u64 {
        let mut hash = Sha256::new();
        hash.update(self.0.0);
        hash.update(page.event_word().to_be_bytes());
        Digest(hash.finalize().into()).event_word()
    }
}

/// The hash of a page in 0.4.6 to 0.5.5: CPython's hash of the page's tokens, not chained, so equal pages at different
/// depths share one name and the stream cannot be indexed exactly. This recognises such a stream.
pub fn legacy_page(tokens: &[u32]) -> u64 {
    cpython::token_tuple(tokens).cast_unsigned()
}

/// `hash(())`: what 0.4.9 and 0.4.10 send as the parent of a first page, where later releases send null.
pub const LEGACY_ROOT: u64 = 5_740_354_900_026_072_187;

fn salt_digest(salt: &str) -> Digest {
    let mut hash = Sha256::new();
    hash.update(SALT_DOMAIN);
    hash.update(salt);
    Digest(hash.finalize().into())
}

/// Keeps a salted root apart from a page; the terminating zero is part of it.
const SALT_DOMAIN: &[u8] = b"sglang-cache-salt-v1\0";
const NAMESPACE_DOMAIN: &[u8] = b"sglang-kv-event-namespace-v1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_tuple_is_the_legacy_root() {
        assert_eq!(legacy_page(&[]), LEGACY_ROOT);
        assert_eq!(legacy_page(&[1, 2, 3, 4]), 590_899_387_183_067_792);
    }

    #[test]
    fn a_chain_can_be_resumed() {
        let mut whole = Chain::root(None);
        let first = whole.next(&[1, 2]);
        let mut resumed = Chain::after(Digest::new(*first.as_bytes()));
        assert_eq!(resumed, whole);
        assert_eq!(resumed.next(&[3, 4]), whole.next(&[3, 4]));
    }

    #[test]
    fn an_empty_salt_is_no_salt() {
        assert_eq!(Chain::root(Some("")), Chain::root(None));
        assert_ne!(Chain::root(Some("a")), Chain::root(None));
    }

    #[test]
    fn absent_and_empty_namespace_parts_differ() {
        assert_ne!(Namespace::new(Some(""), None), Namespace::new(None, Some("")));
        assert_ne!(Namespace::new(None, None), Namespace::new(Some(""), None));
    }
}
