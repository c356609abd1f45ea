//! Updates as `KvEventBatch`: pure, but for what the reader was told before. The rules are in [the module's documentation](super).

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use kv_index::BlockName;

use super::counts::{SmgCounts, Unsaid};
use super::told::Told;
use crate::adapter::grpc::proto::smg_family::smg::grpc::common as proto;
use crate::adapter::grpc::update::{News, Update};
use crate::limits::{GROUPS_MAX, LIVE_BLOCKS_MAX};
use crate::{Batch, EngineHash, Event, ExtraKey, Removed, Stored, Tier, Tokens};

/// One reader.
#[derive(Debug)]
pub(super) struct Converter {
    ranks: HashMap<u32, Rank>,
    event_id: u64,
    /// It was told something: whatever it held before is not in the way any more.
    has_begun: bool,
    counts: Arc<SmgCounts>,
}

/// What the reader knows of one rank.
#[derive(Debug, Default)]
struct Rank {
    told: Told,
    /// By number, whether the group is of main attention.
    groups: HashMap<u32, bool>,
}

impl Converter {
    pub(super) fn new(counts: Arc<SmgCounts>) -> Self {
        Self { ranks: HashMap::new(), event_id: 0, has_begun: false, counts }
    }

    /// The message; nothing for a heartbeat.
    pub(super) fn convert(&mut self, update: Update) -> Option<proto::KvEventBatch> {
        let rank = self.ranks.entry(update.rank).or_default();
        let (sequence_number, batch, is_snapshot, leaves_clear_out) = match update.news {
            News::Heartbeat { .. } => return None,
            News::Published { batch, .. } => (update.sequence, batch, false, false),
            News::Chunk { index, count, batch, .. } => {
                let behind = count.saturating_sub(1).saturating_sub(index);
                (update.sequence.saturating_sub(behind), batch, true, index == 0 && self.has_begun)
            }
        };
        self.has_begun = true;
        rank.learn_groups(&batch);
        let mut events = Vec::with_capacity(batch.events.len());
        for (at, event) in batch.events.iter().enumerate() {
            self.event_id += u64::from(!is_snapshot);
            let event_id = if is_snapshot { 0 } else { self.event_id };
            match rank.event(event, &self.counts) {
                Ok(proto::kv_cache_event::Data::Cleared(_)) if leaves_clear_out && at == 0 => {}
                Ok(data) => events.push(proto::KvCacheEvent { event_id, data: Some(data) }),
                Err(None) => {}
                Err(Some(reason)) => self.counts.add(reason, 1),
            }
        }
        let dp_rank = i32::try_from(update.rank).ok();
        Some(proto::KvEventBatch { sequence_number, timestamp: batch.timestamp_s, events, dp_rank })
    }
}

impl Rank {
    /// From every store of a batch, before any of its events is told: a window group's store may come before the full group's.
    fn learn_groups(&mut self, batch: &Batch) {
        for event in &batch.events {
            if let Event::Stored(store) = event
                && let (Some(group), Some(kind)) = (store.group, &store.kind)
                && (self.groups.contains_key(&group) || self.groups.len() < GROUPS_MAX)
            {
                self.groups.insert(group, MAIN_KINDS.contains(&kind.as_str()));
            }
        }
    }

    /// The event, or why it is not told; nothing if that is counted already.
    fn event(&mut self, event: &Event, counts: &SmgCounts) -> Result<proto::kv_cache_event::Data, Option<Unsaid>> {
        use proto::kv_cache_event::Data;
        match event {
            Event::Stored(store) => self.stored(store, counts).map(Data::Stored).map_err(Some),
            Event::Removed(removed) => self.removed(removed, counts),
            Event::Cleared(cleared) => {
                own(cleared.ownership.as_deref())?;
                self.told.clear();
                Ok(Data::Cleared(proto::KvCacheCleared {}))
            }
        }
    }

    fn stored(&mut self, store: &Stored, counts: &SmgCounts) -> Result<proto::KvBlocksStored, Unsaid> {
        own(store.ownership.as_deref())?;
        local(store.locality.as_deref())?;
        let tier = Tier::parse(store.medium.as_deref()).ok_or(Unsaid::Medium)?;
        let is_main = store.kind.as_deref().map_or_else(|| self.is_main(store.group), |kind| MAIN_KINDS.contains(&kind));
        if !is_main {
            return Err(Unsaid::Group);
        }
        let names: Vec<BlockName> = store.hashes.iter().map(EngineHash::name).collect();
        let said = self.sayable(store, &names).map(|parent| {
            let block_hashes = names.iter().map(|name| name.0.cast_signed());
            let blocks = block_hashes.zip(block_tokens(store, counts)).map(|(block_hash, token_ids)| proto::KvBlock {
                block_hash,
                block_size: i32::try_from(token_ids.len()).unwrap_or(i32::MAX),
                token_ids,
                lora_id: store.lora_id,
                cache_level: cache_level(tier),
            });
            proto::KvBlocksStored { blocks: blocks.collect(), parent_block_hash: parent.map(|parent| parent.0.cast_signed()) }
        });
        for name in names {
            if said.is_ok() { self.told.tell(name, tier) } else { self.told.note_untold(name, tier) }
        }
        said
    }

