//! Every capture decodes to what its engine says it published.

use std::collections::BTreeSet;

use kv_events::wire::decode_batch;
use kv_events::wire::frame::{self, Message, ReplayAnswer};
use kv_events::{Batch, EngineHash, Event, Layout, Loss, Losses};
use serde_json::Value;

use crate::capture::{self, Capture, Recorded, from_hex};
use crate::told::{self, Told};

#[test]
fn live_batches_are_what_was_published() {
    let mut compared = 0;
    for capture in capture::all() {
        let told = told::batches(capture);
        for recorded in capture.live() {
            let message = frame::live(&recorded.frames).expect("a live message");
            let batch = decode_batch(message.payload);
            let told = told.get(&(recorded.port, message.sequence)).or_else(|| told.get(&(0, message.sequence)));
            let told = told.unwrap_or_else(|| panic!("{}: sequence {} is not told", capture.name, message.sequence));
            assert_same(&batch, told, &format!("{} sequence {}", capture.name, message.sequence));
            compared += 1;
        }
    }
    println!("{compared} live batches compared");
    assert!(compared > 300);
}

#[test]
fn replays_repeat_the_live_payloads_and_end() {
    for capture in capture::all() {
        let live: BTreeSet<_> = capture.live().map(|recorded| &recorded.frames[recorded.frames.len() - 2..]).collect();
        for recorded in capture.messages.iter().filter(|message| message.kind == "replay-response") {
            let Some(message) = replayed(recorded) else { continue };
            assert!(decode_batch(message.payload).losses.iter().all(|(loss, _)| loss == Loss::UnknownType), "{}", capture.name);
            let repeated = live.contains(&recorded.frames[recorded.frames.len() - 2..]);
            assert!(repeated || missed_live(capture, message.sequence), "{} sequence {}", capture.name, message.sequence);
        }
        let ends = capture.messages.iter().filter(|message| message.kind == "replay-response" && replayed(message).is_none());
        assert!(ends.count() > 0 || capture.messages.iter().all(|message| message.kind != "replay-response"), "{}", capture.name);
    }
}

#[test]
fn requests_are_encoded_as_recorded() {
    let mut seen = 0;
    for recorded in capture::all().iter().flat_map(|capture| &capture.messages).filter(|message| message.kind == "replay-request")
    {
        if let [delimiter, start] = &recorded.frames[..]
            && let Ok(start) = <[u8; 8]>::try_from(&start[..])
        {
            assert_eq!(frame::replay_request(u64::from_be_bytes(start)), [delimiter.clone(), start.to_vec()]);
            seen += 1;
        }
    }
    assert!(seen > 20);
}

#[test]
fn array_lengths_tell_the_versions() {
    for capture in capture::all().iter().filter(|capture| !capture.name.ends_with("future")) {
        let layouts: BTreeSet<_> = capture.live().flat_map(|recorded| layouts(&decode_batch(&recorded.frames[2]))).collect();
        let expected = layout_of(&capture.name);
        assert!(layouts.iter().all(|layout| *layout == expected), "{}: {layouts:?}, expected {expected}", capture.name);
    }
}

#[test]
fn payloads_of_the_release_encoder_decode_as_expected() {
    let file = include_str!("../data/payloads/vllm_kv_event_payloads.json");
    let file: Value = serde_json::from_str(file).expect("JSON");
    for payload in file["payloads"].as_array().expect("payloads") {
        let name = payload["name"].as_str().expect("a name");
        let batch = decode_batch(&from_hex(payload["hex"].as_str().expect("hex")));
        let expected = file["decode_expect"][name].as_object().unwrap_or_else(|| panic!("{name} is not expected"));
        assert_eq!(batch.losses, Losses::default(), "{name}");
        // The model has no session: it says who asked, not what is cached.
        for (field, value) in expected.iter().filter(|(field, _)| *field != "session_id") {
            assert_eq!(observed(&batch, field), *value, "{name} {field}");
        }
    }
}

