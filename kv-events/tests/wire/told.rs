//! What a capture's `.json` says was published, as events: built from the names, without the decoder.

use std::collections::HashMap;

use kv_events::{Cleared, EngineHash, Event, ExtraKey, Removed, Stored, Tokens};
use serde_json::{Map, Value};

use crate::capture::{Capture, from_hex};

/// One published batch.
pub(crate) struct Told {
    pub(crate) timestamp_s: f64,
    pub(crate) rank: Option<u32>,
    pub(crate) events: Vec<Event>,
    /// How many events have a tag that no release has.
    pub(crate) unknown: u64,
}

/// The batches by port (0 where the capture has one rank) and sequence.
pub(crate) fn batches(capture: &Capture) -> HashMap<(u64, u64), Told> {
    let live = capture.told["live"].as_array().into_iter().flatten();
    let live = live.map(|entry| ((entry["port"].as_u64().unwrap_or(0), number(&entry["seq"])), positional(&entry["batch"])));
    // vLLM 0.9 fails to encode what has a hash of 256 bits: such a batch is told but never sent.
    let sent = |batch: &&Value| !capture.name.ends_with("sha256int-seqgap") || batch["n"] != 1;
    let published = capture.told["published"].as_array().into_iter().flatten().filter(sent);
    let published = published.map(|batch| ((0, number(&batch["n"])), named(batch)));
    live.chain(published).collect()
}

fn positional(batch: &Value) -> Told {
    told(&batch[0], &batch[1], &batch[2])
}

fn named(batch: &Value) -> Told {
    let rank = if batch["attn_dp_rank"].is_null() { &batch["data_parallel_rank"] } else { &batch["attn_dp_rank"] };
    told(&batch["ts"], &batch["events"], rank)
}

fn told(timestamp: &Value, events: &Value, rank: &Value) -> Told {
    let all = events.as_array().expect("events");
    let events: Vec<_> = all.iter().filter_map(event).collect();
    Told {
        timestamp_s: timestamp.as_f64().expect("a timestamp"),
        rank: rank.as_u64().map(|rank| rank.try_into().expect("a rank")),
        unknown: (all.len() - events.len()) as u64,
        events,
    }
}

fn event(event: &Value) -> Option<Event> {
    let fields = event.as_object().cloned().unwrap_or_else(|| name_slots(event.as_array().expect("an event")));
    match fields["type"].as_str().expect("a tag") {
        "BlockStored" => Some(stored(&Value::Object(fields)).into()),
        "BlockRemoved" => Some(Event::Removed(removed(&Value::Object(fields)))),
        "AllBlocksCleared" => {
            Some(Event::Cleared(Cleared { ownership: text(&fields.get("ownership").cloned().unwrap_or_default()) }))
        }
        _ => None,
    }
}

/// The names of an array's slots, as far as the captures that tell arrays go (SGLang up to 0.5.17, vLLM 0.11, TokenSpeed).
fn name_slots(slots: &[Value]) -> Map<String, Value> {
    let names: &[&str] = match slots[0].as_str() {
        Some("BlockStored") => &["type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium"],
        _ => &["type", "block_hashes", "medium"],
    };
    names.iter().map(|name| (*name).to_owned()).zip(slots.iter().cloned()).collect()
}

fn stored(fields: &Value) -> Stored {
    let extra_keys = fields["extra_keys"].as_array().map(|blocks| blocks.iter().map(|keys| list(keys, extra_key)).collect());
    let objects =
        fields["block_mm_infos"].as_array().map(|blocks| blocks.iter().map(|info| list(&info["mm_objects"], object)).collect());
    Stored {
        hashes: list(&fields["block_hashes"], hash),
        parent: Some(&fields["parent_block_hash"]).filter(|parent| !parent.is_null()).map(hash),
        tokens: tokens(&fields["token_ids"]),
        block_size: u32_of(&fields["block_size"]),
        lora_id: fields["lora_id"].as_i64(),
        lora_name: text(&fields["lora_name"]),
        cache_salt: text(&fields["cache_salt"]),
        extra_keys: extra_keys.or(objects),
        medium: text(&fields["medium"]),
        group: option_u32(&fields["group_idx"]),
        kind: text(&fields["kv_cache_spec_kind"]),
        window: option_u32(&fields["kv_cache_spec_sliding_window"]),
        locality: text(&fields["locality"]),
        ownership: text(&fields["ownership"]),
        lookahead: fields["lookahead_token_ids"].as_array().map(|blocks| blocks.iter().map(|ids| list(ids, u32_of)).collect()),
        ..Stored::default()
    }
}

fn removed(fields: &Value) -> Removed {
    Removed {
        hashes: list(&fields["block_hashes"], hash),
        medium: text(&fields["medium"]),
        group: option_u32(&fields["group_idx"]),
        locality: text(&fields["locality"]),
        ownership: text(&fields["ownership"]),
    }
}

fn tokens(ids: &Value) -> Tokens {
    if ids[0].is_array() {
        return Tokens::Bigrams(list(ids, |pair| [u32_of(&pair[0]), u32_of(&pair[1])]));
    }
    Tokens::Ids(list(ids, u32_of))
}

fn hash(value: &Value) -> EngineHash {
    match value {
        Value::Object(bytes) => EngineHash::Digest(from_hex(bytes["$bytes"].as_str().expect("hex")).into()),
        _ => value.as_i64().map_or_else(|| EngineHash::from(number(value)), EngineHash::from),
    }
}

fn extra_key(value: &Value) -> ExtraKey {
    match value {
        Value::String(key) => ExtraKey::Text(key.clone()),
        Value::Array(item) => ExtraKey::Item { id: text(&item[0]).expect("an id"), offset: item[1].as_i64().expect("an offset") },
        _ => ExtraKey::Bytes(from_hex(value["$bytes"].as_str().expect("hex"))),
    }
}

fn object(object: &Value) -> ExtraKey {
    ExtraKey::Item { id: format!("{:016x}", number(&object["mm_hash"])), offset: object["offsets"][0][0].as_i64().unwrap_or(0) }
}

fn list<T>(values: &Value, read: impl Fn(&Value) -> T) -> Vec<T> {
    values.as_array().into_iter().flatten().map(read).collect()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("expected a number of 64 bits, got {value}"))
}

fn u32_of(value: &Value) -> u32 {
    number(value).try_into().expect("a number of 32 bits")
}

fn option_u32(value: &Value) -> Option<u32> {
    value.as_u64().map(|number| number.try_into().expect("a number of 32 bits"))
}

/// The inverse of reading extra keys, for keys that vLLM sends.
pub(crate) fn extra_keys_as_json(blocks: Option<&Vec<Vec<ExtraKey>>>) -> Value {
    let key = |key: &ExtraKey| match key {
        ExtraKey::Text(text) => Value::from(text.clone()),
        ExtraKey::Item { id, offset } => Value::from(vec![Value::from(id.clone()), Value::from(*offset)]),
        other => panic!("{other:?} is not in the vectors"),
    };
    let block = |keys: &Vec<ExtraKey>| if keys.is_empty() { Value::Null } else { keys.iter().map(key).collect() };
    blocks.map(|blocks| blocks.iter().map(block).collect()).unwrap_or_default()
}
