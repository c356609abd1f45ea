//! LoRA and salt that a store leaves out are its parent's, also where the parent came in the same batch.

use std::sync::Arc;

use hashbrown::HashMap;
use kv_index::BlockName;

use super::span::Span;
use crate::Stored;
use crate::namespace::{Namespaces, OwnedNamespace};

/// The namespaces of blocks as of a moment inside a batch.
pub(super) struct InBatch<'a> {
    /// Nothing after a clear.
    held: Option<&'a Namespaces>,
    noted: HashMap<BlockName, Option<Arc<OwnedNamespace>>>,
}

impl<'a> InBatch<'a> {
    /// Before the first event of a batch; `held` are the namespaces of what is held then.
    pub(super) fn after(held: &'a Namespaces) -> Self {
        Self { held: Some(held), noted: HashMap::new() }
    }

    /// What the store says, completed from its parent.
    pub(super) fn of(&self, store: &Stored) -> OwnedNamespace {
        let own = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(Into::into);
        let mut namespace = OwnedNamespace { lora: own(&store.lora_name), salt: own(&store.cache_salt) };
        if namespace.lora.is_none() {
            // An adapter that only its number on that server shows: no request names this one, so nothing matches.
            namespace.lora = store.lora_id.map(|id| format!("\0lora_id={id}").into());
        }
        if let Some(parent) = store.parent.as_ref().and_then(|parent| self.parent(parent.name())) {
            namespace.inherit(parent);
        }
        namespace
    }

    fn parent(&self, name: BlockName) -> Option<&Arc<OwnedNamespace>> {
        match self.noted.get(&name) {
            Some(noted) => noted.as_ref(),
            None => self.held.and_then(|held| held.of(name)),
        }
    }

    /// A chain of stores in one namespace keeps one copy of its names.
    pub(super) fn share(&self, span: &mut Span) {
        if let (Some(parent), Some(own)) = (span.parent.and_then(|name| self.parent(name)), &mut span.namespace)
            && **own == **parent
        {
            *own = Arc::clone(parent);
        }
    }

    /// What later stores of the batch inherit from the blocks of `span`.
    pub(super) fn note(&mut self, span: &Span) {
        // A sparse store that shows no namespace says nothing: the salt stands at a block that it does not list.
        let says_nothing = span.sparse && span.namespace.is_none();
        let all_base = span.namespace.is_none() && self.noted.is_empty() && self.held.is_none_or(Namespaces::is_empty);
        if says_nothing || all_base {
            return;
        }
        self.noted.extend(span.names.iter().map(|listed| (listed.1, span.namespace.clone())));
    }

    /// Nothing is held any more, and nothing passed on.
    pub(super) fn clear(&mut self) {
        self.held = None;
        self.noted.clear();
    }
}
