//! From what an engine said to what it means: one order of tests, one reason for every loss.
//!
//! For each event: ownership, locality, medium, then (for stores) placeholder, alignment, self reference. Groups are
//! learned from the whole batch first, because vLLM lists a window group's store before the full group's.
//!
//! * A group's store that lists fewer hashes than it spans places the unlisted blocks as nameless steps. Which
//!   hashes are listed is found in the full-attention group's store of the same range in the same batch; without one
//!   they are the last.
//! * Content is hashed under (LoRA, salt); what a store leaves out is its parent's.
//! * A store without tokens names blocks by hash only: it becomes [`Change::Announce`], joined by the copy counter to
//!   what this rank holds.

mod groups;
mod inherited;
mod keys;
mod ranges;
mod repeats;
mod span;

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;

use kv_index::reuse::Group;
use kv_index::{Block, BlockName, Scheme};

pub use self::groups::GroupId;
pub(crate) use self::groups::GroupTable;
use self::inherited::InBatch;
pub(crate) use self::keys::shows_salt;
use self::ranges::FullRanges;
pub use self::span::Origin;
use self::span::Span;
use crate::limits::GROUPS_MAX;
use crate::namespace::{Namespaces, OwnedNamespace};
use crate::tier::{Tier, Tiers};
use crate::{Batch, EngineHash, Event, Loss, Losses, Removed, Stored};

/// One change of what a rank holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Blocks at places.
    Store {
        /// The cache group.
        group: GroupId,
        /// Where the blocks are kept.
        tier: Tier,
        /// The block before them.
        parent: Option<BlockName>,
        /// The blocks, in units of the stream's scheme.
        blocks: Vec<Block>,
        /// Their namespace; nothing for the base.
        namespace: Option<Arc<OwnedNamespace>>,
    },
    /// Further copies, on a tier, of blocks that are known by name only.
    Announce {
        /// The cache group.
        group: GroupId,
        /// Where the copies are.
        tier: Tier,
        /// The blocks.
        names: Vec<BlockName>,
    },
    /// One copy less of each block.
    Remove {
        /// The cache group.
        group: GroupId,
        /// Where the copies were.
        tier: Tier,
        /// The blocks.
        names: Vec<BlockName>,
    },
    /// Everything of the rank is gone.
    Clear,
}

/// What a batch means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Normalized {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// For each change, what it was made from.
    pub origins: Vec<Origin>,
    /// What was left out, the decoder's losses included.
    pub losses: Losses,
}

/// The meaning of one stream's events: what it has learned so far of block size, windows and groups.
#[derive(Clone, Debug)]
pub struct Normalizer {
    served: Tiers,
    /// Tokens of a unit, where the options fix it.
    unit: Option<NonZeroU32>,
    scheme: Option<Scheme>,
    groups: GroupTable,
    /// Stores of another block size than the scheme or their group, or of another lookahead.
    misfits: u64,
}

/// An event that passed the tests, before the batch's other stores were looked at.
enum Draft {
    Store { group: GroupId, tier: Tier, span: Span },
    Other(Change),
}

impl Normalizer {
    /// A normalizer that keeps blocks of `served` tiers. `block_tokens` fixes the unit; without it, it is the block size of
    /// the first main group that stores.
    pub fn new(served: Tiers, block_tokens: Option<NonZeroU32>) -> Self {
        Self { served, unit: block_tokens, scheme: None, groups: GroupTable::default(), misfits: 0 }
    }

    /// How the stream cuts tokens into blocks, once it has stored one.
    pub fn scheme(&self) -> Option<Scheme> {
        self.scheme
    }

