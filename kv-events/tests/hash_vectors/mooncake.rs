//! Mooncake's RFC 1527: its local block hash is our content hash, its sequence hash chains local ones.

use std::num::NonZeroU32;

use kv_index::hash::CONTENT_SEED;
use kv_index::{ContentHash, Namespace, Scheme};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{copies, list, not_reproduced, tokens, words};

#[test]
fn local_hashes_under_seed_1337_are_content_hashes() {
    for file in copies("mooncake_rfc1527.json") {
        let rows = || list(&file["derived_no_upstream_golden"]).iter();
        let ours = |row: &&Value| row["seed_S"].as_u64() == Some(CONTENT_SEED);
        assert_eq!(rows().filter(ours).count(), 2);
        for row in rows() {
            if !ours(&row) {
                // Another seed than our content hashes have: the same function over the same bytes.
                let (seed, size) =
                    (row["seed_S"].as_u64().unwrap(), usize::try_from(row["block_size"].as_u64().unwrap()).unwrap());
                let bytes = |block: &[u32]| block.iter().flat_map(|token| token.to_le_bytes()).collect::<Vec<u8>>();
                let tokens = tokens(&row["token_ids"]);
                let local = tokens.chunks_exact(size).map(|block| xxh3_64_with_seed(&bytes(block), seed));
                assert_eq!(local.collect::<Vec<_>>(), words(&row["local_block_hash"]));
                continue;
            }
            let block_tokens = u32::try_from(row["block_size"].as_u64().unwrap()).unwrap();
            let scheme = Scheme::plain(NonZeroU32::new(block_tokens).unwrap());
            let mut hashes = Vec::new();
            scheme.hash_prompt(Namespace::default(), &tokens(&row["token_ids"]), &mut hashes);
            assert_eq!(hashes.iter().map(|&ContentHash(word)| word).collect::<Vec<_>>(), words(&row["local_block_hash"]));
        }
        not_reproduced("object_key_to_seq_hash", "reads names of stored objects; nothing is hashed");
    }
}

/// Nothing in this workspace chains content hashes; the rule is checked so that the file's rows are known to be sound.
#[test]
fn sequence_hashes_chain_local_ones() {
    for file in copies("mooncake_rfc1527.json") {
        for row in list(&file["derived_no_upstream_golden"]) {
            let seed = row["seed_S"].as_u64().unwrap();
            let step = |prior: Option<u64>, local: u64| {
                prior.map_or(local, |prior| xxh3_64_with_seed(&[prior.to_le_bytes(), local.to_le_bytes()].concat(), seed))
            };
            let chain = |prior: &mut Option<u64>, local| {
                *prior = Some(step(*prior, local));
                *prior
            };
            let computed: Vec<u64> = words(&row["local_block_hash"]).into_iter().scan(None, chain).collect();
            assert_eq!(computed, words(&row["seq_hash"]));
        }
    }
}
