//! Blocks that follow each other, told as one store.

use std::sync::Arc;

use kv_index::BlockName;

use super::language::Language;
use crate::namespace::OwnedNamespace;
use crate::relay::live::block::Shelf;
use crate::relay::live::pages::Slot;
use crate::{EngineHash, Event, ExtraKey, Stored};

/// A store in the making: steps, and then blocks that are listed.
///
/// An engine's store lists the last blocks of what it spans where it lists fewer, so a step ends what can be told at once.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) shelf: Shelf,
    pub(super) block_units: usize,
    pub(super) parent: Option<BlockName>,
    pub(super) namespace: Option<Arc<OwnedNamespace>>,
    /// Where the last listed block is.
    pub(super) last: Slot,
    /// The tokens of all its windows.
    row: Vec<u32>,
    units: usize,
    /// By block, ascending.
    keys: Vec<(usize, Vec<ExtraKey>)>,
    listed: Vec<BlockName>,
}

impl Run {
    pub(super) fn new(
        shelf: Shelf,
        block_units: usize,
        parent: Option<BlockName>,
        namespace: Option<Arc<OwnedNamespace>>,
    ) -> Self {
        Self {
            shelf,
            block_units,
            parent,
            namespace,
            last: Slot::MAX,
            row: Vec::new(),
            units: 0,
            keys: Vec::new(),
            listed: Vec::new(),
        }
    }

    /// Whether a unit with this window can follow: the windows of one row overlap.
    pub(super) fn fits(&self, window: &[u32], lookahead: usize) -> bool {
        self.units == 0 || window.get(..lookahead).is_some_and(|overlap| self.row.ends_with(overlap))
    }

    /// One unit further.
    pub(super) fn push_unit(&mut self, window: &[u32], keys: &[ExtraKey], lookahead: usize) {
        let overlap = if self.units == 0 { 0 } else { lookahead };
        self.row.extend_from_slice(window.get(overlap..).unwrap_or_default());
        if !keys.is_empty() {
            self.keys.push((self.units / self.block_units, keys.to_vec()));
        }
        self.units += 1;
    }

    /// The block that ends here is called `name`.
    pub(super) fn list(&mut self, name: BlockName, slot: Slot) {
        self.listed.push(name);
        self.last = slot;
    }

    pub(super) fn into_event(self, language: &Language) -> Option<Event> {
        let scheme = language.scheme()?;
        let (unit, blocks) = (scheme.block_tokens.get() as usize, self.units / self.block_units);
        let block = self.block_units * unit;
        let ends = (blocks - self.listed.len()..blocks).map(|index| (index + 1) * block);
        let (tokens, lookahead) = language.tokens(&self.row, ends);
        let base = language.store(self.shelf.group(), self.shelf.tier());
        let store = Stored {
            hashes: self.listed.iter().map(|name| EngineHash::Word(name.0)).collect(),
            parent: self.parent.map(|parent| EngineHash::Word(parent.0)),
            tokens,
            lookahead,
            block_size: u32::try_from(block).ok()?,
            lora_name: self.namespace.as_ref().and_then(|namespace| namespace.lora.clone()).map(Into::into),
            cache_salt: self.namespace.as_ref().and_then(|namespace| namespace.salt.clone()).map(Into::into),
            extra_keys: (!self.keys.is_empty()).then(|| spread(self.keys, blocks)),
            ..base
        };
        Some(store.into())
    }
}

/// An entry for each block, listed or not.
fn spread(keyed: Vec<(usize, Vec<ExtraKey>)>, blocks: usize) -> Vec<Vec<ExtraKey>> {
    let mut all = vec![Vec::new(); blocks];
    keyed.into_iter().for_each(|(block, keys)| all[block] = keys);
    all
}
