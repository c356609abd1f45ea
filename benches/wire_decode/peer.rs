//! `dynamo-kv-router`'s decoder, as its documentation shows it.

use dynamo_kv_router::zmq_wire::{BlockHashValue, RawKvEvent, decode_event_batch};

use crate::payloads::Summary;

/// Decodes `payload` and drops what came out. Whether it could be read.
pub fn decode(payload: &[u8]) -> bool {
    decode_event_batch(payload).is_ok()
}

/// What it reads of `payload`.
pub fn summary(payload: &[u8]) -> Option<Summary> {
    let batch = decode_event_batch(payload).ok()?;
    let words = |hashes: Vec<BlockHashValue>| hashes.into_iter().map(BlockHashValue::into_u64).collect();
    let summary = batch.events.into_iter().map(|event| match event {
        RawKvEvent::BlockStored { block_hashes, token_ids, .. } => ("stored", words(block_hashes), token_ids),
        RawKvEvent::BlockRemoved { block_hashes, .. } => ("removed", words(block_hashes), Vec::new()),
        RawKvEvent::AllBlocksCleared { .. } => ("cleared", Vec::new(), Vec::new()),
        RawKvEvent::Ignored => ("ignored", Vec::new(), Vec::new()),
    });
    Some(summary.collect())
}
