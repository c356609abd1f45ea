//! SGLang: the chain as its router's fixtures and its own radix cache show it.

use std::collections::HashMap;

use kv_events::engine_hash::sglang::{Chain, Digest, LEGACY_ROOT, Namespace, legacy_page};
use serde_json::Value;

use super::{copies, list, members, text, tokens, words};

#[test]
fn fixtures_of_its_router() {
    for file in copies("sglang_hash_parity.json") {
        for case in list(&file["cases"]) {
            assert_eq!(pages(Chain::root(None), case, &tokens(&case["token_ids"])), words(&case["hashes"]), "{case}");
        }
        for case in list(&file["derived_no_upstream_golden"]) {
            let root = Chain::root(Some(text(&case["cache_salt"])));
            assert_eq!(pages(root, case, &tokens(&case["token_ids"])), words(&case["hashes"]), "{case}");
        }
        for case in list(&file["bigram_cases"]) {
            assert_eq!(bigram_pages(case), words(&case["hashes"]), "{case}");
        }
        let empty = file["sha256_empty_top64"].as_i64().unwrap();
        assert_eq!(Chain::root(None).next(&[]).event_word().cast_signed(), empty);
    }
}

#[test]
fn events_of_its_radix_cache() {
    for file in copies("hash_vectors.json") {
        let mut checked = 0;
        for (case, events) in members(&file["sglang 0.5.23 (page_size 4)"]) {
            let mut stream = Stream::of(case);
            list(events).iter().for_each(|event| checked += stream.check(event));
        }
        println!("SGLang: {checked} page hashes reproduced");
        assert!(checked >= 80, "{checked}");
    }
}

#[test]
fn pages_before_the_chain() {
    for file in copies("hash_vectors.json") {
        let legacy = &file["sglang 0.4.9..0.5.5"];
        assert_eq!(Some(legacy_page(&[1, 2, 3, 4])), legacy["hash((1,2,3,4))"].as_u64());
        assert_eq!(Some(LEGACY_ROOT), legacy["hash(())"].as_u64());
    }
}

/// One recorded stream: what a page was published as leads to the digest that its successors are chained on.
struct Stream<'a> {
    case: &'a str,
    digests: HashMap<u64, Digest>,
}

impl<'a> Stream<'a> {
    fn of(case: &'a str) -> Self {
        Self { case, digests: HashMap::new() }
    }

    fn check(&mut self, event: &Value) -> usize {
        let units = list(&event["token_ids"]);
        let flat: Vec<u32> =
            units.iter().flat_map(|unit| if unit.is_array() { tokens(unit) } else { vec![token(unit)] }).collect();
        let width = flat.len() / units.len();
        let page_size = usize::try_from(event["block_size"].as_u64().unwrap()).unwrap();
        let namespace = self.namespace(event);
        let mut chain = self.start(event);
        let expected = words(&event["block_hashes"]);
        for (page, expected) in flat.chunks_exact(page_size * width).zip(&expected) {
            let digest = if width == 2 { chain.next_bigrams(page.as_chunks().0) } else { chain.next(page) };
            let word = namespace.map_or(digest.event_word(), |namespace| namespace.event_word(&digest));
            assert_eq!(word, *expected, "{}: {event}", self.case);
            self.digests.insert(word, digest);
        }
        assert_eq!(flat.len(), expected.len() * page_size * width, "{}: {event}", self.case);
        expected.len()
    }

    fn start(&self, event: &Value) -> Chain {
        let parent = &event["parent_block_hash"];
        if parent.is_null() {
            return Chain::root(event["cache_salt"].as_str());
        }
        let [parent] = words(&Value::Array(vec![parent.clone()]))[..] else { unreachable!() };
        Chain::after(self.digests[&parent])
    }

    /// The request's extra key is not in the events; these are the ones that the recorded tree was given
    /// (`ops` of the captures `sglang-0.5.23-tree-lora-*`).
    fn namespace(&self, event: &Value) -> Option<Namespace> {
        event["lora_name"].as_str()?;
        let salt = event["cache_salt"].as_str();
        let extra_key =
            if salt.is_some() { "tenantX0123456789abcdef0123456789abcdef" } else { "0123456789abcdef0123456789abcdef" };
        let in_namespace = if self.case == "lora-dynamo-format" { salt } else { None };
        Some(Namespace::new(Some(extra_key), in_namespace))
    }
}

fn pages(mut chain: Chain, case: &Value, tokens: &[u32]) -> Vec<u64> {
    tokens.chunks(page_size(case)).map(|page| chain.next(page).event_word()).collect()
}

/// Pages of overlapping pairs; the last one may be short.
fn bigram_pages(case: &Value) -> Vec<u64> {
    let tokens = tokens(&case["token_ids"]);
    let pairs: Vec<[u32; 2]> = tokens.windows(2).map(|pair| [pair[0], pair[1]]).collect();
    let mut chain = Chain::root(None);
    pairs.chunks(page_size(case)).map(|page| chain.next_bigrams(page).event_word()).collect()
}

fn page_size(case: &Value) -> usize {
    usize::try_from(case["page_size"].as_u64().unwrap()).unwrap()
}

fn token(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}