fn assert_same(batch: &Batch, told: &Told, place: &str) {
    let mut losses = Losses::default();
    losses.add_many(Loss::UnknownType, told.unknown);
    assert_eq!(batch.losses, losses, "{place}");
    assert_eq!(batch.rank, told.rank, "{place}");
    // serde_json reads decimals to within a unit in the last place.
    assert!((batch.timestamp_s - told.timestamp_s).abs() < 1e-6, "{place}");
    assert_eq!(batch.events.len(), told.events.len(), "{place}");
    for (event, told) in batch.events.iter().zip(&told.events) {
        assert_eq!(without_layout(event.clone()), *told, "{place}");
    }
}

fn without_layout(mut event: Event) -> Event {
    if let Event::Stored(stored) = &mut event {
        stored.layout = Layout::default();
    }
    event
}

/// A replay's batch, or nothing for its end.
fn replayed(recorded: &Recorded) -> Option<Message<'_>> {
    let answer = match &recorded.socket[..] {
        "req" => frame::replayed_to_req(&recorded.frames),
        _ => frame::replayed_to_dealer(&recorded.frames),
    };
    match answer.expect("a replay's answer") {
        ReplayAnswer::Batch(message) => Some(message),
        ReplayAnswer::End => None,
    }
}

/// Whether the recording has no live message of this sequence.
fn missed_live(capture: &Capture, sequence: u64) -> bool {
    capture.live().all(|recorded| frame::live(&recorded.frames).expect("a live message").sequence != sequence)
}

fn layouts(batch: &Batch) -> Vec<String> {
    let stores = batch.events.iter().filter_map(|event| match event {
        Event::Stored(stored) => Some(format!("{:?}", stored.layout)),
        _ => None,
    });
    stores.collect()
}

/// The layout of the release that a capture's name names.
fn layout_of(name: &str) -> String {
    let version = name.split('-').find(|part| part.starts_with("0.") || part.starts_with("1.")).expect("a version");
    let numbers: Vec<u32> = version.split('.').filter_map(|number| number.parse().ok()).collect();
    let slots = match (name.split('-').next(), &numbers[..]) {
        (Some("tokenspeed"), _) => 5,
        (Some("vllm"), [0, 9, ..]) | (Some("sglang"), [0, 4, ..] | [0, 5, 0..=5]) => 6,
        (Some("vllm"), [0, 11, ..]) | (Some("sglang"), [0, 5, 9..=17]) => 7,
        (Some("vllm"), [0, 17, ..]) => 9,
        (Some("vllm"), [0, 22, ..]) => 12,
        _ => return "Map".to_owned(),
    };
    format!("Array({slots})")
}

/// What the batch's first event has for a field of the vectors' `decode_expect`.
fn observed(batch: &Batch, field: &str) -> Value {
    match (field, batch.events.first()) {
        ("dp_rank", _) => batch.rank.into(),
        ("events", None) => 0.into(),
        (_, Some(Event::Stored(stored))) => match field {
            "low64" | "hashes" => names(&stored.hashes),
            "parent" => stored.parent.as_ref().map(|parent| parent.name().0).into(),
            "lora_name" => stored.lora_name.clone().into(),
            "group_idx" => stored.group.into(),
            "kind" => stored.kind.clone().into(),
            "window" => stored.window.into(),
            "token_ids" if stored.tokens.is_empty() => Value::Array(Vec::new()),
            "block_size" => stored.block_size.into(),
            "medium" => stored.medium.clone().into(),
            "locality" => stored.locality.clone().into(),
            "ownership" => stored.ownership.clone().into(),
            "extra_keys" => told::extra_keys_as_json(stored.extra_keys.as_ref()),
            _ => panic!("{field} of a store"),
        },
        (_, Some(Event::Removed(removed))) => match field {
            "low64" => names(&removed.hashes),
            "group_idx" => removed.group.into(),
            "medium" => removed.medium.clone().into(),
            _ => panic!("{field} of a removal"),
        },
        _ => panic!("{field} of {batch:?}"),
    }
}

fn names(hashes: &[EngineHash]) -> Value {
    hashes.iter().map(|hash| hash.name().0).collect()
}
