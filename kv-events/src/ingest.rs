//! One stream's events, applied to its index worker.
//!
//! A [`Stream`] owns everything that is particular to one data-parallel rank of one engine: what was learned of its
//! wire, its copies, its waiting stores and its worker. It moves as one value between the threads that apply events, and
//! it trusts its caller for one thing: that batches come in order, each once (see [`crate::admission`]).

use std::num::NonZeroU32;
use std::sync::Arc;

use kv_index::{BlockName, Removed, StoreError, Stored, View, ViewsExhausted, Worker, WorkerId};

use crate::admission::Findings;
use crate::copies::{Copies, CopyRule, Left};
use crate::dialect::{Caveat, Evidence};
use crate::namespace::Namespaces;
use crate::normalize::{Change, GroupId, Normalizer};
use crate::orphans::{Orphans, PendingStore};
use crate::profile::{GroupViews, Profile};
use crate::tier::{Tier, Tiers};
use crate::{Batch, HashCheck, HashCounts, Hashing, Loss, Losses};

/// How a stream is read.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Tiers whose blocks count as held.
    pub served: Tiers,
    /// What a repeated store means.
    pub copies: CopyRule,
    /// Score what is held on the device apart, in a view of its own for each group. A copy on the device that is announced
    /// by name alone cannot enter it; such copies count under [`Loss::Placeholder`]. No known release sends them.
    pub device_views: bool,
    /// Tokens in a block; learned from the first store where it is absent.
    pub block_tokens: Option<NonZeroU32>,
    /// The engine reuses one block less than it finds (vLLM with EAGLE, without lookahead hashing). No wire shows it.
    pub drops_last_block: bool,
    /// Check the engine's hashes, which are believed to be made so.
    pub hashing: Option<Hashing>,
}

/// The state of one stream and the writing end of its index worker.
#[derive(Debug)]
pub struct Stream<W> {
    worker: W,
    options: StreamOptions,
    normalizer: Normalizer,
    evidence: Evidence,
    copies: Copies,
    namespaces: Namespaces,
    orphans: Orphans,
    /// By [`GroupId`].
    views: Vec<(View, Option<View>)>,
    /// Views of groups that a former life of the engine had.
    spare: Vec<View>,
    counts: Counts,
    hash_check: Option<HashCheck>,
    profile: Arc<Profile>,
    /// Stores that the index had no room for, since the stream last held nothing.
    crowded_out: u64,
    /// Stores that the index refused, since the stream last held nothing.
    refused: u64,
    stored: Vec<Stored>,
    removed: Vec<Removed>,
}

/// What a stream's batches have done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Batches applied.
    pub batches: u64,
    /// Clears of the whole rank.
    pub clears: u64,
    /// Blocks that became held.
    pub stored: u64,
    /// Stores of blocks that were held already: further copies, or copies on another tier.
    pub stored_again: u64,
    /// Blocks whose name was stored at another place.
    pub moved: u64,
    /// Copies announced by name only.
    pub announced: u64,
    /// Blocks that are no longer held.
    pub removed: u64,
    /// Removed copies of blocks that are still held.
    pub removed_copies: u64,
    /// Stores under a salt.
    pub salted_stores: u64,
    /// Blocks that had to wait for their parent.
    pub waited: u64,
    /// What was left out, by reason.
    pub losses: Losses,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            served: Tiers::SERVED,
            copies: CopyRule::Counted,
            device_views: false,
            block_tokens: None,
            drops_last_block: false,
            hashing: None,
        }
    }
}

impl<W: Worker> Stream<W> {
    /// A stream that writes to `worker`, which holds nothing yet.
    pub fn new(worker: W, options: StreamOptions) -> Self {
        Self {
            worker,
            normalizer: Normalizer::new(options.served, options.block_tokens),
            evidence: Evidence::default(),
            copies: Copies::new(options.copies),
            namespaces: Namespaces::default(),
            orphans: Orphans::default(),
            views: Vec::new(),
            spare: Vec::new(),
            counts: Counts::default(),
            hash_check: options.hashing.map(HashCheck::new),
            profile: Arc::new(Profile::unknown(options.drops_last_block)),
            crowded_out: 0,
            refused: 0,
            stored: Vec::new(),
            removed: Vec::new(),
            options,
        }
    }

