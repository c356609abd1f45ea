//! vLLM 0.9.0 and 0.10.0, on Python 3.12 under PYTHONHASHSEED=0.

use kv_events::engine_hash::vllm::legacy::{Builtin, Release, Sha256Cbor64, sha256_block, sha256_root};
use kv_events::engine_hash::vllm::{Block, ExtraKey, KeyForm};
use serde_json::Value;

use super::{copies, text};

const SALT: [ExtraKey<'static>; 1] = [ExtraKey::CacheSalt("tenant-A")];

#[test]
fn builtin() {
    for_each("0.9.0/builtin", |expected| check_builtin(&Builtin::new(Release::V0_9, 0), expected));
    for_each("0.10.0/builtin", |expected| check_builtin(&Builtin::new(Release::V0_10, 0), expected));
}

#[test]
fn sha256_as_an_integer() {
    for_each("0.9.0/sha256", |expected| {
        let root = sha256_root("0").unwrap();
        let first = sha256_block(&root, &Block::of(&first())).unwrap();
        let second = sha256_block(&first, &Block::of(&second())).unwrap();
        let salted = sha256_block(&root, &salted(&self::first())).unwrap();
        let computed = [root, first, second, salted];
        assert_eq!(computed.map(|digest| digest.to_vec()), fields(expected).map(big_endian));
    });
}

#[test]
fn sha256_cbor_64bit() {
    for_each("0.10.0/sha256_cbor_64bit", |expected| {
        let chain = Sha256Cbor64::new("0");
        let first = chain.block(None, &Block::of(&first())).unwrap();
        let second = chain.block(Some(first), &Block::of(&second())).unwrap();
        let salted = chain.block(None, &salted(&self::first())).unwrap();
        let [root, blocks @ ..] = fields(expected);
        assert_eq!([first, second, salted].map(|word| word.to_string()), blocks);
        // The root is an ordinary parent.
        let from_root = chain.block(Some(root.parse().unwrap()), &Block::of(&self::first())).unwrap();
        assert_eq!(from_root, first);
    });
}

fn check_builtin(chain: &Builtin, expected: &Value) {
    let first = chain.block(None, &Block::of(&first())).unwrap();
    let second = chain.block(Some(first), &Block::of(&second())).unwrap();
    let salted = chain.block(None, &salted(&self::first())).unwrap();
    let [_, blocks @ ..] = fields(expected);
    assert_eq!([first, second, salted].map(|hash| hash.to_string()), blocks);
}

fn for_each(algorithm: &str, check: impl Fn(&Value)) {
    for file in copies("hash_vectors.json") {
        check(&file["vllm"]["0.9.0/0.10.0 PYTHONHASHSEED=0 python 3.12 (tokens 1..16, 17..32)"][algorithm]);
    }
}

fn fields(expected: &Value) -> [&str; 4] {
    ["NONE_HASH", "block1", "block2", "block1_salt"].map(|name| text(&expected[name]))
}

fn first() -> Vec<u32> {
    (1..=16).collect()
}

fn second() -> Vec<u32> {
    (17..=32).collect()
}

fn salted(tokens: &[u32]) -> Block<'_> {
    Block { keys: &SALT, form: KeyForm::BareId, ..Block::of(tokens) }
}

/// 32 bytes of a decimal integer.
fn big_endian(decimal: &str) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    for digit in decimal.bytes() {
        let mut carry = u16::from(digit - b'0');
        for byte in bytes.iter_mut().rev() {
            carry += u16::from(*byte) * 10;
            [*byte, _] = carry.to_le_bytes();
            carry >>= 8;
        }
    }
    bytes
}
