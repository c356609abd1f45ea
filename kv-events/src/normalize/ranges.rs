//! Which blocks a store of a hybrid model lists, where it lists fewer than it spans: found by name in the store that another
//! group sent for the same range in the same batch, and that lists them all.

use hashbrown::HashMap;
use kv_index::BlockName;

use super::span::Span;
use crate::Stored;

/// The stores of one batch that list every block they span.
///
/// They are found by any name that they list, and not by their range alone: the same prompt under two salts is two
/// ranges of equal tokens in one batch. One probe for each store, however many a batch has.
pub(super) struct FullRanges<'a> {
    by_name: HashMap<Key, (&'a Stored, &'a Span)>,
}

/// The parent, the units of the range, and a name listed in it.
type Key = (Option<BlockName>, usize, BlockName);

impl<'a> FullRanges<'a> {
    /// Nothing is kept of a batch in which every store names all its units: there is nothing to look up.
    pub(super) fn of(stores: impl Iterator<Item = (&'a Stored, &'a Span)> + Clone) -> Self {
        let mut by_name: HashMap<Key, (&Stored, &Span)> = HashMap::new();
        if !stores.clone().any(|(_, span)| span.has_gaps()) {
            return Self { by_name };
        }
        for (store, span) in stores.filter(|(_, span)| !span.sparse) {
            for &(_, name) in &span.names {
                let finest = by_name.entry(key(span, name)).or_insert((store, span));
                if span.names.len() > finest.1.names.len() {
                    *finest = (store, span);
                }
            }
        }
        Self { by_name }
    }

    /// `span` of `store` with the places and the namespace of the store that lists all blocks of the same range. Nothing
    /// if there is none, or none that shows more than `span` itself.
    pub(super) fn place(&self, store: &Stored, span: &Span) -> Option<Span> {
        let first = span.names.first().filter(|_| span.has_gaps())?.1;
        let (full_store, full) = self.by_name.get(&key(span, first))?;
        let shows_more = full.names.len() > span.names.len() && full_store.tokens == store.tokens;
        if shows_more { span.placed_by(full) } else { None }
    }
}

fn key(span: &Span, name: BlockName) -> Key {
    (span.parent, span.contents.len(), name)
}
