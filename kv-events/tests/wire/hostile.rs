//! Payloads that no engine sends: damaged captures, and claims that nothing backs.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::Mutex;

use kv_events::limits::ALLOCATION_FACTOR;
use kv_events::wire::decode_batch;
use kv_events::wire::trtllm::decode_json;
use kv_events::{Batch, Loss};
use proptest::prelude::*;

use crate::allocator::peak_bytes;
use crate::capture;

/// Decodes within the stated memory.
fn decode(payload: &[u8]) -> Batch {
    let (batch, peak) = peak_bytes(|| decode_batch(payload));
    assert!(peak <= ALLOCATION_FACTOR * payload.len(), "{peak} bytes for a payload of {}", payload.len());
    batch
}

fn decode_text(text: &[u8]) {
    let (_, peak) = peak_bytes(|| decode_json(text));
    assert!(peak <= ALLOCATION_FACTOR * text.len() + JSON_BYTES, "{peak} bytes for a text of {}", text.len());
}

fn payloads() -> BTreeSet<Vec<u8>> {
    capture::all().iter().flat_map(capture::Capture::live).map(|recorded| recorded.frames[2].clone()).collect()
}

/// Runs `check` for every capture's payload, on all cores.
fn for_every_payload(check: impl Fn(Vec<u8>) + Sync) {
    let payloads = Mutex::new(payloads().into_iter());
    let next = || payloads.lock().expect("no check panics while it takes one").next();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| std::iter::from_fn(next).for_each(&check));
        }
    });
}

#[test]
fn a_truncated_capture_keeps_what_was_whole_and_counts_the_rest_once() {
    for_every_payload(|payload| {
        let whole = decode(&payload);
        for len in 0..payload.len() {
            let cut = decode(&payload[..len]);
            assert_eq!(cut.events[..], whole.events[..cut.events.len()]);
            let cause = cut.losses.count(Loss::UnreadablePayload) + cut.losses.count(Loss::Malformed);
            assert_eq!(cause, 1, "cut at {len} of {}", payload.len());
            assert!(cut.losses.total() <= 1 + whole.losses.total());
        }
    });
}

/// Decodes `payload` with every byte changed to each of the values that `others` gives for its place and value.
fn decode_changed<I: IntoIterator<Item = u8>>(mut payload: Vec<u8>, decode: impl Fn(&[u8]), others: impl Fn(usize, u8) -> I) {
    for at in 0..payload.len() {
        let byte = payload[at];
        for other in others(at, byte) {
            payload[at] = other;
            decode(&payload);
        }
        payload[at] = byte;
    }
}

#[test]
fn a_capture_with_any_byte_changed_is_decoded_within_the_stated_memory() {
    let one_of_seven = |at, byte| [[byte ^ 0x01, byte ^ 0x80, byte ^ 0xff, NIL, ARRAY32, MAP32, BIN32][at % 7]];
    for_every_payload(|payload| decode_changed(payload, |changed| drop(decode(changed)), one_of_seven));
}

#[test]
#[ignore = "takes minutes with optimisation, and an hour without"]
fn a_capture_with_any_byte_changed_to_any_value_is_decoded_within_the_stated_memory() {
    for_every_payload(|payload| decode_changed(payload, |changed| drop(decode(changed)), |_, _| 0..=0xff));
}

#[test]
fn a_damaged_text_of_trtllm_is_decoded_within_the_stated_memory() {
    let text = capture::named("dynamo").told["trtllm_events"].to_string().into_bytes();
    (0..text.len()).for_each(|len| decode_text(&text[..len]));
    let one_of_six = |at, byte| [[byte ^ 0x01, byte ^ 0x80, b'0', b'"', b'[', b'}'][at % 6]];
    decode_changed(text, decode_text, one_of_six);
}

#[test]
fn lengths_that_nothing_backs_cost_nothing() {
    let max = [0xff; 4];
    let store = [&b"\x92\x01\x91\x96\xabBlockStored"[..]].concat();
    let hostile: [Vec<u8>; 9] = [
        [&[ARRAY32], &max[..]].concat(),
        [&b"\x92\x01"[..], &[ARRAY32], &max].concat(),
        [&b"\x92\x01\x91"[..], &[ARRAY32], &max].concat(),
        [&b"\x92\x01\x91"[..], &[MAP32, 0x80, 0, 0, 0]].concat(),
        [&b"\x92\x01\x91\x81\xa4type"[..], &[BIN32], &max].concat(),
        [&store[..], &[ARRAY32], &max].concat(),
        [&store[..], b"\x90\xc0", &[ARRAY32], &max].concat(),
        [&store[..], b"\x91", &[BIN32], &max].concat(),
        [&b"\x92\x01\x91\x82\xa4type\xabBlockStored\xaaextra_keys"[..], &[ARRAY32], &max].concat(),
    ];
    for payload in hostile {
        let batch = decode(&payload);
        assert_eq!((batch.events.len(), batch.losses.total()), (0, 1), "{payload:x?}");
    }
}

