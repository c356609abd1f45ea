//! The engines' block hashes, reproduced from the vectors that their own code computed.
//!
//! Every test reads the copies in `tests/data/vectors`, and the full set in `shared/data/vectors` where that lies beside the
//! repository. What a file holds and this crate cannot reproduce is printed with its reason (`--nocapture` shows it).

#[allow(dead_code, reason = "shared with the decoder's tests, which read more of a capture")]
#[path = "wire/capture.rs"]
mod capture;
#[path = "hash_vectors/captures.rs"]
mod captures;
#[path = "hash_vectors/llmd.rs"]
mod llmd;
#[path = "hash_vectors/mooncake.rs"]
mod mooncake;
#[path = "hash_vectors/others.rs"]
mod others;
#[path = "hash_vectors/pins.rs"]
mod pins;
#[path = "hash_vectors/sglang.rs"]
mod sglang;
#[path = "hash_vectors/vllm.rs"]
mod vllm;
#[path = "hash_vectors/vllm_legacy.rs"]
mod vllm_legacy;

use std::fs;
use std::path::Path;

use serde_json::Value;

/// The copies of one file of vectors: ours, and the shared one if it is there.
fn copies(name: &str) -> Vec<Value> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ours = package.join("tests/data/vectors").join(name);
    let mut texts = vec![fs::read_to_string(&ours).unwrap_or_else(|error| panic!("{}: {error}", ours.display()))];
    let above = package.ancestors().map(|folder| folder.join("shared/data/vectors").join(name));
    match above.map(fs::read_to_string).find_map(Result::ok) {
        Some(text) => texts.push(text),
        None => println!("skipped: no shared/data/vectors/{name} above the repository, so only its own copy is tested"),
    }
    texts.iter().map(|text| serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"))).collect()
}

/// Prints what stays out and why.
fn not_reproduced(what: &str, why: &str) {
    println!("not reproduced: {what}: {why}");
}

/// The members of a JSON object whose values are objects themselves.
fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().expect("an object").iter()
}

fn words(value: &Value) -> Vec<u64> {
    let word = |value: &Value| value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned));
    list(value).iter().map(|value| word(value).expect("an integer of 64 bits")).collect()
}

/// Token ids: a list, or the text "1..16".
fn tokens(value: &Value) -> Vec<u32> {
    if let Some(text) = value.as_str() {
        let (first, last) = text.split_once("..").expect("a range");
        return (first.parse().unwrap()..=last.parse().unwrap()).collect();
    }
    list(value).iter().map(|value| u32::try_from(value.as_u64().unwrap()).unwrap()).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("a list, got {value}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("a text, got {value}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from_digit(digit.into(), 16).unwrap()).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