    /// The cache groups met so far.
    pub fn groups(&self) -> impl Iterator<Item = (GroupId, Group)> + '_ {
        self.groups.iter()
    }

    /// Whether the engine stored into several groups without saying what they keep, or into one that is not scored.
    pub fn has_ambiguous_groups(&self) -> bool {
        self.groups.is_ambiguous()
    }

    /// What is known of the cache groups.
    pub(crate) fn group_table(&self) -> &GroupTable {
        &self.groups
    }

    /// Stores so far that could not be placed in the stream's scheme, or not in blocks as long as their group's others.
    pub fn misfits(&self) -> u64 {
        self.misfits
    }

    /// Reads one batch. `held` are the namespaces of what the rank held before it.
    pub fn normalize(&mut self, batch: &Batch, held: &Namespaces) -> Normalized {
        self.learn(batch);
        let mut namespaces = InBatch::after(held);
        let mut losses = batch.losses.clone();
        let mut drafts: Vec<Result<Draft, Loss>> = Vec::with_capacity(batch.events.len());
        for (at, event) in batch.events.iter().enumerate() {
            drafts.push(self.draft(at, event, &mut namespaces, &mut losses));
        }
        let placed = place(&drafts, &batch.events);
        let mut normalized =
            Normalized { changes: Vec::with_capacity(drafts.len()), origins: Vec::with_capacity(drafts.len()), losses };
        for (at, (draft, placed)) in drafts.into_iter().zip(placed).enumerate() {
            match draft {
                Ok(draft) => {
                    let (change, origin) = draft.finish(at, placed);
                    normalized.changes.push(change);
                    normalized.origins.push(origin);
                }
                Err(loss) => normalized.losses.add(loss),
            }
        }
        normalized
    }

    fn learn(&mut self, batch: &Batch) {
        let stores = batch.events.iter().filter_map(|event| if let Event::Stored(store) = event { Some(store) } else { None });
        let mut first: [Option<&Stored>; 2] = [None; 2];
        for store in stores.filter(|store| !store.tokens.is_empty() && !is_foreign(store)) {
            let Some(group) = self.groups.learn(store, GROUPS_MAX) else { continue };
            let is_main = self.groups.group(group).kind.is_main();
            first[usize::from(!is_main)].get_or_insert(store);
        }
        if let (None, Some(store)) = (self.scheme, first[0].or(first[1])) {
            let lookahead_tokens = u32::try_from(span::lookahead_of(store)).unwrap_or(u32::MAX);
            let unit = self.unit.or(NonZeroU32::new(store.block_size));
            self.scheme = unit.map(|block_tokens| Scheme { block_tokens, lookahead_tokens });
        }
    }

    fn draft(&mut self, at: usize, event: &Event, namespaces: &mut InBatch<'_>, losses: &mut Losses) -> Result<Draft, Loss> {
        match event {
            Event::Stored(store) => self.draft_store(at, store, namespaces, losses),
            Event::Removed(removal) => self.draft_removal(removal).map(Draft::Other),
            Event::Cleared(clear) => {
                own(clear.ownership.as_deref())?;
                namespaces.clear();
                Ok(Draft::Other(Change::Clear))
            }
        }
    }

    fn draft_removal(&self, removal: &Removed) -> Result<Change, Loss> {
        own(removal.ownership.as_deref())?;
        local(removal.locality.as_deref())?;
        let tier = self.tier(removal.medium.as_deref())?;
        let group = self.groups.resolve(removal.group).ok_or(Loss::UnknownBlock)?;
        Ok(Change::Remove { group, tier, names: removal.hashes.iter().map(EngineHash::name).collect() })
    }

    fn draft_store(
        &mut self,
        at: usize,
        store: &Stored,
        namespaces: &mut InBatch<'_>,
        losses: &mut Losses,
    ) -> Result<Draft, Loss> {
        own(store.ownership.as_deref())?;
        local(store.locality.as_deref())?;
        let tier = self.tier(store.medium.as_deref())?;
        if store.hashes.is_empty() {
            return Err(Loss::Placeholder);
        }
        if store.tokens.is_empty() {
            let group = self.groups.resolve(store.group).ok_or(Loss::Placeholder)?;
            return Ok(Draft::Other(Change::Announce {
                group,
                tier,
                names: store.hashes.iter().map(EngineHash::name).collect(),
            }));
        }
        if store.block_size == 0 {
            return Err(Loss::UnalignedBlocks);
        }
        let group = self.groups.group_of(store).ok_or(Loss::UnscoredGroup)?;
        let scheme = self.scheme.ok_or(Loss::UnalignedBlocks)?;
        let mut span = Span::read(at, store, scheme, namespaces.of(store))
            .inspect_err(|_| self.misfits += u64::from(is_misfit(store, scheme)))?;
        if span.partial {
            losses.add(Loss::UnalignedBlocks);
        }
        self.misfits += u64::from(store.block_size != self.groups.group(group).block_tokens.get());
        if refers_to_itself(&span) {
            return Err(Loss::SelfReferencingHashes);
        }
        namespaces.share(&mut span);
        namespaces.note(&span);
        Ok(Draft::Store { group, tier, span })
    }

    fn tier(&self, medium: Option<&str>) -> Result<Tier, Loss> {
        let tier = Tier::parse(medium).ok_or(Loss::UnknownMedium)?;
        if self.served.contains(tier) { Ok(tier) } else { Err(Loss::UnservedTier) }
    }
}

