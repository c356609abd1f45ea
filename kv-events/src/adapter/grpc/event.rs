//! Events as messages, and messages as events.
//!
//! What is read back is what was written, field by field. What none of ours would write (a text that is too long, a digest out of
//! its place, half a bigram) makes its event unreadable, and no other.

use prost::Message;
use prost::bytes::Bytes;

use super::proto::kv_events as proto;
use crate::limits::{DIGEST_BYTES_MAX, EVENTS_MAX, TEXT_BYTES_MAX};
use crate::loss::{Loss, Losses};
use crate::{Batch, Cleared, EngineHash, Event, ExtraKey, Layout, Removed, Stored, Tokens};

/// A batch as a message.
pub(super) fn write_batch(batch: &Batch) -> proto::Batch {
    proto::Batch {
        timestamp_s: batch.timestamp_s,
        rank: batch.rank,
        events: batch.events.iter().map(|event| Bytes::from(write_event(event).encode_to_vec())).collect(),
        losses: batch.losses.iter().map(|(loss, count)| proto::Loss { reason: loss.as_str().to_owned(), count }).collect(),
    }
}

/// A message as a batch. Events that cannot be read are counted, those beyond [`EVENTS_MAX`] too.
pub(super) fn read_batch(message: proto::Batch) -> Batch {
    let mut losses = Losses::default();
    for loss in &message.losses {
        // A reason that is not known here still says that something is missing.
        let known = Loss::ALL.into_iter().find(|known| known.as_str() == loss.reason).unwrap_or(Loss::Malformed);
        losses.add_many(known, loss.count.min(u64::from(u32::MAX)));
    }
    let beyond = message.events.len().saturating_sub(EVENTS_MAX);
    losses.add_many(Loss::OverLimit, beyond as u64);
    let mut events = Vec::new();
    for event in message.events.into_iter().take(EVENTS_MAX) {
        match read_event(event) {
            Ok(event) => events.push(event),
            Err(loss) => losses.add(loss),
        }
    }
    Batch { timestamp_s: message.timestamp_s, rank: message.rank, events, losses }
}

fn write_event(event: &Event) -> proto::Event {
    use proto::event::Kind;
    let kind = match event {
        Event::Stored(stored) => Kind::Stored(write_stored(stored)),
        Event::Removed(removed) => Kind::Removed(proto::Removed {
            hashes: Some(write_hashes(&removed.hashes)),
            medium: removed.medium.clone(),
            group: removed.group,
            locality: removed.locality.clone(),
            ownership: removed.ownership.clone(),
        }),
        Event::Cleared(cleared) => Kind::Cleared(proto::Cleared { ownership: cleared.ownership.clone() }),
    };
    proto::Event { kind: Some(kind) }
}

fn read_event(bytes: Bytes) -> Result<Event, Loss> {
    use proto::event::Kind;
    let event = proto::Event::decode(bytes).map_err(|_| Loss::Malformed)?;
    // A kind that came later has no field here.
    match event.kind.ok_or(Loss::UnknownType)? {
        Kind::Stored(stored) => read_stored(stored),
        Kind::Removed(removed) => Ok(Event::Removed(Removed {
            hashes: read_hashes(removed.hashes.ok_or(Loss::Malformed)?)?,
            medium: text(removed.medium)?,
            group: removed.group,
            locality: text(removed.locality)?,
            ownership: text(removed.ownership)?,
        })),
        Kind::Cleared(cleared) => Ok(Event::Cleared(Cleared { ownership: text(cleared.ownership)? })),
    }
}

fn write_stored(stored: &Stored) -> proto::Stored {
    let (tokens, bigrams) = match &stored.tokens {
        Tokens::Ids(ids) => (ids.clone(), false),
        Tokens::Bigrams(pairs) => (pairs.as_flattened().to_vec(), true),
    };
    let row = |ids: &Vec<u32>| proto::Tokens { ids: ids.clone() };
    proto::Stored {
        hashes: Some(write_hashes(&stored.hashes)),
        parent: stored.parent.as_ref().map(|parent| write_hashes(std::slice::from_ref(parent))),
        tokens,
        bigrams,
        block_size: stored.block_size,
        lora_id: stored.lora_id,
        lora_name: stored.lora_name.clone(),
        cache_salt: stored.cache_salt.clone(),
        extra_keys: stored.extra_keys.as_ref().map(|blocks| write_keys(blocks)),
        medium: stored.medium.clone(),
        group: stored.group,
        kind: stored.kind.clone(),
        window: stored.window,
        locality: stored.locality.clone(),
        ownership: stored.ownership.clone(),
        lookahead: stored.lookahead.as_ref().map(|blocks| proto::Lookahead { blocks: blocks.iter().map(row).collect() }),
        components: stored.components.clone(),
        layout: match stored.layout {
            Layout::Map => MAP,
            Layout::Json => JSON,
            Layout::Array(slots) => ARRAYS + u32::from(slots),
        },
    }
}

