//! A batch on its way in.

use xxhash_rust::xxh3::xxh3_64;

use crate::wire::decode_batch;
use crate::wire::frame::Message;
use crate::{Batch, Incarnation};

/// A batch as it came from a socket, live or replayed.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// Its number in its publisher's life.
    pub sequence: u64,
    /// The life, where the sender names it: a relay does, an engine never.
    pub incarnation: Option<Incarnation>,
    /// A hash of the payload, where the sender passes the engine's own bytes on. Two batches under one number are one batch only
    /// if their payloads are equal: each holds the time of its publication.
    pub fingerprint: Option<u64>,
    /// Length of the payload.
    pub bytes: usize,
    /// What it says.
    pub batch: Batch,
}

impl Delivery {
    /// Decodes an engine's message.
    pub fn decode(message: &Message<'_>) -> Self {
        Self {
            sequence: message.sequence,
            incarnation: None,
            fingerprint: Some(xxh3_64(message.payload)),
            bytes: message.payload.len(),
            batch: decode_batch(message.payload),
        }
    }
}
