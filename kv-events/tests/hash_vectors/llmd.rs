//! llm-d's request keys.

use kv_events::engine_hash::llmd::KeySpace;
use serde_json::Value;
use xxhash_rust::xxh64::xxh64;

use super::{copies, list, text, tokens, words};

/// The model of the file's text vectors, for rows that do not name theirs.
const GRANITE: &str = "ibm-granite/granite-3.1-8b-instruct";

#[test]
fn its_own_goldens() {
    for file in copies("llmd_hash_vectors.json") {
        let golden = list(&file["upstream_golden"]);
        for vector in golden {
            let (tokens, images) = (prompt(vector), Images::of(vector));
            assert_eq!(keys(vector, GRANITE, &tokens, &images), words(&vector["keys"]), "{}", vector["name"]);
        }
        assert_eq!(golden.len(), 2);
    }
}

#[test]
fn rows_derived_from_its_scheme() {
    for file in copies("llmd_hash_vectors.json") {
        let plain = prompt(&file["upstream_golden"][0]);
        let mut checked = 0;
        for row in list(&file["derived_no_upstream_golden"]) {
            if row["algorithm"] != "cbor_fnv" {
                check_xxh64(row, list(&file["upstream_golden"]));
                continue;
            }
            checked += 1;
            if row["keys_whole"].is_array() {
                check_continuation(row);
            } else {
                let tokens = if row["token_ids"].is_array() { prompt(row) } else { plain.clone() };
                assert_eq!(keys(row, GRANITE, &tokens, &Images::default()), words(&row["keys"]), "{}", row["name"]);
            }
        }
        assert_eq!(checked, 6);
    }
}

#[test]
fn parent_zero_is_the_root() {
    let space = KeySpace::new("", "m");
    assert_eq!(space.block(Some(0), &[1], &[]), space.block(None, &[1], &[]));
}

/// llm-d's other scheme, as the file states it; nothing else here uses it. The rows continue the goldens' prompts.
fn check_xxh64(row: &Value, goldens: &[Value]) {
    let golden = &goldens[usize::from(text(&row["name"]).starts_with("multimodal"))];
    let (tokens, images) = (prompt(golden), Images::of(golden));
    let size = usize::try_from(golden["block_size"].as_u64().unwrap()).unwrap();
    let expected = words(&row["keys"]);
    let seed = xxh64(row["hash_seed"].as_str().unwrap_or("").as_bytes(), 0);
    let root = xxh64_key(seed, &[], &[golden["model"].as_str().unwrap_or(GRANITE)]);
    let keys = tokens.chunks_exact(size).enumerate().scan(root, |parent, (index, tokens)| {
        *parent = xxh64_key(*parent, tokens, &images.overlapping(index * size, (index + 1) * size));
        Some(*parent)
    });
    assert_eq!(keys.take(expected.len()).collect::<Vec<_>>(), expected, "{}", row["name"]);
}

fn xxh64_key(parent: u64, tokens: &[u32], extras: &[&str]) -> u64 {
    let mut bytes = parent.to_le_bytes().to_vec();
    bytes.extend(tokens.iter().flat_map(|token| token.to_le_bytes()));
    for extra in extras {
        bytes.extend((extra.len() as u64).to_le_bytes());
        bytes.extend(extra.as_bytes());
    }
    xxh64(&bytes, 0)
}

fn check_continuation(row: &Value) {
    let space = KeySpace::new("", GRANITE);
    let tokens: Vec<u32> = (1..=16).collect();
    let whole = words(&row["keys_whole"]);
    assert_eq!(chain(&space, None, tokens.chunks(4)), whole);
    assert_eq!(chain(&space, Some(whole[1]), tokens[8..].chunks(4)), words(&row["keys_tail_from_parent"]));
}

fn chain<'a>(space: &KeySpace, parent: Option<u64>, blocks: impl Iterator<Item = &'a [u32]>) -> Vec<u64> {
    let step = |parent: &mut Option<u64>, tokens| {
        *parent = Some(space.block(*parent, tokens, &[]));
        *parent
    };
    blocks.scan(parent, step).collect()
}

fn keys(row: &Value, model: &str, tokens: &[u32], images: &Images<'_>) -> Vec<u64> {
    let space = KeySpace::new(row["hash_seed"].as_str().unwrap_or(""), row["model"].as_str().unwrap_or(model));
    let size = usize::try_from(row["block_size"].as_u64().unwrap_or(4)).unwrap();
    let step = |parent: &mut Option<u64>, (index, tokens)| {
        let start = index * size;
        *parent = Some(space.block(*parent, tokens, &images.overlapping(start, start + size)));
        *parent
    };
    tokens.chunks_exact(size).enumerate().scan(None, step).collect()
}

/// Hash, first token and end of each image of a prompt.
#[derive(Default)]
struct Images<'a>(Vec<(&'a str, usize, usize)>);

impl<'a> Images<'a> {
    fn of(vector: &'a Value) -> Self {
        let Some(hashes) = vector["mm_hashes"].as_array() else { return Self::default() };
        let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
        let spans = list(&vector["mm_placeholders"]).iter().map(|span| (number(&span["offset"]), number(&span["length"])));
        Self(hashes.iter().zip(spans).map(|(hash, (offset, length))| (text(hash), offset, offset + length)).collect())
    }

    fn overlapping(&self, start: usize, end: usize) -> Vec<&'a str> {
        self.0.iter().filter(|(_, first, last)| start < *last && end > *first).map(|(hash, ..)| *hash).collect()
    }
}

/// A prompt as a list of ids, or as runs of (id, times).
fn prompt(vector: &Value) -> Vec<u32> {
    if vector["token_ids"].is_array() {
        return tokens(&vector["token_ids"]);
    }
    let runs = list(&vector["token_ids_rle"]).iter().map(tokens);
    runs.flat_map(|run| vec![run[0]; run[1] as usize]).collect()
}