    /// Applies the next batch.
    pub fn apply(&mut self, batch: &Batch) {
        batch.events.iter().for_each(|event| self.evidence.observe(event));
        let normalized = self.normalizer.normalize(batch, &self.namespaces);
        self.counts.batches += 1;
        self.counts.losses.merge(&normalized.losses);
        if let Some(check) = &mut self.hash_check {
            check.observe(batch, self.normalizer.scheme().map(|scheme| scheme.block_tokens.get()));
        }
        self.open_views();
        for change in normalized.changes {
            self.change(change);
        }
        self.refresh_profile();
    }

    /// The engine started again: forgets what the rank holds and what was learned of its wire, which the new process may
    /// speak with another block size, other groups or in another release. The counts go on.
    pub fn restart(&mut self) {
        self.clear();
        self.normalizer = Normalizer::new(self.options.served, self.options.block_tokens);
        self.evidence = Evidence::default();
        self.hash_check.iter_mut().for_each(HashCheck::restart);
        let opened = self.views.drain(..).flat_map(|(any, device)| [Some(any), device]).flatten();
        self.spare.extend(opened.filter(|view| *view != View::MAIN));
        self.profile = Arc::new(Profile::unknown(self.options.drops_last_block));
    }

    /// Forgets everything that the rank holds; what was learned of its wire stays.
    pub fn clear(&mut self) {
        self.worker.clear();
        self.copies.clear();
        self.namespaces.clear();
        self.orphans.clear();
        (self.crowded_out, self.refused) = (0, 0);
    }

    /// The worker's id in the index.
    pub fn worker(&self) -> WorkerId {
        self.worker.id()
    }

    /// What is known of the stream by now.
    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// What the batches have done so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Blocks that wait for a parent that this rank has not announced, or had to give way to later ones that do. Above 0, the
    /// index knows less than the rank holds.
    pub fn waiting_blocks(&self) -> usize {
        self.orphans.blocks()
    }

    /// Stores that the index had no room for, since the stream last held nothing. Above 0, the index knows less than the rank
    /// holds, and will until the stream is cleared and learned anew.
    pub fn crowded_out(&self) -> u64 {
        self.crowded_out
    }

    /// What the check of its hashes found, if they are checked.
    pub fn hashes(&self) -> Option<&HashCounts> {
        self.hash_check.as_ref().map(HashCheck::counts)
    }

    /// What makes the index know less than the rank holds, for the [`Follower`](crate::Follower) whose batches these are.
    pub fn findings(&self) -> Findings {
        Findings { waiting_blocks: self.orphans.blocks(), crowded_out: self.crowded_out, refused: self.refused }
    }

