//! Hashes that other routers pin in their own tests.

use kv_events::engine_hash::sglang::Chain;
use kv_events::engine_hash::vllm::{Algorithm, Block, DEFAULT_SEED};

#[test]
fn sglang_salt_and_bigrams() {
    let mut salted = Chain::root(Some("tenant-a"));
    let pages = [salted.next(&[1, 2, 3, 4]), salted.next(&[5, 6, 7, 8])];
    let words = pages.map(|page| page.event_word().cast_signed());
    assert_eq!(words, [3_718_046_898_735_569_995, 3_308_615_664_605_479_373]);
    let bigrams = Chain::root(None).next_bigrams(&[[1, 2], [2, 3], [3, 4], [4, 5]]);
    assert_eq!(bigrams.event_word().cast_signed(), -638_950_109_823_820_341);
}

#[test]
fn vllm_default_seed() {
    let algorithm = Algorithm::Sha256Cbor;
    let root = algorithm.root(DEFAULT_SEED).unwrap();
    let hex = "9bd96a485ad84efdafb72ee48a1d7a69bcead0f8f0433173941b276b9581eef0";
    assert_eq!(super::hex(root.as_bytes()), hex);
    let first = algorithm.block(&root, &Block::of(&[1, 2, 3, 4])).unwrap();
    assert_eq!(first.event_word().cast_signed(), -8_885_242_862_429_187_823);
    let second = algorithm.block(&first, &Block::of(&[5, 6, 7, 8])).unwrap();
    assert_eq!(second.event_word().cast_signed(), -3_153_830_497_298_837_583);
}