impl Draft {
    /// The change, and what it was made from: the event `at`, or the one that placed its blocks.
    fn finish(self, at: usize, placed: Option<Span>) -> (Change, Origin) {
        match self {
            Self::Other(change) => (change, Origin { event: at, keys: Vec::new() }),
            Self::Store { group, tier, span } => {
                let span = placed.unwrap_or(span);
                let blocks = span.blocks();
                (Change::Store { group, tier, parent: span.parent, blocks, namespace: span.namespace }, span.origin)
            }
        }
    }
}

/// For each store with gaps, its range as the full-attention group's store of the same range shows it, if the batch has one.
fn place(drafts: &[Result<Draft, Loss>], events: &[Event]) -> Vec<Option<Span>> {
    let stores = drafts.iter().zip(events).map(|(draft, event)| match (draft, event) {
        (Ok(Draft::Store { span, .. }), Event::Stored(store)) => Some((&**store, span)),
        _ => None,
    });
    let ranges = FullRanges::of(stores.clone().flatten());
    stores.map(|store| store.and_then(|(store, span)| ranges.place(store, span))).collect()
}

/// The tokens from which the blocks of a store were hashed, as one row: a unit's are at its window.
pub(crate) fn token_row(store: &Stored, scheme: Scheme) -> Cow<'_, [u32]> {
    span::flatten(store, scheme).unwrap_or_default()
}

fn own(ownership: Option<&str>) -> Result<(), Loss> {
    match ownership {
        Some(word) if word.eq_ignore_ascii_case("kvcr") => Err(Loss::UnsupportedOwnership),
        _ => Ok(()),
    }
}

fn local(locality: Option<&str>) -> Result<(), Loss> {
    match locality {
        Some(word) if !word.eq_ignore_ascii_case("LOCAL") => Err(Loss::NonLocalLocality),
        _ => Ok(()),
    }
}

/// A store that the tests drop for what it says of its owner or place teaches nothing about this engine's groups.
fn is_foreign(store: &Stored) -> bool {
    own(store.ownership.as_deref()).and_then(|()| local(store.locality.as_deref())).is_err()
}

/// Whether the store is of another scheme, and not just of a length that does not fit.
fn is_misfit(store: &Stored, scheme: Scheme) -> bool {
    let other_windows = span::lookahead_of(store) != scheme.lookahead_tokens as usize;
    other_windows || !store.block_size.is_multiple_of(scheme.block_tokens.get())
}

fn refers_to_itself(span: &Span) -> bool {
    let names = span.names.iter().map(|listed| listed.1).chain(span.parent);
    repeats::any_twice(names.map(|name| name.0), span.names.len() + usize::from(span.parent.is_some()))
}
