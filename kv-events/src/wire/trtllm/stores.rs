//! One `stored` event to stores: a store of ours has one medium, one adapter, one salt and one block size.

use super::json::{self, Block, MultimodalKey, Text, Token, UniqueToken};
use super::medium;
use crate::event::{ExtraKey, Stored, Tokens};

/// How many tokens the longest block has.
pub(super) fn longest(stored: &json::Stored) -> u32 {
    stored.blocks.iter().map(|block| u32::try_from(block.tokens.len()).unwrap_or(u32::MAX)).max().unwrap_or_default()
}

/// The stores of all blocks, each with what `common` says, the block size included.
pub(super) fn runs(stored: json::Stored, common: &Stored) -> Vec<Stored> {
    let common = Stored { lora_name: stored.lora_name.map(|name| name.0), ..common.clone() };
    let mut parent = stored.parent_hash.map(|hash| hash.0);
    let mut runs: Vec<Stored> = Vec::new();
    for block in stored.blocks {
        let hash = block.hash.0.clone();
        let next = single(block, &common);
        match runs.last_mut() {
            Some(run) if continues(run, &next) => append(run, next),
            _ => runs.push(Stored { parent, ..next }),
        }
        parent = Some(hash);
    }
    runs
}

/// A store of one block.
fn single(block: Block, common: &Stored) -> Stored {
    let mut keys: Vec<_> = block.mm_keys.unwrap_or_default().into_iter().map(item_key).collect();
    let ids = read_tokens(block.tokens, &mut keys);
    Stored {
        hashes: vec![block.hash.0],
        tokens: Tokens::Ids(ids),
        lora_id: block.lora_id,
        cache_salt: block.cache_salt.map(|salt| salt.0),
        extra_keys: (!keys.is_empty()).then(|| vec![keys]),
        medium: block.cache_level.map(medium),
        ..common.clone()
    }
}

/// The engine's `start_offset` as it was sent: the texts at hand do not say what it counts from.
fn item_key(key: MultimodalKey) -> ExtraKey {
    ExtraKey::Item { id: key.hash.0, offset: key.start_offset }
}

/// The ids, with 0 in the place of a digest; each run of one digest adds an item where it starts.
fn read_tokens(tokens: Vec<UniqueToken>, items: &mut Vec<ExtraKey>) -> Vec<u32> {
    let mut before: Option<Text> = None;
    let read = (0_i64..).zip(tokens).map(|(offset, token)| {
        let (id, digest) = match token.token_id {
            Token::Id(id) => (id, None),
            Token::Digest(digest) => (0, Some(digest)),
        };
        if let Some(Text(id)) = digest.clone().filter(|_| digest != before) {
            items.push(ExtraKey::Item { id, offset });
        }
        before = digest;
        id
    });
    read.collect()
}

/// Whether the block belongs into the run: it differs in nothing that a store says once, and neither is partial.
fn continues(run: &Stored, next: &Stored) -> bool {
    let whole = |stored: &Stored| stored.tokens.len() == stored.hashes.len() * stored.block_size as usize;
    whole(run) && whole(next) && run.medium == next.medium && run.lora_id == next.lora_id && run.cache_salt == next.cache_salt
}

fn append(run: &mut Stored, next: Stored) {
    if run.extra_keys.is_some() || next.extra_keys.is_some() {
        let keys = run.extra_keys.get_or_insert_default();
        keys.resize(run.hashes.len(), Vec::new());
        keys.extend(next.extra_keys.unwrap_or_else(|| vec![Vec::new()]));
    }
    run.hashes.extend(next.hashes);
    if let (Tokens::Ids(ids), Tokens::Ids(more)) = (&mut run.tokens, next.tokens) {
        ids.extend(more);
    }
}