#[test]
fn nesting_costs_its_event_only() {
    const DEPTH: usize = 100_000;
    let mut bomb = vec![0x91; DEPTH];
    bomb.push(0xc0);
    let unknown = [&b"\x92\xa4Bomb"[..], &bomb].concat();
    let unknown_key = [&b"\x83\xa1x"[..], &bomb, b"\xa4type\xacBlockRemoved\xacblock_hashes\x91\x07"].concat();
    let wrong_field = [&b"\x93\xacBlockRemoved"[..], &bomb, b"\xc0"].concat();
    let batch =
        decode(&[&b"\x93\x01\x94"[..], &unknown, &unknown_key, &wrong_field, b"\x92\xacBlockRemoved\x91\x08", b"\x02"].concat());
    assert_eq!((batch.events.len(), batch.rank), (2, Some(2)));
    assert_eq!((batch.losses.count(Loss::UnknownType), batch.losses.count(Loss::Malformed), batch.losses.total()), (1, 1, 2));
}

#[test]
fn the_costliest_payloads_stay_within_the_stated_memory() {
    let removals = b"\x92\xacBlockRemoved\x90".repeat(0xffff);
    let batch = decode(&[&b"\x92\x01\xdc\xff\xff"[..], &removals].concat());
    assert_eq!(batch.events.len(), 0xffff);
    let keys = [
        &b"\x92\x01\x91\x84\xa4type\xabBlockStored\xacblock_hashes\x90\xa9token_ids\x90\xaaextra_keys\x91\xdc\xff\xff"[..],
        &vec![5; 0xffff],
    ];
    assert_eq!(decode(&keys.concat()).losses.count(Loss::Malformed), 1, "block_size is missing");
}

#[test]
fn the_costliest_texts_of_trtllm_stay_within_the_stated_memory() {
    let blocks = r#"{"block_hash":0,"tokens":[]},{"block_hash":1,"tokens":[],"cache_level":1},"#.repeat(1000);
    let moved = r#"{"event_id":0,"data":{"type":"updated","block_hash":0,"cache_level":{"old_value":0,"new_value":1}}},"#;
    for text in [
        format!(r#"[{{"event_id":0,"data":{{"type":"stored","blocks":[{}]}}}}]"#, blocks.trim_end_matches(',')),
        format!("[{}]", r#"{"event_id":0},"#.repeat(1000).trim_end_matches(',')),
        format!("[{}]", moved.repeat(1000).trim_end_matches(',')),
        "[0,".repeat(1000),
    ] {
        decode_text(text.as_bytes());
    }
}

#[test]
fn a_payload_over_the_limit_is_not_read() {
    let batch = decode_batch(&vec![0x90; kv_events::limits::PAYLOAD_BYTES_MAX + 1]);
    assert_eq!((batch.losses.count(Loss::OverLimit), batch.losses.total()), (1, 1));
    let drain = decode_json(&vec![b'['; kv_events::limits::PAYLOAD_BYTES_MAX + 1]);
    assert_eq!((drain.losses.count(Loss::OverLimit), drain.losses.total()), (1, 1));
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_a_batch(payload in proptest::collection::vec(any::<u8>(), 0..300)) {
        decode(&payload);
        decode_text(&payload);
    }

    #[test]
    fn arbitrary_bytes_after_a_batch_header_are_events(tail in proptest::collection::vec(any::<u8>(), 0..300), fixed in 0usize..4) {
        let heads = [&b"\x93\x01\xdc\x00\x40"[..], b"\x93\x01\x91\x9c\xabBlockStored", b"\x93\x01\x91\x8f\xa4type\xabBlockStored\xaaextra_keys",
            b"\x93\x01\x91\x8f\xa4type\xabBlockStored\xaeblock_mm_infos"];
        decode(&[heads[fixed], &tail].concat());
    }
}

/// Besides the multiple of the text: what the parser keeps for a message of an error, and first sizes of tables.
const JSON_BYTES: usize = 1024;

const NIL: u8 = 0xc0;
const ARRAY32: u8 = 0xdd;
const MAP32: u8 = 0xdf;
const BIN32: u8 = 0xc6;
