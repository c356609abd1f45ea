//! Batches as an engine puts them on the wire: tagged maps, defaults left out.

use kv_events::{EngineHash, Event, ExtraKey, Removed, Stored, Tokens};
use rmp::encode::{write_array_len, write_bin, write_f64, write_map_len, write_nil, write_sint, write_str, write_uint};

/// The payload of a batch. Two batches of different times are different payloads.
pub(crate) fn payload(timestamp_s: f64, events: &[Event]) -> Vec<u8> {
    let mut out = Vec::new();
    array(&mut out, 3);
    write_f64(&mut out, timestamp_s).unwrap();
    array(&mut out, events.len());
    events.iter().for_each(|one| event(&mut out, one));
    write_uint(&mut out, 0).unwrap();
    out
}

fn event(out: &mut Vec<u8>, event: &Event) {
    match event {
        Event::Stored(store) => stored(out, store),
        Event::Removed(removal) => removed(out, removal),
        Event::Cleared(_) => {
            write_map_len(out, 1).unwrap();
            field(out, "type", |out| text(out, "AllBlocksCleared"));
        }
    }
}

fn stored(out: &mut Vec<u8>, store: &Stored) {
    let optional: Vec<(&str, Vec<u8>)> = [
        ("lora_name", store.lora_name.as_deref().map(text_value)),
        ("cache_salt", store.cache_salt.as_deref().map(text_value)),
        ("medium", store.medium.as_deref().map(text_value)),
        ("group_idx", store.group.map(uint_value)),
        ("kv_cache_spec_kind", store.kind.as_deref().map(text_value)),
        ("kv_cache_spec_sliding_window", store.window.map(uint_value)),
        ("extra_keys", store.extra_keys.as_ref().map(|keys| extra_keys(keys))),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect();
    write_map_len(out, u32::try_from(5 + optional.len()).unwrap()).unwrap();
    field(out, "type", |out| text(out, "BlockStored"));
    field(out, "block_hashes", |out| hashes(out, &store.hashes));
    field(out, "parent_block_hash", |out| match &store.parent {
        Some(parent) => hash(out, parent),
        None => write_nil(out).unwrap(),
    });
    field(out, "token_ids", |out| tokens(out, &store.tokens));
    field(out, "block_size", |out| _ = write_uint(out, store.block_size.into()).unwrap());
    for (name, value) in optional {
        field(out, name, |out| out.extend(value));
    }
}

fn removed(out: &mut Vec<u8>, removal: &Removed) {
    let optional: Vec<_> = [("medium", removal.medium.as_deref().map(text_value)), ("group_idx", removal.group.map(uint_value))]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    write_map_len(out, u32::try_from(2 + optional.len()).unwrap()).unwrap();
    field(out, "type", |out| text(out, "BlockRemoved"));
    field(out, "block_hashes", |out| hashes(out, &removal.hashes));
    for (name, value) in optional {
        field(out, name, |out| out.extend(value));
    }
}

fn tokens(out: &mut Vec<u8>, tokens: &Tokens) {
    array(out, tokens.len());
    match tokens {
        Tokens::Ids(ids) => ids.iter().for_each(|&id| _ = write_uint(out, id.into()).unwrap()),
        Tokens::Bigrams(pairs) => pairs.iter().for_each(|pair| {
            array(out, 2);
            pair.iter().for_each(|&id| _ = write_uint(out, id.into()).unwrap());
        }),
    }
}

fn extra_keys(blocks: &[Vec<ExtraKey>]) -> Vec<u8> {
    let mut out = Vec::new();
    array(&mut out, blocks.len());
    for keys in blocks {
        array(&mut out, keys.len());
        for key in keys {
            match key {
                ExtraKey::Text(word) => text(&mut out, word),
                ExtraKey::Item { id, offset } => {
                    array(&mut out, 2);
                    text(&mut out, id);
                    write_sint(&mut out, *offset).unwrap();
                }
                ExtraKey::Bytes(bytes) => write_bin(&mut out, bytes).unwrap(),
                ExtraKey::Unknown(value) => out.extend(value),
            }
        }
    }
    out
}

fn hashes(out: &mut Vec<u8>, all: &[EngineHash]) {
    array(out, all.len());
    all.iter().for_each(|one| hash(out, one));
}

fn hash(out: &mut Vec<u8>, hash: &EngineHash) {
    match hash {
        EngineHash::Word(word) => _ = write_uint(out, *word).unwrap(),
        EngineHash::Digest(bytes) => write_bin(out, bytes).unwrap(),
    }
}

fn field(out: &mut Vec<u8>, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    text(out, name);
    value(out);
}

fn text(out: &mut Vec<u8>, text: &str) {
    write_str(out, text).unwrap();
}

fn text_value(word: &str) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, word);
    out
}

fn uint_value(number: u32) -> Vec<u8> {
    let mut out = Vec::new();
    write_uint(&mut out, number.into()).unwrap();
    out
}

fn array(out: &mut Vec<u8>, len: usize) {
    write_array_len(out, u32::try_from(len).unwrap()).unwrap();
}
