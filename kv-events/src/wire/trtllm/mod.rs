//! TensorRT-LLM's own events: a JSON array that its HTTP endpoint hands out once.
//!
//! | `data.type` | becomes |
//! | --- | --- |
//! | `created` | no event; [`Update::created`]: a pool of the engine starts empty |
//! | `stored` | a store for each run of blocks with the same level, adapter and salt |
//! | `removed` | a removal for each level that the blocks were at |
//! | `updated` | for a block that changes its cache level, a store without tokens in the new one, then a removal from the old; else nothing |
//!
//! * Cache level 0 is the medium `GPU`, level 1 `CPU`, and any other a word that no tier has.
//! * The events do not say how long a block is. It is as long as the longest seen; a shorter one is a partial tail and a store of
//!   its own, with fewer tokens than its block size.
//! * The group is `layer_group_id` where there is one, else the window's size. The largest window seen counts as full attention.
//! * Where a token's place holds the digest of a multimodal item, its id is 0 and the digest an extra key of the block.
//! * There is no timestamp.

mod json;
mod stores;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use kv_index::BlockName;
use serde::Deserialize;
use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::event::{Batch, EngineHash, Event, Layout, Removed, Stored};
use crate::limits::{EVENTS_MAX, OFF_DEVICE_BLOCKS_MAX, PAYLOAD_BYTES_MAX};
use crate::loss::{Loss, Losses};

/// Decodes what one engine hands out, drain by drain.
///
/// It remembers what the events leave out: the length of a block, the windows, and which blocks are not in GPU memory (a removal
/// does not say where its block was). So a decoder is for one engine, and should see all of its drains.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    block_size: u32,
    main_window: u32,
    /// The cache level of every block that is not at level 0.
    off_device: HashMap<(Pool, BlockName), u8>,
}

/// What one drain held.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drain {
    /// The updates in the engine's order.
    pub updates: Vec<Update>,
    /// What could not be placed at any event id.
    pub losses: Losses,
}

/// One event of the engine, which stands for a batch of ours.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// Counts the engine's events from 0; a jump is a loss, and a step back a restart.
    pub event_id: u64,
    /// The attention window of the pool, in tokens.
    pub window: Option<u32>,
    /// For a new pool, its blocks on each cache level. An engine's first events are these, one for each window.
    pub created: Option<Vec<u64>>,
    /// What happened to blocks.
    pub batch: Batch,
}

/// Decodes a single drain, with nothing known from those before it.
pub fn decode_json(text: &[u8]) -> Drain {
    Decoder::default().decode(text)
}

impl Decoder {
    /// A decoder that knows the engine's `tokens_per_block`, so that it never takes a partial tail for a whole block.
    pub fn with_block_size(tokens: u32) -> Self {
        Self { block_size: tokens, ..Self::default() }
    }

    /// Decodes one drain. Never fails: what could not be read is counted, in the batch of its event where that has an id.
    ///
    /// A text that is no array is one [`Loss::UnreadablePayload`]. Where the array breaks off, the events before are kept and
    /// the rest is one [`Loss::Malformed`]. Memory stays below [`ALLOCATION_FACTOR`](crate::limits::ALLOCATION_FACTOR) bytes
    /// for each byte of the text and a kilobyte, besides what the decoder remembers.
    pub fn decode(&mut self, text: &[u8]) -> Drain {
        let mut drain = Drain::default();
        if text.len() > PAYLOAD_BYTES_MAX {
            drain.losses.add(Loss::OverLimit);
            return drain;
        }
        let mut opened = false;
        let elements = Elements { decoder: self, drain: &mut drain, opened: &mut opened };
        if serde_json::Deserializer::from_slice(text).deserialize_seq(elements).is_err() {
            drain.losses.add(if opened { Loss::Malformed } else { Loss::UnreadablePayload });
        }
        drain
    }

    fn decode_element(&mut self, element: &RawValue, drain: &mut Drain) {
        let Some(json::Identity { event_id }) = parse(element) else { return drain.losses.add(Loss::Malformed) };
        let mut update = Update { event_id, ..Update::default() };
        if let Err(loss) = self.decode_event(element, &mut update) {
            update.batch.losses.add(loss);
        }
        drain.updates.push(update);
    }

