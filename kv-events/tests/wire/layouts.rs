//! Each layout's corners, in events written as JSON and packed here.
#![expect(clippy::needless_pass_by_value, reason = "events are literals, which read better without a reference in front")]

use kv_events::limits::TEXT_BYTES_MAX;
use kv_events::wire::decode_batch;
use kv_events::{Batch, Event, ExtraKey, Layout, Loss, Removed, Stored, Tokens};
use rmp::encode::{write_array_len, write_bool, write_f64, write_map_len, write_nil, write_sint, write_str, write_uint};
use serde_json::{Value, json};

/// The batch of rank 3 that holds these events.
fn decode(events: Value) -> Batch {
    let mut payload = Vec::new();
    pack(&mut payload, &json!([1.5, events, 3]));
    let batch = decode_batch(&payload);
    assert_eq!(batch.rank, Some(3), "no event costs what follows it");
    batch
}

fn pack(out: &mut Vec<u8>, value: &Value) {
    let len = |len: usize| u32::try_from(len).expect("a short list");
    match value {
        Value::Null => write_nil(out).expect("memory"),
        Value::Bool(value) => write_bool(out, *value).expect("memory"),
        Value::String(value) => write_str(out, value).expect("memory"),
        Value::Number(value) if value.is_u64() => drop(write_uint(out, value.as_u64().expect("an integer"))),
        Value::Number(value) if value.is_i64() => drop(write_sint(out, value.as_i64().expect("an integer"))),
        Value::Number(value) => write_f64(out, value.as_f64().expect("a number")).expect("memory"),
        Value::Array(items) => {
            drop(write_array_len(out, len(items.len())));
            items.iter().for_each(|item| pack(out, item));
        }
        Value::Object(pairs) => {
            drop(write_map_len(out, len(pairs.len())));
            pairs.iter().for_each(|(key, value)| {
                write_str(out, key).expect("memory");
                pack(out, value);
            });
        }
    }
}

/// The one event of a batch without losses.
fn one(event: Value) -> Event {
    let batch = decode(Value::Array(vec![event]));
    assert_eq!((batch.events.len(), batch.losses.total()), (1, 0), "{batch:?}");
    batch.events.into_iter().next().expect("one event")
}

fn one_store(event: Value) -> Stored {
    let Event::Stored(stored) = one(event) else { panic!("a store") };
    *stored
}

/// The one reason why the event between two good ones was lost.
fn loss(event: Value) -> Loss {
    let good = json!(["BlockRemoved", [1]]);
    let batch = decode(Value::Array(vec![good.clone(), event.clone(), good]));
    assert_eq!((batch.events.len(), batch.losses.total()), (2, 1), "{event}");
    batch.losses.iter().next().expect("one loss").0
}

/// A store of a tag-first array whose slots from the medium on are these.
fn store_array(rest: Value) -> Value {
    let mut slots = vec![json!("BlockStored"), json!([7]), Value::Null, json!([1, 2]), json!(2), Value::Null];
    slots.extend(rest.as_array().expect("slots").iter().cloned());
    Value::Array(slots)
}

/// A store of a map with these keys besides the required ones.
fn store_map(rest: Value) -> Value {
    let mut event = json!({"type": "BlockStored", "block_hashes": [7], "token_ids": [1, 2], "block_size": 2});
    event.as_object_mut().expect("a map").extend(rest.as_object().expect("a map").clone());
    event
}

#[test]
fn the_shortest_store_has_five_slots() {
    let stored = one_store(json!(["BlockStored", [7], 6, [1, 2], 2]));
    let expected = Stored {
        hashes: vec![7_u64.into()],
        parent: Some(6_u64.into()),
        tokens: Tokens::Ids(vec![1, 2]),
        block_size: 2,
        layout: Layout::Array(5),
        ..Stored::default()
    };
    assert_eq!(stored, expected);
    assert_eq!(loss(json!(["BlockStored", [7], 6, [1, 2]])), Loss::Malformed);
}

