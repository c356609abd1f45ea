//! TensorRT-LLM's JSON, as its serializer writes it, against what Dynamo's publisher makes of the same events.

use kv_events::wire::decode_batch;
use kv_events::wire::trtllm::{Decoder, Drain, decode_json};
use kv_events::{Event, ExtraKey, Layout, Loss, Removed, Stored, Tokens};
use serde_json::json;

use crate::capture;

fn recorded() -> Drain {
    let told = &dynamo().told["trtllm_events"];
    decode_json(told.to_string().as_bytes())
}

fn dynamo() -> &'static capture::Capture {
    capture::named("dynamo")
}

fn events(drain: &Drain, event_id: u64) -> &[Event] {
    &drain.updates.iter().find(|update| update.event_id == event_id).expect("an event of this id").batch.events
}

fn store() -> Stored {
    Stored {
        block_size: 4,
        medium: Some("GPU".into()),
        group: Some(32768),
        kind: Some("full_attention".into()),
        layout: Layout::Json,
        ..Stored::default()
    }
}

fn removal(hash: u64, medium: &str) -> Event {
    Event::Removed(Removed { hashes: vec![hash.into()], medium: Some(medium.into()), group: Some(32768), ..Removed::default() })
}

#[test]
fn every_recorded_event_is_an_update_of_its_id() {
    let drain = recorded();
    assert_eq!(drain.losses.total() + drain.updates.iter().map(|update| update.batch.losses.total()).sum::<u64>(), 0);
    let ids: Vec<_> = drain.updates.iter().map(|update| update.event_id).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6, 7, 9]);
    let created: Vec<_> = drain.updates.iter().filter_map(|update| Some((update.window?, update.created.clone()?))).collect();
    assert_eq!(created, [(128, vec![100, 0]), (32768, vec![100, 50])]);
    assert_eq!(drain.updates[6].batch.rank, Some(1));
}

#[test]
fn stores_keep_hashes_beyond_2_pow_53_and_name_their_window() {
    let drain = recorded();
    let (first, second) = (4_203_099_703_668_305_365_u64, 9_622_824_665_191_806_685_u64);
    let both = Stored { hashes: vec![first.into(), second.into()], tokens: Tokens::Ids((1..=8).collect()), ..store() };
    assert_eq!(events(&drain, 2), [Event::from(both)]);
    let windowed = Stored {
        hashes: vec![first.into()],
        tokens: Tokens::Ids((1..=4).collect()),
        group: Some(128),
        kind: Some("sliding_window".into()),
        window: Some(128),
        ..store()
    };
    assert_eq!(events(&drain, 3), [Event::from(windowed)]);
}

#[test]
fn salts_and_partial_tails_are_stores_of_their_own() {
    let salted = Stored {
        hashes: vec![777_u64.into()],
        parent: Some(9_622_824_665_191_806_685_u64.into()),
        tokens: Tokens::Ids((9..=12).collect()),
        cache_salt: Some("tenant-A".into()),
        ..store()
    };
    let tail =
        Stored { hashes: vec![778_u64.into()], parent: Some(777_u64.into()), tokens: Tokens::Ids(vec![13, 14]), ..store() };
    assert_eq!(events(&recorded(), 4), [Event::from(salted), Event::from(tail)]);
}

#[test]
fn adapters_and_multimodal_keys_are_kept() {
    let drain = recorded();
    let [Event::Stored(stored)] = events(&drain, 5) else { panic!("one store") };
    let id = "00000000000000ffabababababababababababababababababababababababab".to_owned();
    assert_eq!(stored.lora_name.as_deref(), Some("ad1"));
    assert_eq!(stored.extra_keys, Some(vec![vec![ExtraKey::Item { id, offset: 2 }]]));
}

#[test]
fn a_block_that_changes_its_level_arrives_before_it_leaves_and_is_removed_from_where_it_is() {
    let drain = recorded();
    let arrived = Stored {
        hashes: vec![777_u64.into()],
        medium: Some("CPU".into()),
        group: Some(32768),
        layout: Layout::Json,
        ..Stored::default()
    };
    assert_eq!(events(&drain, 7), [Event::from(arrived), removal(777, "GPU")]);
    let Event::Removed(mut from_gpu) = removal(778, "GPU") else { panic!("a removal") };
    from_gpu.hashes.push(9_622_824_665_191_806_685_u64.into());
    assert_eq!(events(&drain, 9), [Event::Removed(from_gpu), removal(777, "CPU")]);
}

#[test]
fn dynamo_publishes_the_same_whole_blocks() {
    let batches: Vec<_> = dynamo().live().map(|recorded| decode_batch(&recorded.frames[2])).collect();
    let published = batches.iter().flat_map(|batch| &batch.events).filter_map(in_common);
    let drain = recorded();
    let ours = drain.updates.iter().filter(|update| update.window == Some(32768)).flat_map(|update| &update.batch.events);
    assert_eq!(ours.filter_map(in_common).collect::<Vec<_>>(), published.collect::<Vec<_>>());
}

/// What both say of a whole block's store.
fn in_common(event: &Event) -> Option<impl PartialEq + std::fmt::Debug> {
    let Event::Stored(stored) = event else { return None };
    let names: Vec<_> = stored.hashes.iter().map(kv_events::EngineHash::name).collect();
    let parent = stored.parent.as_ref().map(kv_events::EngineHash::name);
    let whole = stored.tokens.len() == names.len() * stored.block_size as usize && !stored.tokens.is_empty();
    whole.then(|| (names, parent, stored.tokens.clone(), stored.block_size, stored.lora_name.clone(), stored.cache_salt.clone()))
}

