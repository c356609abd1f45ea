//! A store's range of places: the content of each, and which of them the listed hashes name.

use std::borrow::Cow;
use std::sync::Arc;

use kv_index::{Block, BlockName, ContentHash, Namespace, Scheme};

use super::keys;
use crate::engine_hash::sglang;
use crate::namespace::OwnedNamespace;
use crate::{ExtraKey, Loss, Stored, Tokens};

/// The places that a store spans, in units of the stream's scheme.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) parent: Option<BlockName>,
    pub(super) contents: Vec<ContentHash>,
    /// Nothing for the base namespace.
    pub(super) namespace: Option<Arc<OwnedNamespace>>,
    /// The unit at which each listed hash's block ends, and the hash's name.
    pub(super) names: Vec<(usize, BlockName)>,
    /// The hashes list fewer blocks than the tokens span.
    pub(super) sparse: bool,
    /// A last block had too few tokens and was left out.
    pub(super) partial: bool,
    /// What the contents were hashed from.
    pub(super) origin: Origin,
}

/// What a store's contents were hashed from: enough to say the same blocks again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// The event of the batch whose tokens they are. Another one than the store itself where a cache group's blocks were placed
    /// by the full-attention group's store.
    pub event: usize,
    /// Units whose content covers more than tokens and namespace, with what else it covers.
    pub keys: Vec<(usize, Vec<ExtraKey>)>,
}

impl Span {
    /// Reads a store that has tokens and hashes. Only the parts that fit together are kept.
    pub(super) fn read(event: usize, store: &Stored, scheme: Scheme, namespace: OwnedNamespace) -> Result<Self, Loss> {
        let (unit, block) = (scheme.block_tokens.get() as usize, store.block_size as usize);
        if block == 0 || !block.is_multiple_of(unit) {
            return Err(Loss::UnalignedBlocks);
        }
        let tokens = flatten(store, scheme)?;
        let own_tokens = tokens.len() - scheme.lookahead_tokens as usize;
        let (blocks, whole) = (own_tokens / block, own_tokens.is_multiple_of(block));
        let listed = match store.hashes.len() {
            listed if whole && listed <= blocks => listed,
            // A tail that the engine stored before its block was full (TokenSpeed, TensorRT-LLM).
            listed if !whole && listed == blocks + 1 && blocks > 0 => blocks,
            _ => return Err(Loss::UnalignedBlocks),
        };
        let first = blocks - listed;
        let units_per_block = block / unit;
        let ends_from = |first: usize| (first + 1..=blocks).map(move |blocks| blocks * units_per_block - 1);
        let names = store.hashes[..listed].iter().zip(ends_from(first)).map(|(hash, end)| (end, hash.name())).collect();
        let parent = store.parent.as_ref().map(crate::EngineHash::name).filter(|parent| parent.0 != sglang::LEGACY_ROOT);
        let origin = Origin { event, keys: Vec::new() };
        let mut span = Self { parent, contents: Vec::new(), namespace: None, names, sparse: first > 0, partial: !whole, origin };
        // One entry for each listed hash; in a relay's snapshot for each block that is spanned, since a block that is not listed
        // may be an image's too.
        let keyed_from = if store.extra_keys.as_ref().is_some_and(|keys| keys.len() == blocks) { 0 } else { first };
        span.hash(store, scheme, namespace, &tokens, blocks * units_per_block, ends_from(keyed_from));
        Ok(span)
    }

    /// The store's blocks: a step for every unit that no hash names.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = self.contents.iter().map(|&content| Block::step(content)).collect();
        for &(at, name) in &self.names {
            blocks[at].name = Some(name);
        }
        // Steps behind the last named block lead nowhere.
        blocks.truncate(self.names.last().map_or(0, |last| last.0 + 1));
        blocks
    }

    /// Whether some units of the range have no name: it lists fewer blocks than it spans, or coarser ones than units.
    pub(super) fn has_gaps(&self) -> bool {
        self.names.len() < self.contents.len()
    }

    /// Takes the places and the namespace of `full`, the full-attention group's store of the same range, and finds the
    /// listed hashes there. Nothing if they are not all listed, in order.
    pub(super) fn placed_by(&self, full: &Self) -> Option<Self> {
        let mut from = 0;
        let mut find = |name| {
            let at = from + full.names[from..].iter().position(|listed| listed.1 == name)?;
            from = at + 1;
            Some((full.names[at].0, name))
        };
        let names = self.names.iter().map(|listed| find(listed.1)).collect::<Option<_>>()?;
        Some(Self { names, sparse: self.sparse, ..full.clone() })
    }

    /// `keyed` are the units to whose blocks the store's extra keys belong, whether or not the block is kept.
    fn hash(
        &mut self,
        store: &Stored,
        scheme: Scheme,
        mut namespace: OwnedNamespace,
        tokens: &[u32],
        units: usize,
        keyed: impl Iterator<Item = usize>,
    ) {
        let starts_prompt = self.parent.is_none() && !self.sparse;
        let lora = store.lora_name.as_deref();
        let keys = store.extra_keys.iter().flatten().zip(keyed).enumerate();
        let keys: Vec<_> = keys.map(|(index, (keys, at))| (at, keys::read(keys, lora, starts_prompt && index == 0))).collect();
        if namespace.salt.is_none() {
            namespace.salt = keys.first().and_then(|(_, keys)| keys.salt).filter(|salt| !salt.is_empty()).map(Into::into);
        }
        let seed = namespace.as_namespace().seed();
        self.contents = (0..units).map(|unit| scheme.hash_block(seed, &tokens[scheme.window(unit)], &[])).collect();
        for (at, keys) in keys.iter().filter(|(_, keys)| !keys.items.is_empty()) {
            self.contents[*at] = scheme.hash_block(seed, &tokens[scheme.window(*at)], &keys.items);
            self.origin.keys.push((*at, keys.items.iter().map(keys::told_again).collect()));
        }
        self.namespace = (namespace.as_namespace() != Namespace::default()).then(|| Arc::new(namespace));
    }
}

/// The tokens that the range's windows cover: the range's own and the lookahead behind them.
pub(super) fn flatten(store: &Stored, scheme: Scheme) -> Result<Cow<'_, [u32]>, Loss> {
    let lookahead = scheme.lookahead_tokens as usize;
    match (&store.tokens, lookahead_of(store)) {
        (_, sent) if sent != lookahead => Err(Loss::UnalignedBlocks),
        (Tokens::Ids(ids), 0) => Ok(Cow::Borrowed(ids)),
        (Tokens::Ids(ids), _) => {
            let behind = store.lookahead.as_ref().and_then(|lists| lists.last()).into_iter().flatten();
            Ok(ids.iter().chain(behind).copied().collect())
        }
        // The window of a block is read from the first words, so each second word must be the next one's first.
        (Tokens::Bigrams(pairs), _) if pairs.windows(2).any(|two| two[0][1] != two[1][0]) => Err(Loss::UnalignedBlocks),
        (Tokens::Bigrams(pairs), _) => {
            let last = pairs.last().map(|pair| pair[1]);
            Ok(pairs.iter().map(|pair| pair[0]).chain(last).collect())
        }
    }
}

/// How many tokens behind a block its hash covers too.
pub(super) fn lookahead_of(store: &Stored) -> usize {
    match &store.tokens {
        Tokens::Bigrams(_) => 1,
        Tokens::Ids(_) => store.lookahead.as_ref().and_then(|lists| lists.last()).map_or(0, Vec::len),
    }
}
