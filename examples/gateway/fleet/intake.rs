//! A rank's messages, in whatever order sockets bring them, made into the batches of one stream.

use std::hash::{DefaultHasher, Hash, Hasher};

use kv_events::wire::decode_batch;
use kv_events::wire::frame::Message;
use kv_events::{Batch, Cursor, Stream, Verdict};
use kv_index::Worker;

use super::rank::BatchCounts;

/// The stream with its place in the publisher's sequence. Knows no socket.
#[derive(Debug)]
pub(super) struct Intake<W> {
    stream: Stream<W>,
    cursor: Cursor,
    counts: BatchCounts,
    /// The last message taken in.
    latest: Option<Fingerprint>,
}

/// What tells one life of a publisher from another: two messages under one number are equal only if they are the same
/// message, because each holds the time of its publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint {
    sequence: u64,
    payload_hash: u64,
}

/// What an intake needs before it can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// A replay from this sequence on; then the same message again.
    Replay {
        from: u64,
    },
}

impl<W: Worker> Intake<W> {
    pub(super) fn new(stream: Stream<W>) -> Self {
        Self { stream, cursor: Cursor::new(), counts: BatchCounts::default(), latest: None }
    }

    pub(super) fn stream(&self) -> &Stream<W> {
        &self.stream
    }

    pub(super) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    pub(super) fn counts(&self) -> &BatchCounts {
        &self.counts
    }

    /// The subscription was lost and is back.
    pub(super) fn reconnected(&mut self) {
        self.cursor.reconnected();
    }

    /// A replay was asked for.
    pub(super) fn asked(&mut self) {
        self.counts.replays += 1;
    }

    /// A message came that is none of a publisher's.
    pub(super) fn unreadable(&mut self) {
        self.counts.unreadable += 1;
    }

    /// Takes in a message as it was published, or says what must come before it.
    pub(super) fn live(&mut self, message: &Message<'_>) -> Need {
        let batch = decode_batch(message.payload);
        match self.cursor.admit_live(message.sequence, batch.clears()) {
            Verdict::Replay { from } => Need::Replay { from },
            Verdict::Restart => {
                self.restart();
                Need::Replay { from: 0 }
            }
            verdict => {
                self.counts.live += self.take(verdict, message, &batch);
                Need::Nothing
            }
        }
    }

    /// Takes in a message from the replay socket.
    pub(super) fn replayed(&mut self, message: &Message<'_>) {
        let batch = decode_batch(message.payload);
        let verdict = self.cursor.admit_replayed(message.sequence, batch.clears());
        self.counts.replayed += self.take(verdict, message, &batch);
    }

    /// Whether `message`, replayed after a reconnection, is from the same life of the publisher as what was taken in
    /// before; nothing where the two cannot be compared.
    pub(super) fn is_same_life(&self, message: &Message<'_>) -> Option<bool> {
        let here = Fingerprint::of(message);
        self.latest.filter(|latest| latest.sequence == here.sequence).map(|latest| latest == here)
    }

    /// The sequence to replay from after a reconnection: the last one known, so that it can be compared.
    pub(super) fn rejoin_from(&self) -> u64 {
        self.latest.map_or(0, |latest| latest.sequence)
    }

    /// Another life of the publisher has begun: what the former one held is gone.
    pub(super) fn restart(&mut self) {
        self.stream.restart();
        self.cursor = Cursor::new();
        self.latest = None;
        self.counts.restarts += 1;
    }

    /// Applies what `verdict` lets in; how many batches that were.
    fn take(&mut self, verdict: Verdict, message: &Message<'_>, batch: &Batch) -> u64 {
        match verdict {
            Verdict::Apply => {}
            Verdict::ApplyAfterLoss { missed, clear } => {
                self.counts.missed = self.counts.missed.saturating_add(missed);
                if clear {
                    self.stream.clear();
                }
            }
            Verdict::Stale | Verdict::Replay { .. } | Verdict::Restart => {
                self.counts.stale += 1;
                return 0;
            }
        }
        self.stream.apply(batch);
        self.latest = Some(Fingerprint::of(message));
        1
    }
}

impl Fingerprint {
    fn of(message: &Message<'_>) -> Self {
        let mut hasher = DefaultHasher::new();
        message.payload.hash(&mut hasher);
        Self { sequence: message.sequence, payload_hash: hasher.finish() }
    }
}
