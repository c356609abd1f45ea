//! Payloads of an engine's scheduler steps: stores and evictions of whole prompts, in an engine's own `MessagePack`.

/// How an engine lays out its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// vLLM 0.14 to 0.16.
    Arrays,
    /// vLLM 0.24 and later.
    Maps,
}

/// An engine that computes prompts of so many new blocks each, every fourth below the one before.
#[derive(Clone, Debug)]
pub struct Steps {
    form: Form,
    blocks: u64,
    next: u64,
}

/// Tokens of a block.
pub const BLOCK_TOKENS: u32 = 16;

/// Token ids are below it: those of a vocabulary that is common today.
const VOCABULARY: u64 = 150_000;

impl Steps {
    /// Of `blocks` blocks each.
    pub fn new(form: Form, blocks: u64) -> Self {
        Self { form, blocks, next: 0 }
    }

    /// Blocks stored so far.
    pub fn stored(&self) -> u64 {
        self.next
    }

    /// The next step's store.
    pub fn store(&mut self) -> Vec<u8> {
        let first = self.next;
        self.next += self.blocks;
        let parent = (first > 0 && (first / self.blocks).is_multiple_of(4)).then(|| name(first - 1));
        let mut out = self.head("BlockStored", 8);
        self.key(&mut out, "block_hashes");
        array(&mut out, self.blocks);
        (first..self.next).for_each(|block| uint(&mut out, name(block)));
        self.key(&mut out, "parent_block_hash");
        match parent {
            Some(parent) => uint(&mut out, parent),
            None => out.push(0xc0),
        }
        self.key(&mut out, "token_ids");
        let tokens = self.blocks * u64::from(BLOCK_TOKENS);
        array(&mut out, tokens);
        (0..tokens).for_each(|token| uint(&mut out, scatter(first, token) % VOCABULARY));
        self.key(&mut out, "block_size");
        uint(&mut out, BLOCK_TOKENS.into());
        self.key(&mut out, "lora_id");
        out.push(0xc0);
        self.key(&mut out, "medium");
        text(&mut out, "GPU");
        self.key(&mut out, "lora_name");
        out.extend([0xc0, 0]);
        out
    }

    /// A step that evicts as many blocks, from `first` on.
    pub fn evict(&self, first: u64) -> Vec<u8> {
        let mut out = self.head("BlockRemoved", 3);
        self.key(&mut out, "block_hashes");
        array(&mut out, self.blocks);
        (first..first + self.blocks).for_each(|block| uint(&mut out, name(block)));
        self.key(&mut out, "medium");
        text(&mut out, "GPU");
        out.push(0);
        out
    }

    /// A batch of one event of so many fields, up to the event's tag.
    fn head(&self, tag: &str, fields: u8) -> Vec<u8> {
        let mut out = vec![0x93, 0xcb];
        out.extend(1.5f64.to_be_bytes());
        out.extend([0x91, if self.form == Form::Maps { 0x80 } else { 0x90 } | fields]);
        self.key(&mut out, "type");
        text(&mut out, tag);
        out
    }

    fn key(&self, out: &mut Vec<u8>, key: &str) {
        if self.form == Form::Maps {
            text(out, key);
        }
    }
}

fn name(block: u64) -> u64 {
    (block + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn scatter(first: u64, token: u64) -> u64 {
    crate::random::scatter(first ^ token << 40)
}

fn array(out: &mut Vec<u8>, len: u64) {
    out.push(0xdd);
    out.extend(u32::try_from(len).expect("a step is short").to_be_bytes());
}

/// In the shortest form, as engines write them.
fn uint(out: &mut Vec<u8>, word: u64) {
    match word {
        0..=0x7f => out.push(word as u8),
        0x80..=0xff => out.extend([0xcc, word as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend((word as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend((word as u32).to_be_bytes());
        }
        _ => {
            out.push(0xcf);
            out.extend(word.to_be_bytes());
        }
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    let len = u8::try_from(text.len()).expect("a word of the wire");
    assert!(len < 32);
    out.push(0xa0 | len);
    out.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use kv_events::wire::decode_batch;
    use kv_events::{Event, Layout};

    use super::*;

    #[test]
    fn steps_are_read_whole_in_both_forms() {
        for (form, layout) in [(Form::Arrays, Layout::Array(8)), (Form::Maps, Layout::Map)] {
            let mut steps = Steps::new(form, 100);
            let batch = decode_batch(&steps.store());
            let [Event::Stored(stored)] = batch.events.as_slice() else { panic!("{batch:?}") };
            assert_eq!((batch.losses.total(), stored.layout, stored.tokens.len()), (0, layout, 1600));
            let batch = decode_batch(&steps.evict(0));
            let [Event::Removed(removed)] = batch.events.as_slice() else { panic!("{batch:?}") };
            assert_eq!((batch.losses.total(), &removed.hashes), (0, &stored.hashes));
        }
    }
}