fn read_stored(stored: proto::Stored) -> Result<Event, Loss> {
    let parent = match stored.parent {
        None => None,
        Some(names) => match <[EngineHash; 1]>::try_from(read_hashes(names)?) {
            Ok([parent]) => Some(parent),
            Err(_) => return Err(Loss::Malformed),
        },
    };
    let tokens = match (stored.bigrams, stored.tokens.as_chunks()) {
        (true, (pairs, [])) => Tokens::Bigrams(pairs.to_vec()),
        (true, _) => return Err(Loss::Malformed),
        (false, _) => Tokens::Ids(stored.tokens),
    };
    let layout = match stored.layout {
        MAP => Layout::Map,
        JSON => Layout::Json,
        slots => Layout::Array(u8::try_from(slots - ARRAYS).map_err(|_| Loss::Malformed)?),
    };
    let read = Stored {
        hashes: read_hashes(stored.hashes.ok_or(Loss::Malformed)?)?,
        parent,
        tokens,
        block_size: stored.block_size,
        lora_id: stored.lora_id,
        lora_name: text(stored.lora_name)?,
        cache_salt: text(stored.cache_salt)?,
        extra_keys: stored.extra_keys.map(read_keys).transpose()?,
        medium: text(stored.medium)?,
        group: stored.group,
        kind: text(stored.kind)?,
        window: stored.window,
        locality: text(stored.locality)?,
        ownership: text(stored.ownership)?,
        lookahead: stored.lookahead.map(|rows| rows.blocks.into_iter().map(|row| row.ids).collect()),
        components: stored.components.into_iter().map(short).collect::<Result<_, _>>()?,
        layout,
    };
    Ok(read.into())
}

fn write_hashes(hashes: &[EngineHash]) -> proto::Hashes {
    let mut message = proto::Hashes::default();
    for (at, hash) in (0..).zip(hashes) {
        match hash {
            EngineHash::Word(word) => message.words.push(*word),
            EngineHash::Digest(bytes) => message.digests.push(proto::Digest { at, value: bytes.to_vec() }),
        }
    }
    message
}

/// Digests stand at their places, in order; words fill the others.
fn read_hashes(message: proto::Hashes) -> Result<Vec<EngineHash>, Loss> {
    let mut hashes = Vec::with_capacity(message.words.len() + message.digests.len());
    let mut words = message.words.into_iter().map(EngineHash::Word);
    for digest in message.digests {
        let before = (digest.at as usize).checked_sub(hashes.len()).ok_or(Loss::Malformed)?;
        hashes.extend(words.by_ref().take(before));
        if hashes.len() != digest.at as usize || digest.value.len() > DIGEST_BYTES_MAX {
            return Err(Loss::Malformed);
        }
        hashes.push(EngineHash::Digest(digest.value.into()));
    }
    hashes.extend(words);
    Ok(hashes)
}

fn write_keys(blocks: &[Vec<ExtraKey>]) -> proto::ExtraKeys {
    use proto::extra_key::Kind;
    let key = |key: &ExtraKey| proto::ExtraKey {
        kind: Some(match key {
            ExtraKey::Text(text) => Kind::Text(text.clone()),
            ExtraKey::Item { id, offset } => Kind::Item(proto::Item { id: id.clone(), offset: *offset }),
            ExtraKey::Bytes(bytes) => Kind::Digest(bytes.clone()),
            ExtraKey::Unknown(bytes) => Kind::Unknown(bytes.clone()),
        }),
    };
    let block = |keys: &Vec<ExtraKey>| proto::BlockKeys { keys: keys.iter().map(key).collect() };
    proto::ExtraKeys { blocks: blocks.iter().map(block).collect() }
}

fn read_keys(message: proto::ExtraKeys) -> Result<Vec<Vec<ExtraKey>>, Loss> {
    use proto::extra_key::Kind;
    let key = |key: proto::ExtraKey| match key.kind.ok_or(Loss::Malformed)? {
        Kind::Text(text) => Ok(ExtraKey::Text(short(text)?)),
        Kind::Item(item) => Ok(ExtraKey::Item { id: short(item.id)?, offset: item.offset }),
        Kind::Digest(bytes) => Ok(ExtraKey::Bytes(bytes)),
        Kind::Unknown(bytes) => Ok(ExtraKey::Unknown(bytes)),
    };
    message.blocks.into_iter().map(|block| block.keys.into_iter().map(key).collect()).collect()
}

fn text(text: Option<String>) -> Result<Option<String>, Loss> {
    text.map(short).transpose()
}

fn short(text: String) -> Result<String, Loss> {
    if text.len() <= TEXT_BYTES_MAX { Ok(text) } else { Err(Loss::Malformed) }
}

/// How `layout` is written.
const MAP: u32 = 0;
const JSON: u32 = 1;
const ARRAYS: u32 = 2;
