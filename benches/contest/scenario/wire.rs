//! Stores as a vLLM with one full-attention group says them: `MessagePack` arrays, as `kv_events::wire` documents them.

use crate::workload::{Batch, Block, Event};

/// Tokens of a block here: enough that the 64 bits of a content make them different.
const BLOCK_TOKENS: u8 = 2;

/// The payload that announces the stores of `batch`.
pub fn message(batch: &Batch) -> Vec<u8> {
    let mut out = vec![0x93, 0xca, 0, 0, 0, 0];
    array(&mut out, batch.events.len());
    for event in &batch.events {
        let Event::Store { parent, start, end, .. } = *event else { unreachable!("a fill only stores") };
        store(&mut out, parent, &batch.blocks[start as usize..end as usize]);
    }
    // Rank 0.
    out.push(0);
    out
}

fn store(out: &mut Vec<u8>, parent: Option<u64>, blocks: &[Block]) {
    out.push(0x97);
    text(out, "BlockStored");
    array(out, blocks.len());
    blocks.iter().for_each(|block| word(out, block.name));
    match parent {
        Some(parent) => word(out, parent),
        None => out.push(0xc0),
    }
    array(out, blocks.len() * usize::from(BLOCK_TOKENS));
    for block in blocks {
        token(out, block.content as u32);
        token(out, (block.content >> 32) as u32);
    }
    out.extend([BLOCK_TOKENS, 0xc0]);
    text(out, "GPU");
}

fn array(out: &mut Vec<u8>, len: usize) {
    out.push(0xdd);
    out.extend(u32::try_from(len).expect("a message is short").to_be_bytes());
}

fn word(out: &mut Vec<u8>, word: u64) {
    out.push(0xcf);
    out.extend(word.to_be_bytes());
}

fn token(out: &mut Vec<u8>, token: u32) {
    out.push(0xce);
    out.extend(token.to_be_bytes());
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.push(0xa0 | u8::try_from(text.len()).expect("a word of the wire"));
    out.extend(text.as_bytes());
}