    /// Blocks with other than one copy on the device.
    pub fn counted_copies(&self) -> usize {
        self.copies.len()
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Store { group, tier, parent, blocks, namespace } => {
                self.counts.salted_stores += u64::from(namespace.as_ref().is_some_and(|namespace| namespace.salt.is_some()));
                self.store(PendingStore { group, tier, parent, blocks, namespace, detail: () });
            }
            Change::Announce { group, tier, names } => self.announce(group, tier, &names),
            Change::Remove { group, tier, names } => names.iter().for_each(|&name| self.remove(group, tier, name)),
            Change::Clear => {
                self.counts.clears += 1;
                self.clear();
            }
        }
    }

    /// Stores, and then whatever waited for what was stored.
    fn store(&mut self, store: PendingStore) {
        let mut ready = vec![store];
        while let Some(store) = ready.pop() {
            let Some(&(any, device)) = self.views.get(usize::from(store.group.0)) else {
                self.is_refused();
                continue;
            };
            let mut stored = std::mem::take(&mut self.stored);
            match self.worker.store(any, store.parent, &store.blocks, &mut stored) {
                Ok(()) => {
                    self.stored_into(&store, &stored);
                    if let (Tier::Device, Some(device)) = (store.tier, device) {
                        // The blocks stand at their places now, so the same call can be refused for want of room only.
                        if self.worker.store(device, store.parent, &store.blocks, &mut stored).is_err() {
                            self.has_no_room();
                        }
                    }
                    let names = store.blocks.iter().filter_map(|block| block.name);
                    ready.extend(names.flat_map(|name| self.orphans.take(name)).rev());
                }
                Err(StoreError::ParentNotHeld { .. }) => {
                    self.counts.waited += store.blocks.len() as u64;
                    let expired = self.orphans.wait(store);
                    self.counts.losses.add_many(Loss::OrphanExpired, expired);
                }
                Err(StoreError::OverBudget { .. }) => self.has_no_room(),
                Err(_) => self.is_refused(),
            }
            self.stored = stored;
        }
    }

    fn is_refused(&mut self) {
        self.refused += 1;
        self.counts.losses.add(Loss::Refused);
    }

    fn has_no_room(&mut self) {
        self.crowded_out += 1;
        self.counts.losses.add(Loss::OverBudget);
    }

    fn stored_into(&mut self, store: &PendingStore, stored: &[Stored]) {
        let outcomes = store.blocks.iter().zip(stored).filter_map(|(block, outcome)| Some((block.name?, *outcome)));
        for (name, outcome) in outcomes {
            match outcome {
                Stored::Step => continue,
                Stored::New => self.counts.stored += 1,
                Stored::AlreadyHeld => self.counts.stored_again += 1,
                Stored::Moved => {
                    self.counts.moved += 1;
                    // Every group lost it at its old place.
                    (0..).zip(&self.views).for_each(|(group, _)| self.copies.forget(GroupId(group), name));
                }
            }
            self.copies.add(store.group, store.tier, name, outcome == Stored::AlreadyHeld);
            self.namespaces.note(name, store.namespace.as_ref());
        }
    }

    fn announce(&mut self, group: GroupId, tier: Tier, names: &[BlockName]) {
        let device = self.views.get(usize::from(group.0)).and_then(|views| views.1).filter(|_| tier == Tier::Device);
        for &name in names {
            let held = self.holds(group, name);
            if held {
                self.copies.add(group, tier, name, true);
                self.counts.announced += 1;
            }
            if !held || device.is_some_and(|device| !self.worker.holds(device, name)) {
                self.counts.losses.add(Loss::Placeholder);
            }
        }
    }

    fn remove(&mut self, group: GroupId, tier: Tier, name: BlockName) {
        let held = self.holds(group, name);
        let left = self.copies.remove(group, tier, name, held);
        let (any, device) = self.views.get(usize::from(group.0)).copied().unwrap_or((View::MAIN, None));
        if let (Tier::Device, Some(device), Left::Nothing | Left::Elsewhere) = (tier, device, left) {
            self.worker.remove(device, &[name], &mut self.removed);
        }
        match left {
            Left::Nothing => {
                self.worker.remove(any, &[name], &mut self.removed);
                self.counts.removed += 1;
                if !self.worker.knows(name) {
                    self.namespaces.forget(name);
                }
            }
            Left::Here | Left::Elsewhere => self.counts.removed_copies += 1,
            Left::Unknown if self.orphans.remove(group, tier, name) => {}
            Left::Unknown => self.counts.losses.add(Loss::UnknownBlock),
        }
    }

    fn holds(&self, group: GroupId, name: BlockName) -> bool {
        self.views.get(usize::from(group.0)).is_some_and(|&(any, _)| self.worker.holds(any, name))
    }

    /// Gives every group that was learned its views. The first that keeps whole prompts takes the view that every worker
    /// has, so that a plain lookup answers for it.
    fn open_views(&mut self) {
        for (id, group) in self.normalizer.groups().skip(self.views.len()).collect::<Vec<_>>() {
            let main_is_free = self.views.iter().all(|views| views.0 != View::MAIN);
            let Ok(views) = self.open(main_is_free && group.kind.is_main()) else { break };
            debug_assert_eq!(usize::from(id.0), self.views.len());
            self.views.push(views);
        }
    }

    fn open(&mut self, main: bool) -> Result<(View, Option<View>), ViewsExhausted> {
        let any = if main { View::MAIN } else { self.spare_view()? };
        let device = if self.options.device_views { Some(self.spare_view()?) } else { None };
        Ok((any, device))
    }

    fn spare_view(&mut self) -> Result<View, ViewsExhausted> {
        self.spare.pop().map_or_else(|| self.worker.add_view(), Ok)
    }

    fn refresh_profile(&mut self) {
        let mut caveats = self.evidence.caveats();
        if self.normalizer.has_ambiguous_groups() {
            caveats.insert(Caveat::GroupsWithoutKinds);
        }
        if self.normalizer.misfits() > 0 {
            caveats.insert(Caveat::MixedSchemes);
        }
        let plain = self.normalizer.groups().all(|(id, group)| id.0 == 0 && group.kind.is_main());
        if self.options.drops_last_block && !plain {
            caveats.insert(Caveat::DraftGroupsNotShown);
        }
        let views = self.normalizer.groups().zip(&self.views);
        let profile = Profile {
            dialect: self.evidence.dialect(),
            scheme: self.normalizer.scheme(),
            groups: views.map(|((_, group), &(any, device))| GroupViews { group, any, device }).collect(),
            caveats,
            drops_last_block: self.options.drops_last_block,
        };
        if *self.profile != profile {
            self.profile = Arc::new(profile);
        }
    }
}
