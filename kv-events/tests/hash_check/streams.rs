//! Whole captures of real engines, from their payloads.

use kv_events::engine_hash::vllm::{Algorithm, DEFAULT_SEED};
use kv_events::wire::decode_batch;
use kv_events::{HashCounts, Hashing, Stream, StreamOptions};
use kv_index::{Index, ReferenceIndex};

use crate::capture::{Capture, all, named};

/// What checking finds, by the port of each rank in turn.
fn checked(capture: &Capture, hashing: Hashing) -> Vec<HashCounts> {
    let mut ports: Vec<u64> = capture.live().map(|message| message.port).collect();
    ports.sort_unstable();
    ports.dedup();
    let index = ReferenceIndex::new();
    let check = |port: &u64| {
        let options = StreamOptions { hashing: Some(hashing), ..StreamOptions::default() };
        let mut stream = Stream::new(index.add_worker().unwrap(), options);
        let payloads = capture.live().filter(|message| message.port == *port);
        payloads.for_each(|message| stream.apply(&decode_batch(message.frames.last().unwrap())));
        *stream.hashes().unwrap()
    };
    ports.iter().map(check).collect()
}

fn vllm(algorithm: Algorithm, seed: &str) -> Hashing {
    Hashing::vllm(algorithm, seed).unwrap()
}

/// The seed of a capture, by its note.
fn seed_of(capture: &Capture) -> &'static str {
    if capture.told["note"].as_str().unwrap().contains("PYTHONHASHSEED=0") { "0" } else { DEFAULT_SEED }
}

#[test]
fn real_vllm_streams_match() {
    let mut matched = 0;
    for capture in all().iter().filter(|capture| capture.name.starts_with("vllm-cpu-real-")) {
        for counts in checked(capture, vllm(Algorithm::Sha256, seed_of(capture))) {
            println!("{}: {counts:?}", capture.name);
            // Its salted requests: no wire before 0.17 shows the salt, so their first blocks differ, and what follows is not known.
            let foreign = capture.name.contains("0.11.0-basic");
            assert_eq!(counts.mismatched > 0, foreign, "{}", capture.name);
            assert_eq!(counts.mismatched, counts.mismatched_roots);
            assert_eq!(counts.unverifiable > 0, foreign || capture.name.ends_with("-lora"), "{}", capture.name);
            matched += counts.matched;
        }
    }
    assert!(matched >= 500, "{matched}");
}

#[test]
fn real_sglang_streams_match() {
    let chained = |name: &str| name.contains("-tree-") || (name.starts_with("sglang-cpu-real-") && !name.contains("0.5.5"));
    let mut matched = 0;
    for capture in all().iter().filter(|capture| capture.name.starts_with("sglang-") && chained(&capture.name)) {
        for counts in checked(capture, Hashing::Sglang) {
            println!("{}: {counts:?}", capture.name);
            assert_eq!(counts.mismatched, 0, "{}", capture.name);
            assert_eq!(counts.unverifiable > 0, capture.name.contains("-lora-"), "{}", capture.name);
            matched += counts.matched;
        }
    }
    assert!(matched >= 180, "{matched}");
}

/// P22: a seed that differs is seen with the first block, and named.
#[test]
fn another_seed_or_algorithm_is_seen_at_the_first_block_and_named() {
    let capture = named("vllm-cpu-real-0.32.0-basic");
    let right = (Algorithm::Sha256, seed_of(capture));
    let actual = format!("vLLM's sha256, {}", if right.1 == "0" { "PYTHONHASHSEED=0" } else { "no PYTHONHASHSEED" });
    for wrong in
        [vllm(Algorithm::Sha256, "17"), vllm(Algorithm::Sha256Cbor, right.1), vllm(Algorithm::Xxhash, "0"), Hashing::Sglang]
    {
        let [counts] = checked(capture, wrong)[..] else { panic!("one rank") };
        assert_eq!((counts.matched, counts.mismatched), (0, counts.mismatched_roots), "{wrong:?}");
        assert!(counts.mismatched > 0);
        let first = counts.first.unwrap();
        assert!(first.is_root && first.expected != first.got);
        assert_eq!(first.actual, Some(actual.as_str()));
    }
}

/// SGLang before 0.5.6 hashes pages without a chain: nothing can be said, and nothing is called wrong.
#[test]
fn names_without_a_chain_are_unverifiable() {
    let [counts] = checked(named("sglang-cpu-real-0.5.5-basic"), Hashing::Sglang)[..] else { panic!("one rank") };
    assert!(counts.matched + counts.mismatched == 0 && counts.unverifiable > 0, "{counts:?}");
}
