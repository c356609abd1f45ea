//! The tokens of one store, unit by unit.

use std::sync::Arc;

use kv_index::{BlockName, Scheme};

use super::block::{CopySet, Extra, LiveBlock, Place, ROOT};
use crate::namespace::OwnedNamespace;
use crate::normalize::token_row;
use crate::{ExtraKey, Stored};

/// What the blocks of one store contain, as it was told.
#[derive(Clone, Debug)]
pub(in crate::relay) struct Units {
    scheme: Scheme,
    tokens: Vec<u32>,
    /// By unit, ascending.
    keys: Vec<(usize, Vec<ExtraKey>)>,
}

impl Units {
    pub(super) fn new(told: &Stored, scheme: Scheme, keys: Vec<(usize, Vec<ExtraKey>)>) -> Self {
        Self { scheme, tokens: token_row(told, scheme).into_owned(), keys }
    }

    /// The tokens that the content of `unit` covers.
    pub(in crate::relay) fn tokens(&self, unit: usize) -> &[u32] {
        self.tokens.get(self.scheme.window(unit)).unwrap_or_default()
    }

    /// What else it covers.
    pub(in crate::relay) fn keys(&self, unit: usize) -> &[ExtraKey] {
        self.keys.binary_search_by_key(&unit, |keyed| keyed.0).map_or(&[], |at| &self.keys[at].1)
    }

    /// A block of `unit`, which stands nowhere yet. `plain` is shared by those without keys of their own.
    pub(super) fn block(&self, unit: usize, plain: Option<&Arc<Extra>>, namespace: Option<&Arc<OwnedNamespace>>) -> LiveBlock {
        let extra = match self.keys(unit) {
            [] => plain.cloned(),
            keys => Some(Arc::new(Extra { namespace: namespace.cloned(), keys: keys.to_vec() })),
        };
        LiveBlock {
            name: BlockName(0),
            place: Place::START,
            parent: ROOT,
            children: 0,
            copies: CopySet::default(),
            tokens: self.tokens(unit).into(),
            extra,
        }
    }
}
