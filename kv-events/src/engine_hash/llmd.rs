//! The keys under which llm-d's router files blocks in its own index, by its default scheme: FNV-1a 64 over canonical
//! CBOR. No engine publishes them; they let this crate's view of a request be compared with a running llm-d.

use super::cbor;
use super::fnv::fnv1a;
use super::value::Value;

/// One model's key space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpace {
    root: u64,
}

impl KeySpace {
    /// The keys of `model` under the router's `hash_seed` (empty by default). A LoRA request is filed under its
    /// adapter's name in place of the model's.
    pub fn new(hash_seed: &str, model: &str) -> Self {
        let seed = fnv1a(hash_seed.as_bytes());
        let value = Value::Tuple(vec![Value::Word(seed), Value::None, Value::Text(model)]);
        Self { root: fnv1a(&cbor::encode(&value)) }
    }

    /// The key of a full block behind `parent`. No parent, and the parent zero, are the root. `images` are the hashes
    /// of the multimodal items that overlap the block.
    pub fn block(&self, parent: Option<u64>, tokens: &[u32], images: &[&str]) -> u64 {
        let parent = parent.filter(|&key| key != 0).unwrap_or(self.root);
        let mut encoder = cbor::Encoder::default();
        encoder.array(3);
        encoder.word(parent);
        encoder.value(&Value::Tokens(tokens));
        if images.is_empty() {
            encoder.value(&Value::None);
        } else {
            encoder.array(images.len());
            images.iter().for_each(|hash| encoder.entry("Hash", hash));
        }
        fnv1a(&encoder.0)
    }
}
