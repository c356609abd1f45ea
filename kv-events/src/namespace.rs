//! LoRA and salt of the blocks that a stream announced.

use std::sync::Arc;

use hashbrown::HashMap;
use kv_index::{BlockName, Namespace};

use crate::sparse;

/// An owned [`Namespace`]. The base namespace is never stored, so absent means base.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OwnedNamespace {
    /// The served name of the LoRA adapter.
    pub lora: Option<Box<str>>,
    /// The cache salt.
    pub salt: Option<Box<str>>,
}

impl OwnedNamespace {
    /// The namespace as the hasher wants it.
    pub fn as_namespace(&self) -> Namespace<'_> {
        Namespace { lora: self.lora.as_deref(), salt: self.salt.as_deref() }
    }

    /// Whether there is neither LoRA nor salt.
    pub fn is_base(&self) -> bool {
        self.lora.is_none() && self.salt.is_none()
    }

    /// What `self` leaves out is filled from `parent`: an engine names the salt at a prompt's first block only.
    pub fn inherit(&mut self, parent: &Self) {
        self.lora = self.lora.take().or_else(|| parent.lora.clone());
        self.salt = self.salt.take().or_else(|| parent.salt.clone());
    }
}

/// The namespaces of held blocks, sparsely: a block without an entry is in the base namespace.
#[derive(Clone, Debug, Default)]
pub struct Namespaces {
    of: HashMap<BlockName, Arc<OwnedNamespace>>,
}

impl Namespaces {
    /// The namespace of `name`; nothing for the base.
    pub fn of(&self, name: BlockName) -> Option<&Arc<OwnedNamespace>> {
        self.of.get(&name)
    }

    /// Whether all blocks are in the base namespace.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Notes the namespace of a block that is held now.
    #[inline]
    pub fn note(&mut self, name: BlockName, namespace: Option<&Arc<OwnedNamespace>>) {
        match namespace {
            Some(namespace) => _ = self.of.insert(name, Arc::clone(namespace)),
            None => self.forget(name),
        }
    }

    /// Forgets a block that is no longer held.
    #[inline]
    pub fn forget(&mut self, name: BlockName) {
        if !self.of.is_empty() {
            sparse::remove(&mut self.of, &name);
        }
    }

    /// Forgets all blocks.
    pub fn clear(&mut self) {
        self.of = HashMap::new();
    }
}