// P23.
#[test]
fn the_slot_after_the_medium_is_told_by_its_family() {
    let name = one_store(store_array(json!(["GPU", "ad1", [["ad1", "salt"]]])));
    assert_eq!((name.lora_name.as_deref(), name.extra_keys.map(|keys| keys.len())), (Some("ad1"), Some(1)));
    let salt =
        one_store(store_array(json!(["GPU", {"session_id": "s", "cache_salt": "tenant-A"}, "what follows is not vLLM's"])));
    assert_eq!((salt.cache_salt.as_deref(), salt.lora_name, salt.layout), (Some("tenant-A"), None, Layout::Array(9)));
    let labels = one_store(store_array(json!(["GPU", ["full", "swa"]])));
    assert_eq!((labels.components, labels.lora_name), (vec!["full".to_owned(), "swa".to_owned()], None));
    assert_eq!(one_store(store_array(json!(["GPU", {"cache_salt": null}]))).cache_salt, None);
    assert_eq!(loss(store_array(json!(["GPU", {"cache_salt": 5}]))), Loss::Malformed);
}

#[test]
fn a_slot_of_another_family_starts_fields_that_we_do_not_know() {
    let plain = one_store(store_array(json!(["GPU"])));
    for foreign in [json!([{"x": 1}]), json!([[1, [2, null]], "no LoRA"]), json!([null, "text", 4]), json!([null, null, 1.5])] {
        let mut slots = vec![json!("GPU")];
        slots.extend(foreign.as_array().expect("slots").iter().cloned());
        let stored = one_store(store_array(Value::Array(slots)));
        assert_eq!(Stored { layout: plain.layout, ..stored }, plain, "{foreign}");
    }
    let removed = Removed { hashes: vec![7_u64.into()], medium: Some("CPU".into()), ..Removed::default() };
    assert_eq!(one(json!(["BlockRemoved", [7], "CPU", "no group", "LOCAL"])), Event::Removed(removed));
}

#[test]
fn a_field_of_its_family_that_cannot_be_read_costs_its_event() {
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    for group in [json!(-1), json!(1_u64 << 32)] {
        assert_eq!(loss(store_array(json!(["GPU", null, null, group]))), Loss::Malformed);
    }
    assert_eq!(loss(store_array(json!([long]))), Loss::Malformed);
    assert_eq!(loss(store_array(json!(["GPU", null, [["key"], 5]]))), Loss::Malformed);
    for (key, value) in [
        ("medium", json!(5)),
        ("lora_id", json!("1")),
        ("lora_name", json!(["ad1"])),
        ("cache_salt", json!(5)),
        ("extra_keys", json!("key")),
        ("group_idx", json!(1.5)),
        ("kv_cache_spec_sliding_window", json!(-4)),
        ("lookahead_token_ids", json!([[1], 2])),
        ("component_types", json!("full")),
        ("parent_block_hash", json!("no hex")),
        ("ownership", json!(long)),
    ] {
        assert_eq!(loss(store_map(json!({key: value}))), Loss::Malformed, "{key}");
    }
}

#[test]
fn a_required_field_that_is_missing_or_null_costs_its_event() {
    for key in ["block_hashes", "token_ids", "block_size"] {
        assert_eq!(loss(store_map(json!({key: null}))), Loss::Malformed, "{key}");
        let mut event = store_map(json!({}));
        event.as_object_mut().expect("a map").remove(key);
        assert_eq!(loss(event), Loss::Malformed, "{key}");
    }
    assert_eq!(loss(json!({"type": "BlockRemoved", "medium": "GPU"})), Loss::Malformed);
    assert_eq!(loss(json!(["BlockRemoved"])), Loss::Malformed);
    assert_eq!(loss(store_map(json!({"block_size": -1}))), Loss::Malformed);
    assert_eq!(loss(store_map(json!({"token_ids": [1, [1, 2]]}))), Loss::Malformed);
    assert_eq!(loss(store_map(json!({"block_hashes": [1.5]}))), Loss::Malformed);
}

