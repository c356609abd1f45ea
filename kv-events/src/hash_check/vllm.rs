//! vLLM's block chain, against a store.

use super::Verdict;
use super::digests::Digests;
use crate::engine_hash::vllm::{Algorithm, Block, Digest, ExtraKey, KeyForm};
use crate::{EngineHash, Stored, Tokens};

/// How an engine hashes, and what is known of its blocks.
pub(super) struct Chain<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) root: Digest,
    pub(super) form: &'a mut Option<KeyForm>,
    pub(super) digests: &'a mut Digests,
}

/// The blocks of one store, as they are hashed.
struct Row<'a> {
    /// The store's tokens, and those behind them that its last hash covers too.
    tokens: Vec<u32>,
    /// Tokens of a hashed block.
    unit: usize,
    /// Hashed blocks in one of the store's.
    per_block: usize,
    lookahead: usize,
    /// Hashed blocks in all, and where the first listed one begins.
    units: usize,
    first_listed: usize,
    stored: &'a Stored,
}

impl Chain<'_> {
    /// What can be said of each listed block, in order; nothing of those beyond.
    pub(super) fn check(&mut self, stored: &Stored, unit: Option<u32>) -> Vec<Verdict> {
        let (Some(row), Some(mut parent)) = (Row::of(stored, unit), self.parent(stored)) else { return Vec::new() };
        let mut verdicts = Vec::with_capacity(stored.hashes.len());
        let mut listed = stored.hashes.iter().peekable();
        for at in 0..row.units {
            let hash = if row.ends_block(at) && at >= row.first_listed { listed.next() } else { None };
            let Some((digest, matches)) = self.block(&parent, &row, at, hash) else { break };
            parent = digest;
            let Some(hash) = hash else { continue };
            let verdict = match matches {
                true => Verdict::Matched,
                // Which of its blocks a store lists, and what those that it does not list cover besides tokens, is not said.
                false if row.first_listed > 0 => Verdict::Unverifiable,
                false => Verdict::Mismatched { expected: digest.event_word() },
            };
            verdicts.push(verdict);
            if verdict != Verdict::Matched {
                break;
            }
            self.digests.insert(hash.name(), digest.as_bytes());
        }
        verdicts
    }

    /// The digest that a store continues from. An event that carries whole digests says it itself.
    fn parent(&self, stored: &Stored) -> Option<Digest> {
        match &stored.parent {
            None => Some(self.root),
            Some(EngineHash::Digest(bytes)) if bytes.len() == self.root.as_bytes().len() => self.digest(bytes),
            Some(parent) => self.digests.get(parent.name()).and_then(|bytes| self.digest(bytes)),
        }
    }

    fn digest(&self, bytes: &[u8]) -> Option<Digest> {
        match self.root {
            Digest::Sha256(_) => bytes.first_chunk().map(|bytes| Digest::Sha256(*bytes)),
            Digest::Xxh3(_) => bytes.first_chunk().map(|bytes| Digest::Xxh3(*bytes)),
        }
    }

    /// The digest of block `at` behind `parent`, and whether it is `hash`. Nothing if what it covers is not known.
    fn block(&mut self, parent: &Digest, row: &Row<'_>, at: usize, hash: Option<&EngineHash>) -> Option<(Digest, bool)> {
        let keys = row.keys(at)?;
        let plain = Block { lookahead: row.lookahead(at), ..Block::of(row.unit(at)) };
        let is = |digest: &Digest| hash.is_some_and(|hash| is_digest(hash, digest));
        if keys.is_empty() {
            let digest = self.algorithm.block(parent, &plain).ok()?;
            return Some((digest, is(&digest)));
        }
        let mut first = None;
        for form in
            self.form.map_or(&FORMS[..], |form| FORMS.iter().position(|known| *known == form).map_or(&[], |at| &FORMS[at..=at]))
        {
            let Ok(digest) = self.algorithm.block(parent, &Block { keys: &keys, form: *form, ..plain }) else { continue };
            if is(&digest) {
                *self.form = Some(*form);
                return Some((digest, true));
            }
            first = first.or(Some(digest));
        }
        // An adapter's path may be in the hash, and is not on the wire: another hash than recomputed says nothing.
        let has_lora = keys.iter().any(|key| matches!(key, ExtraKey::Lora { .. } | ExtraKey::LoraId(_)));
        first.filter(|_| !has_lora).map(|digest| (digest, false))
    }
}

