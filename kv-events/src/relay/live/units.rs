//! The tokens of one store, unit by unit.

use std::borrow::Cow;
use std::sync::Arc;

use kv_index::{Block, Scheme};

use super::block::{Extra, Shelf};
use crate::namespace::OwnedNamespace;
use crate::normalize::token_row;
use crate::{ExtraKey, Stored};

/// What the blocks of one store contain, as it was told.
#[derive(Clone, Debug)]
pub(in crate::relay) struct Units<'a> {
    scheme: Scheme,
    tokens: Cow<'a, [u32]>,
    /// By unit, ascending.
    keys: Vec<(usize, Vec<ExtraKey>)>,
}

/// Blocks that are about to be put somewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placing<'a> {
    pub(super) shelf: Shelf,
    pub(super) blocks: &'a [Block],
    pub(super) namespace: Option<&'a Arc<OwnedNamespace>>,
    pub(super) units: &'a Units<'a>,
}

impl<'a> Units<'a> {
    pub(super) fn new(told: &'a Stored, scheme: Scheme, keys: Vec<(usize, Vec<ExtraKey>)>) -> Self {
        Self { scheme, tokens: token_row(told, scheme), keys }
    }

    /// Units that outlive the batch that told them.
    pub(super) fn into_owned(self) -> Units<'static> {
        Units { scheme: self.scheme, tokens: Cow::Owned(self.tokens.into_owned()), keys: self.keys }
    }

    /// The tokens that the content of `unit` covers.
    pub(in crate::relay) fn tokens(&self, unit: usize) -> &[u32] {
        self.tokens.get(self.scheme.window(unit)).unwrap_or_default()
    }

    /// What else it covers.
    #[inline]
    pub(in crate::relay) fn keys(&self, unit: usize) -> &[ExtraKey] {
        if self.keys.is_empty() {
            return &[];
        }
        self.keys.binary_search_by_key(&unit, |keyed| keyed.0).map_or(&[], |at| &self.keys[at].1)
    }

    /// What makes `unit` different besides its tokens. `plain` is shared by those without keys of their own.
    #[inline]
    pub(super) fn extra(
        &self,
        unit: usize,
        plain: Option<&Arc<Extra>>,
        namespace: Option<&Arc<OwnedNamespace>>,
    ) -> Option<Arc<Extra>> {
        match self.keys(unit) {
            [] => plain.cloned(),
            keys => Some(Arc::new(Extra { namespace: namespace.cloned(), keys: keys.to_vec() })),
        }
    }
}