    fn decode_event(&mut self, element: &RawValue, update: &mut Update) -> Result<(), Loss> {
        let envelope: json::Envelope = parse(element).ok_or(Loss::Malformed)?;
        update.window = envelope.window_size;
        update.batch.rank = envelope.attention_dp_rank;
        self.main_window = self.main_window.max(envelope.window_size.unwrap_or_default());
        let pool = Pool { rank: envelope.attention_dp_rank, group: envelope.layer_group_id.or(envelope.window_size) };
        let json::Kind { name } = parse(envelope.data).ok_or(Loss::Malformed)?;
        match &name[..] {
            "created" => update.created = Some(self.created(pool, parse(envelope.data).ok_or(Loss::Malformed)?)),
            "stored" => self.stored(pool, parse(envelope.data).ok_or(Loss::Malformed)?, update),
            "removed" => update.batch.events = self.removed(pool, parse(envelope.data).ok_or(Loss::Malformed)?),
            "updated" => self.updated(pool, parse(envelope.data).ok_or(Loss::Malformed)?, &mut update.batch),
            _ => return Err(Loss::UnknownType),
        }
        Ok(())
    }

    fn created(&mut self, pool: Pool, created: json::Created) -> Vec<u64> {
        self.off_device.retain(|(other, _), _| *other != pool);
        created.num_blocks_per_cache_level
    }

    fn stored(&mut self, pool: Pool, stored: json::Stored, update: &mut Update) {
        let levels: Vec<_> = stored.blocks.iter().map(|block| (block.hash.0.name(), block.cache_level.unwrap_or(GPU))).collect();
        self.block_size = stores::longest(&stored).max(self.block_size);
        let (kind, window) = match update.window {
            Some(window) if window < self.main_window => (Some("sliding_window"), Some(window)),
            Some(_) => (Some("full_attention"), None),
            None => (None, None),
        };
        let common = Stored {
            block_size: self.block_size,
            group: pool.group,
            kind: kind.map(str::to_owned),
            window,
            layout: Layout::Json,
            ..Stored::default()
        };
        update.batch.events = stores::runs(stored, &common).into_iter().map(Event::from).collect();
        for (name, level) in levels {
            self.remember(pool, name, level, &mut update.batch.losses);
        }
    }

    fn removed(&mut self, pool: Pool, removed: json::Removed) -> Vec<Event> {
        let mut by_level: BTreeMap<u8, Vec<EngineHash>> = BTreeMap::new();
        for json::Hash(hash) in removed.block_hashes {
            by_level.entry(self.forget(pool, hash.name())).or_default().push(hash);
        }
        by_level.into_iter().map(|(level, hashes)| removal(pool, level, hashes)).collect()
    }

    fn updated(&mut self, pool: Pool, updated: json::Updated, batch: &mut Batch) {
        let Some(json::Move { from, to }) = updated.cache_level.filter(|change| change.from != change.to) else { return };
        let hash = updated.block_hash.0;
        self.remember(pool, hash.name(), to, &mut batch.losses);
        let arrived = Stored {
            hashes: vec![hash.clone()],
            medium: Some(medium(to)),
            group: pool.group,
            layout: Layout::Json,
            ..Stored::default()
        };
        batch.events = vec![arrived.into(), removal(pool, from, vec![hash])];
    }

    fn remember(&mut self, pool: Pool, name: BlockName, level: u8, losses: &mut Losses) {
        if level == GPU {
            self.off_device.remove(&(pool, name));
        } else if self.off_device.len() < OFF_DEVICE_BLOCKS_MAX {
            self.off_device.insert((pool, name), level);
        } else {
            losses.add(Loss::OverLimit);
        }
    }

    /// The level at which the block was.
    fn forget(&mut self, pool: Pool, name: BlockName) -> u8 {
        self.off_device.remove(&(pool, name)).unwrap_or(GPU)
    }
}

/// Blocks of one name in two pools are two blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pool {
    rank: Option<u32>,
    group: Option<u32>,
}

/// Reads the array element by element, without holding it.
struct Elements<'a> {
    decoder: &'a mut Decoder,
    drain: &'a mut Drain,
    /// Whether there is an array at all.
    opened: &'a mut bool,
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an array of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        *self.opened = true;
        while let Some(element) = elements.next_element::<&RawValue>()? {
            if self.drain.updates.len() < EVENTS_MAX {
                self.decoder.decode_element(element, self.drain);
            } else {
                self.drain.losses.add(Loss::OverLimit);
            }
        }
        Ok(())
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a RawValue) -> Option<T> {
    serde_json::from_str(text.get()).ok()
}

fn removal(pool: Pool, level: u8, hashes: Vec<EngineHash>) -> Event {
    Event::Removed(Removed { hashes, medium: Some(medium(level)), group: pool.group, ..Removed::default() })
}

fn medium(level: u8) -> String {
    match level {
        GPU => "GPU".to_owned(),
        1 => "CPU".to_owned(),
        level => format!("LEVEL_{level}"),
    }
}

/// The cache level of GPU memory.
const GPU: u8 = 0;