impl<'a> Row<'a> {
    fn of(stored: &'a Stored, unit: Option<u32>) -> Option<Self> {
        // No release of vLLM sends pairs.
        let Tokens::Ids(ids) = &stored.tokens else { return None };
        let block = stored.block_size as usize;
        let unit = unit.map_or(block, |unit| unit as usize);
        let unit = if unit > 0 && block.is_multiple_of(unit) { unit } else { block };
        if block == 0 || ids.is_empty() || !ids.len().is_multiple_of(block) || stored.hashes.len() > ids.len() / block {
            return None;
        }
        let behind = stored.lookahead.as_ref().and_then(|lists| lists.last());
        let (per_block, lookahead) = (block / unit, behind.map_or(0, Vec::len));
        let tokens: Vec<u32> = ids.iter().chain(behind.into_iter().flatten()).copied().collect();
        let first_listed = (ids.len() / block - stored.hashes.len()) * per_block;
        Some(Self { units: ids.len() / unit, tokens, unit, per_block, lookahead, first_listed, stored })
    }

    fn unit(&self, at: usize) -> &[u32] {
        &self.tokens[at * self.unit..(at + 1) * self.unit]
    }

    fn lookahead(&self, at: usize) -> &[u32] {
        self.tokens.get((at + 1) * self.unit..).and_then(|behind| behind.get(..self.lookahead)).unwrap_or_default()
    }

    fn ends_block(&self, at: usize) -> bool {
        (at + 1).is_multiple_of(self.per_block)
    }

    /// The keys of block `at` in the engine's order. Nothing if one of them is of a shape that is not known.
    fn keys(&self, at: usize) -> Option<Vec<ExtraKey<'_>>> {
        let lora = self.stored.lora_name.as_deref().filter(|name| !name.is_empty());
        let lora = lora.map(|name| ExtraKey::Lora { name, path: None });
        let lora = lora.or_else(|| self.stored.lora_id.map(ExtraKey::LoraId));
        let listed = (at / self.per_block).checked_sub(self.first_listed / self.per_block);
        let told = listed.and_then(|at| self.stored.extra_keys.as_ref()?.get(at)).map_or(&[][..], Vec::as_slice);
        let mut name = self.stored.lora_name.as_deref();
        let mut keys: Vec<ExtraKey<'_>> = lora.into_iter().collect();
        for key in told {
            match key {
                crate::ExtraKey::Text(text) if name == Some(text) => name = None,
                // A bare text is the salt of a first block, or an image of 0.17 and 0.18: both are hashed as a bare text there.
                crate::ExtraKey::Text(text) => keys.push(ExtraKey::CacheSalt(text)),
                crate::ExtraKey::Item { id, offset } => keys.push(ExtraKey::Multimodal { id, offset: *offset }),
                crate::ExtraKey::Bytes(bytes) => keys.push(ExtraKey::PromptEmbeds(bytes)),
                crate::ExtraKey::Unknown(_) => return None,
            }
        }
        Some(keys)
    }
}

/// Whether `hash` is the digest, whole or cut.
fn is_digest(hash: &EngineHash, digest: &Digest) -> bool {
    match hash {
        EngineHash::Word(word) => *word == digest.event_word(),
        EngineHash::Digest(bytes) => **bytes == *digest.as_bytes(),
    }
}

/// The latest first.
const FORMS: [KeyForm; 3] = [KeyForm::Tagged, KeyForm::IdAndOffset, KeyForm::BareId];
