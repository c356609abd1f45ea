//! vLLM 0.11.0 to 0.33.0: every release, seed and algorithm of the file, every case.

use kv_events::engine_hash::vllm::{Algorithm, Block, DEFAULT_SEED, Digest, ExtraKey, KeyForm};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{copies, hex, list, members, not_reproduced, text, tokens, unhex, words};

#[test]
fn every_release_seed_and_algorithm() {
    for file in copies("hash_vectors.json") {
        let checked: usize = members(&file["vllm"])
            .filter(|(release, _)| !release.starts_with("0.9.0"))
            .map(|(release, algorithms)| check_release(release, algorithms))
            .sum();
        println!("vLLM: {checked} block hashes reproduced");
        assert!(checked >= 100, "{checked}");
    }
}

#[test]
fn hash_block_tokens_of_0_32() {
    for file in copies("vllm_block_hashes.json") {
        for vector in list(&file["vectors"]) {
            let algorithm = algorithm(text(&vector["algo"]));
            let root = algorithm.root(vector["pythonhashseed"].as_str().unwrap_or(DEFAULT_SEED)).unwrap();
            assert_eq!(hex(root.as_bytes()), text(&vector["none_hash"]));
            let plain = chain(algorithm, root, &tokens(&vector["tokens"]), |_, tokens| Block::of(tokens));
            assert_digests(&plain, &vector["hashes"], &vector["low64"]);
            let keys = [
                ExtraKey::Lora { name: "sql", path: Some("/a") },
                ExtraKey::Multimodal { id: "img0", offset: -2 },
                ExtraKey::CacheSalt("salt"),
            ];
            let first: Vec<u32> = (1..=16).collect();
            let block = Block { keys: &keys, ..Block::of(&first) };
            let keyed = "first_block_with_extra_keys(('lora','sql','/a'),('mm','img0',-2),('cache_salt','salt'))";
            assert_eq!(hex(algorithm.block(&root, &block).unwrap().as_bytes()), text(&vector[keyed]));
        }
    }
}

fn check_release(release: &str, algorithms: &Value) -> usize {
    let (version, seed) = release.split_once(" PYTHONHASHSEED=").expect("release and seed");
    let form = form(version);
    members(algorithms)
        .map(|(name, cases)| check_algorithm(&format!("{release} {name}"), algorithm(name), seed, form, cases))
        .sum()
}

fn check_algorithm(label: &str, algorithm: Algorithm, seed: &str, form: KeyForm, cases: &Value) -> usize {
    if seed == "unset" && matches!(algorithm, Algorithm::Xxhash | Algorithm::XxhashCbor) {
        not_reproduced(label, "the root of the xxhash algorithms is random in each process without a seed");
        return 0;
    }
    let root = algorithm.root(if seed == "unset" { DEFAULT_SEED } else { seed }).unwrap();
    assert_eq!(hex(root.as_bytes()), text(&cases["NONE_HASH"]), "{label}");
    members(cases).map(|(name, case)| check_case(&format!("{label} {name}"), algorithm, root, form, name, case, cases)).sum()
}

fn check_case(label: &str, algorithm: Algorithm, root: Digest, form: KeyForm, name: &str, case: &Value, cases: &Value) -> usize {
    if name == "NONE_HASH" {
        return 0;
    }
    if matches!(name, "pickle_of_first" | "cbor_of_first") {
        let first = text(&cases["plain-32-tokens"]["hash"][0]);
        assert_eq!(hex(&Sha256::digest(unhex(text(case)))), first, "{label}: what the engine serialised");
        return 0;
    }
    let lookahead: usize = name.strip_prefix("lookahead").map_or(0, |len| len.parse().expect("a length"));
    let all = tokens(&case["tokens"]);
    let keys = keys_by_block(&case["extra_keys_in_hash"]);
    let digests = chain(algorithm, root, &all, |index, tokens| Block {
        tokens,
        keys: keys.get(index).map_or(&[], Vec::as_slice),
        form,
        lookahead: &all[(index + 1) * tokens.len()..][..lookahead],
    });
    println!("{label}: {}", digests.len());
    assert_digests(&digests, &case["hash"], &case["u64"]);
    digests.len()
}

fn chain<'a>(
    algorithm: Algorithm,
    root: Digest,
    tokens: &'a [u32],
    block: impl Fn(usize, &'a [u32]) -> Block<'a>,
) -> Vec<Digest> {
    let step = |parent: &mut Digest, (index, tokens)| {
        *parent = algorithm.block(parent, &block(index, tokens)).unwrap();
        Some(*parent)
    };
    tokens.chunks_exact(16).enumerate().scan(root, step).collect()
}

#[track_caller]
fn assert_digests(digests: &[Digest], bytes: &Value, low_words: &Value) {
    let computed: Vec<String> = digests.iter().map(|digest| hex(digest.as_bytes())).collect();
    let expected: Vec<&str> = list(bytes).iter().map(text).collect();
    assert_eq!(computed, expected);
    assert!(!computed.is_empty());
    let computed: Vec<u64> = digests.iter().map(Digest::event_word).collect();
    assert_eq!(computed, words(low_words));
}

/// A list of keys for each block, from the file's record of what the engine hashed.
fn keys_by_block(value: &Value) -> Vec<Vec<ExtraKey<'_>>> {
    let Some(blocks) = value.as_array() else { return Vec::new() };
    blocks.iter().map(|keys| keys.as_array().map_or_else(Vec::new, |keys| keys.iter().map(key).collect())).collect()
}

fn key(value: &Value) -> ExtraKey<'_> {
    let Some(parts) = value.as_array() else {
        // A bare text hashes alike whether it is a salt, an adapter or an item.
        return value.as_i64().map_or_else(|| ExtraKey::CacheSalt(text(value)), ExtraKey::LoraId);
    };
    match text(&parts[0]) {
        "lora" => ExtraKey::Lora { name: text(&parts[1]), path: Some(text(&parts[2])) },
        "mm" => ExtraKey::Multimodal { id: text(&parts[1]), offset: parts[2].as_i64().unwrap() },
        "cache_salt" => ExtraKey::CacheSalt(text(&parts[1])),
        id => ExtraKey::Multimodal { id, offset: parts[1].as_i64().unwrap() },
    }
}

fn form(version: &str) -> KeyForm {
    let minor: u32 = version.split('.').nth(1).and_then(|minor| minor.parse().ok()).expect("a version");
    match minor {
        ..=18 => KeyForm::BareId,
        19..=30 => KeyForm::IdAndOffset,
        31.. => KeyForm::Tagged,
    }
}

fn algorithm(name: &str) -> Algorithm {
    match name {
        "sha256" => Algorithm::Sha256,
        "sha256_cbor" => Algorithm::Sha256Cbor,
        "xxhash" => Algorithm::Xxhash,
        "xxhash_cbor" => Algorithm::XxhashCbor,
        _ => panic!("algorithm {name}"),
    }
}