#[test]
fn what_has_no_tag_is_malformed_and_what_has_another_is_unknown() {
    for event in [
        json!(null),
        json!(5),
        json!("BlockStored"),
        json!([]),
        json!({}),
        json!([5]),
        json!({"type": 5}),
        json!({"tag": "BlockStored"}),
    ] {
        assert_eq!(loss(event), Loss::Malformed);
    }
    for event in [
        json!(["Heartbeat", 5]),
        json!({"type": "Heartbeat"}),
        json!({"type": "BlockMoved", "block_hashes": 5}),
        json!(["blockstored"]),
    ] {
        assert_eq!(loss(event), Loss::UnknownType);
    }
}

#[test]
fn nulls_and_unknown_keys_in_maps_are_absent() {
    let optional = [
        "parent_block_hash",
        "lora_id",
        "medium",
        "lora_name",
        "cache_salt",
        "extra_keys",
        "group_idx",
        "kv_cache_spec_kind",
        "kv_cache_spec_sliding_window",
        "locality",
        "ownership",
        "lookahead_token_ids",
        "component_types",
        "block_mm_infos",
    ];
    let nulls: Value = optional.iter().map(|key| ((*key).to_owned(), Value::Null)).collect::<serde_json::Map<_, _>>().into();
    assert_eq!(one_store(store_map(nulls)), one_store(store_map(json!({}))));
    let unknown = one_store(store_map(json!({"session_id": "s-1", "future": {"x": [1, {"y": null}]}})));
    assert_eq!(unknown, one_store(store_map(json!({}))));
    let removed = one(json!({"type": "BlockRemoved", "block_hashes": [7], "token_ids": "of no removal"}));
    assert_eq!(removed, Event::Removed(Removed { hashes: vec![7_u64.into()], ..Removed::default() }));
}

#[test]
fn keys_may_be_bytes_or_no_texts_at_all() {
    let mut payload =
        b"\x93\x01\x91\x84\x05\x06\xc4\x04type\xc4\x0cBlockRemoved\x91\x01\x02\xc4\x0cblock_hashes\x91\x07\x03".to_vec();
    let removed = Event::Removed(Removed { hashes: vec![7_u64.into()], ..Removed::default() });
    assert_eq!(decode_batch(&payload).events, [removed]);
    payload[7] = 0xc1;
    assert_eq!(decode_batch(&payload).losses.count(Loss::Malformed), 1, "no value: the end of the event cannot be found");
}

#[test]
fn clears_may_be_an_owners() {
    for event in
        [json!(["AllBlocksCleared"]), json!({"type": "AllBlocksCleared", "ownership": null}), json!(["AllBlocksCleared", null])]
    {
        assert!(decode(json!([event])).clears());
    }
    for event in [json!(["AllBlocksCleared", "kvcr"]), json!({"type": "AllBlocksCleared", "ownership": "kvcr"})] {
        let batch = decode(json!([event]));
        assert_eq!((batch.clears(), batch.events.len()), (false, 1));
    }
}

#[test]
fn dynamos_multimodal_objects_are_items() {
    let infos = json!([null, {"mm_objects": [{"mm_hash": 255, "offsets": [[4, 9], [12, 13]], "more": 1}, {"mm_hash": u64::MAX, "offsets": []}], "x": 1}]);
    let item = |id: &str, offset| ExtraKey::Item { id: id.to_owned(), offset };
    let expected = vec![vec![], vec![item("00000000000000ff", 4), item("ffffffffffffffff", 0)]];
    assert_eq!(one_store(store_map(json!({"block_mm_infos": infos}))).extra_keys, Some(expected));
    assert_eq!(loss(store_map(json!({"block_mm_infos": [{"mm_objects": [{"offsets": []}]}]}))), Loss::Malformed);
}
