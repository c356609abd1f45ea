//! Whole streams of real engines and of the radix caches: every hash that was announced, recomputed from its tokens.
//!
//! What the wire does not show cannot be checked: the path of a LoRA adapter, the extra key of an SGLang namespace, the
//! salt of a vLLM before 0.17.

use std::collections::HashMap;

use kv_events::engine_hash::vllm::{Algorithm, Block, DEFAULT_SEED, Digest, ExtraKey, KeyForm};
use kv_events::engine_hash::{sglang, tokenspeed};
use kv_events::wire::decode_batch;
use kv_events::{Event, Stored, Tokens};

use crate::capture::{Capture, all};

#[test]
fn vllm_streams() {
    let mut sum = Checked::default();
    for capture in all().iter().filter(|capture| capture.name.starts_with("vllm-cpu-real-")) {
        let checked = check_vllm(capture);
        println!("{}: {checked:?}", capture.name);
        // Its eight blocks of salted requests; the salt is on no wire before 0.17.
        let foreign = if capture.name.contains("0.11.0-basic") { 8 } else { 0 };
        assert_eq!(checked.foreign, foreign, "{}", capture.name);
        assert_eq!(checked.unverifiable > 0, capture.name.ends_with("-lora"), "{}", capture.name);
        sum.same += checked.same;
    }
    assert!(sum.same >= 500, "{sum:?}");
}

#[test]
fn sglang_streams() {
    let chained = |name: &str| name.contains("-tree-") || (name.starts_with("sglang-cpu-real-") && !name.contains("0.5.5"));
    let mut sum = Checked::default();
    for capture in all().iter().filter(|capture| capture.name.starts_with("sglang-") && chained(&capture.name)) {
        let checked = check_sglang(capture);
        println!("{}: {checked:?}", capture.name);
        assert_eq!(checked.foreign, 0, "{}", capture.name);
        assert_eq!(checked.unverifiable > 0, capture.name.contains("-lora-"), "{}", capture.name);
        sum.same += checked.same;
    }
    assert!(sum.same >= 180, "{sum:?}");
}

#[test]
fn sglang_streams_before_the_chain_are_recognised() {
    let captures = all();
    let capture = captures.iter().find(|capture| capture.name == "sglang-cpu-real-0.5.5-basic").expect("a capture");
    let mut pages = 0;
    for stored in stores(capture) {
        for (name, tokens) in pages_of(&stored) {
            assert_eq!(name, sglang::legacy_page(tokens));
            pages += 1;
        }
    }
    assert!(pages > 0);
}

#[test]
fn tokenspeed_streams() {
    let captures = all();
    let mut blocks = 0;
    for capture in captures.iter().filter(|capture| capture.name.starts_with("tokenspeed-")) {
        for stored in stores(capture) {
            let Tokens::Ids(tokens) = &stored.tokens else { panic!("plain tokens") };
            let parent = stored.parent.as_ref().map(|parent| parent.name().0);
            assert_eq!(stored.hashes[0].name().0, tokenspeed::block(parent, tokens));
            blocks += 1;
        }
    }
    assert!(blocks > 0);
}

/// How the announced hashes of a stream compare with ours.
#[derive(Debug, Default)]
struct Checked {
    same: usize,
    /// Another hash than ours, and what is chained on such a block.
    foreign: usize,
    unverifiable: usize,
}

fn check_vllm(capture: &Capture) -> Checked {
    let seed = if capture.told["note"].as_str().unwrap().contains("PYTHONHASHSEED=0") { "0" } else { DEFAULT_SEED };
    let root = Algorithm::Sha256.root(seed).unwrap();
    let form = if capture.name.contains("0.11.0") { KeyForm::BareId } else { KeyForm::Tagged };
    let mut known = HashMap::new();
    let mut checked = Checked::default();
    for stored in stores(capture) {
        if stored.lora_name.is_some() {
            // Its path is part of the hash.
            checked.unverifiable += stored.hashes.len();
            continue;
        }
        let parent = stored.parent.as_ref().map_or(Some(root), |parent| known.get(&parent.name().0).copied());
        let ours = parent.map_or_else(Vec::new, |parent| vllm_chain(parent, form, &stored));
        // A sliding-window group lists the last of the blocks that it spans.
        let listed = &ours[ours.len().saturating_sub(stored.hashes.len())..];
        for (index, hash) in stored.hashes.iter().enumerate() {
            if listed.get(index).is_some_and(|digest| digest.event_word() == hash.name().0) {
                checked.same += 1;
            } else {
                checked.foreign += 1;
            }
        }
        known.extend(ours.iter().map(|digest| (digest.event_word(), *digest)));
    }
    checked
}

fn vllm_chain(parent: Digest, form: KeyForm, stored: &Stored) -> Vec<Digest> {
    let Tokens::Ids(tokens) = &stored.tokens else { panic!("plain tokens") };
    let step = |parent: &mut Digest, (index, tokens)| {
        let keys = salt_keys(stored, index);
        *parent = Algorithm::Sha256.block(parent, &Block { keys: &keys, form, ..Block::of(tokens) }).unwrap();
        Some(*parent)
    };
    tokens.chunks_exact(stored.block_size as usize).enumerate().scan(parent, step).collect()
}

/// Without LoRA and images, a bare text is the salt.
fn salt_keys<'a>(stored: &'a Stored, block: usize) -> Vec<ExtraKey<'a>> {
    let keys = stored.extra_keys.as_ref().and_then(|blocks| blocks.get(block));
    let salt = |key: &'a kv_events::ExtraKey| match key {
        kv_events::ExtraKey::Text(salt) => ExtraKey::CacheSalt(salt.as_str()),
        other => panic!("{other:?}"),
    };
    keys.into_iter().flatten().map(salt).collect()
}

fn check_sglang(capture: &Capture) -> Checked {
    let mut known = HashMap::new();
    let mut checked = Checked::default();
    for stored in stores(capture) {
        if stored.lora_name.is_some() {
            checked.unverifiable += stored.hashes.len();
            continue;
        }
        let parent = stored.parent.as_ref().map(|parent| known.get(&parent.name().0));
        let mut chain = match parent {
            None => sglang::Chain::root(stored.cache_salt.as_deref()),
            Some(Some(&page)) => sglang::Chain::after(page),
            Some(None) => panic!("{}: an unknown parent", capture.name),
        };
        for (name, page) in pages_of(&stored) {
            let digest = chain.next(page);
            if digest.event_word() == name {
                checked.same += 1;
            } else {
                checked.foreign += 1;
            }
            known.insert(name, digest);
        }
    }
    checked
}

/// Name and tokens of each page; of bigrams, both tokens of each.
fn pages_of(stored: &Stored) -> impl Iterator<Item = (u64, &[u32])> {
    let (flat, width) = match &stored.tokens {
        Tokens::Ids(ids) => (ids.as_slice(), 1),
        Tokens::Bigrams(pairs) => (pairs.as_flattened(), 2),
    };
    let pages = flat.chunks_exact(stored.block_size as usize * width);
    assert_eq!(pages.len(), stored.hashes.len());
    stored.hashes.iter().map(|hash| hash.name().0).zip(pages)
}

fn stores(capture: &Capture) -> impl Iterator<Item = Stored> {
    let events = capture.live().flat_map(|message| decode_batch(message.frames.last().expect("a payload")).events);
    events.filter_map(|event| if let Event::Stored(stored) = event { Some(*stored) } else { None })
}