fn block(hash: u64, tokens: &[u32]) -> serde_json::Value {
    let tokens: Vec<_> = tokens.iter().map(|id| json!({"type": "unique_token", "token_id": id, "token_extra_id": 0})).collect();
    json!({"type": "stored_block", "block_hash": hash, "tokens": tokens, "cache_level": 0, "priority": 35})
}

fn stored(event_id: u64, blocks: &[serde_json::Value]) -> serde_json::Value {
    json!({"event_id": event_id, "window_size": 32768, "data": {"type": "stored", "parent_hash": null, "blocks": blocks}})
}

fn decode(decoder: &mut Decoder, events: &[serde_json::Value]) -> Drain {
    decoder.decode(serde_json::Value::from(events).to_string().as_bytes())
}

#[test]
fn a_bad_event_keeps_its_id_and_costs_no_other() {
    let bad = [
        json!({"event_id": 1, "data": {"type": "moved"}}),
        json!({"event_id": 2, "data": {"type": "removed", "block_hashes": [1.5]}}),
        json!({"event_id": 3, "data": {"type": "stored", "blocks": [block(1, &[1]), {"block_hash": "no hex", "tokens": []}]}}),
        json!({"event_id": 4}),
        json!({"event_id": 5, "data": {"type": "removed", "block_hashes": [-1]}}),
    ];
    let drain = decode(&mut Decoder::default(), &bad);
    let losses: Vec<_> = drain.updates.iter().map(|update| update.batch.losses.iter().collect::<Vec<_>>()).collect();
    let malformed = vec![(Loss::Malformed, 1)];
    assert_eq!(losses, [vec![(Loss::UnknownType, 1)], malformed.clone(), malformed.clone(), malformed, vec![]]);
    let Event::Removed(removed) = &drain.updates[4].batch.events[0] else { panic!("a removal") };
    assert_eq!(removed.hashes, [u64::MAX.into()]);
}

#[test]
fn what_has_no_id_or_no_array_is_counted_by_the_drain() {
    let losses = |text: &str| decode_json(text.as_bytes()).losses.iter().collect::<Vec<_>>();
    assert_eq!(losses("[]"), []);
    for text in ["", "{}", "null", "5"] {
        assert_eq!(losses(text), [(Loss::UnreadablePayload, 1)], "{text:?}");
    }
    assert_eq!(losses(r#"[{"data": 1}, 5]"#), [(Loss::Malformed, 2)]);
    let broken_off = decode_json(br#"[{"event_id": 7, "data": {"type": "removed", "block_hashes": [1]}}, {"event"#);
    assert_eq!((broken_off.updates.len(), broken_off.losses.count(Loss::Malformed)), (1, 1));
}

#[test]
fn nesting_costs_its_event_only() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let text = format!(
        r#"[{{"event_id": 0, "data": {deep}}}, {{"event_id": 1, "x": {deep}, "data": {{"type": "removed", "block_hashes": [1]}}}}]"#
    );
    let drain = decode_json(text.as_bytes());
    assert_eq!(drain.updates.len(), 2);
    assert_eq!(drain.updates[0].batch.losses.count(Loss::Malformed), 1);
    assert_eq!(drain.updates[1].batch.events.len(), 1);
}

#[test]
fn hexadecimal_hashes_and_digests_as_tokens_are_of_the_second_cache_manager() {
    let blocks = [json!({"block_hash": "ff00000000000000000000000000000001", "cache_level": 0, "tokens": [
        {"token_id": 1}, {"token_id": "abc"}, {"token_id": "abc"}, {"token_id": 4}]})];
    let mut event = stored(0, &blocks);
    event["layer_group_id"] = 3.into();
    let drain = decode(&mut Decoder::default(), &[event]);
    let [Event::Stored(stored)] = events(&drain, 0) else { panic!("one store") };
    assert_eq!((stored.hashes[0].name().0, stored.group), (1, Some(3)));
    assert_eq!(stored.tokens, Tokens::Ids(vec![1, 0, 0, 4]));
    assert_eq!(stored.extra_keys, Some(vec![vec![ExtraKey::Item { id: "abc".into(), offset: 1 }]]));
}

#[test]
fn a_known_block_size_makes_a_lone_tail_partial_and_a_new_pool_forgets_levels() {
    let mut decoder = Decoder::with_block_size(4);
    let moved = json!({"event_id": 1, "window_size": 32768, "data": {"type": "updated", "block_hash": 5, "priority": {"old_value": 1, "new_value": 2},
        "cache_level": {"type": "event_diff", "new_value": 1, "old_value": 0}}});
    let drain = decode(&mut decoder, &[stored(0, &[block(5, &[1, 2])]), moved]);
    let [Event::Stored(tail)] = events(&drain, 0) else { panic!("one store") };
    assert_eq!((tail.block_size, tail.tokens.len()), (4, 2));
    let created = json!({"event_id": 0, "window_size": 32768, "data": {"type": "created", "num_blocks_per_cache_level": [9]}});
    let removed = json!({"event_id": 1, "window_size": 32768, "data": {"type": "removed", "block_hashes": [5]}});
    assert_eq!(events(&decode(&mut decoder, &[created, removed]), 1), [removal(5, "GPU")]);
}

#[test]
fn a_change_of_priority_alone_is_no_event() {
    let updated = json!({"event_id": 1, "data": {"type": "updated", "block_hash": 5, "cache_level": null}});
    let drain = decode(&mut Decoder::default(), &[updated]);
    assert_eq!((drain.updates[0].batch.events.len(), drain.updates[0].batch.losses.total()), (0, 0));
}