    /// The parent of a store that can be told.
    fn sayable(&self, store: &Stored, names: &[BlockName]) -> Result<Option<BlockName>, Unsaid> {
        if names.is_empty() || store.tokens.is_empty() {
            return Err(Unsaid::Placeholder);
        }
        let fits = i32::try_from(store.block_size).is_ok_and(|size| size > 0);
        if !fits || names.len().checked_mul(store.block_size as usize) != Some(store.tokens.len()) {
            return Err(Unsaid::Unaligned);
        }
        let parent = store.parent.as_ref().map(EngineHash::name);
        let mut seen: HashSet<BlockName> = parent.into_iter().collect();
        if !names.iter().all(|name| seen.insert(*name)) {
            return Err(Unsaid::SelfReferencing);
        }
        if is_namespaced(store) {
            return Err(Unsaid::Namespaced);
        }
        if parent.is_some_and(|parent| !self.told.holds(parent)) {
            return Err(Unsaid::UnknownParent);
        }
        if self.told.len() + names.len() > LIVE_BLOCKS_MAX { Err(Unsaid::OverLimit) } else { Ok(parent) }
    }

    fn removed(&mut self, removed: &Removed, counts: &SmgCounts) -> Result<proto::kv_cache_event::Data, Option<Unsaid>> {
        own(removed.ownership.as_deref())?;
        local(removed.locality.as_deref())?;
        let tier = Tier::parse(removed.medium.as_deref()).ok_or(Unsaid::Medium)?;
        if !self.is_main(removed.group) {
            return Err(Some(Unsaid::Group));
        }
        let names = removed.hashes.iter().map(EngineHash::name);
        let block_hashes: Vec<i64> =
            names.filter(|name| self.told.remove(*name, tier)).map(|name| name.0.cast_signed()).collect();
        counts.add(Unsaid::Removal, (removed.hashes.len() - block_hashes.len()) as u64);
        if block_hashes.is_empty() {
            return Err(None);
        }
        let cache_level = cache_level(tier);
        Ok(proto::kv_cache_event::Data::Removed(proto::KvBlocksRemoved { block_hashes, cache_level }))
    }

    /// A group that nothing is known of counts as main attention.
    fn is_main(&self, group: Option<u32>) -> bool {
        group.and_then(|group| self.groups.get(&group).copied()).unwrap_or(true)
    }
}

/// Whether the blocks are others than their tokens and LoRA number say.
fn is_namespaced(store: &Stored) -> bool {
    let some = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    let is_lora = |key: &ExtraKey| matches!(key, ExtraKey::Text(text) if Some(text) == store.lora_name.as_ref());
    let keyed = store.extra_keys.iter().flatten().flatten().any(|key| !is_lora(key));
    some(&store.cache_salt) || keyed || some(&store.lora_name) && store.lora_id.is_none()
}

/// The tokens of each block. The block size is not 0.
fn block_tokens(store: &Stored, counts: &SmgCounts) -> Vec<Vec<u32>> {
    let block = store.block_size as usize;
    match &store.tokens {
        Tokens::Ids(ids) => ids.chunks(block).map(<[u32]>::to_vec).collect(),
        Tokens::Bigrams(pairs) => {
            counts.add(Unsaid::Folded, 1);
            pairs.chunks(block).map(|pairs| pairs.iter().map(|pair| pair[0]).collect()).collect()
        }
    }
}

fn own(ownership: Option<&str>) -> Result<(), Unsaid> {
    if ownership.is_none() { Ok(()) } else { Err(Unsaid::Ownership) }
}

fn local(locality: Option<&str>) -> Result<(), Unsaid> {
    if locality.is_none_or(|word| word.eq_ignore_ascii_case("LOCAL")) { Ok(()) } else { Err(Unsaid::Locality) }
}

fn cache_level(tier: Tier) -> Option<i32> {
    match tier {
        Tier::Device => None,
        Tier::Host => Some(1),
        Tier::Disk => Some(2),
        Tier::External => Some(3),
    }
}

/// The kinds of attention whose cache holds whole prefixes.
const MAIN_KINDS: [&str; 3] = ["full_attention", "mla_attention", "sink_full_attention"];
