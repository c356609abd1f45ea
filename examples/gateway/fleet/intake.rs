//! A rank's messages, in whatever order sockets bring them, made into the steps of one stream.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use kv_events::wire::decode_batch;
use kv_events::wire::frame::Message;
use kv_events::{Batch, Cursor, Verdict};

use super::applier::{Progress, Step};
use super::rank::BatchCounts;

/// A stream's place in its publisher's sequence, and the steps that are to be applied for it. Knows no socket.
#[derive(Debug, Default)]
pub(super) struct Intake {
    steps: VecDeque<Step>,
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

impl Intake {
    /// The next step that is to be applied.
    pub(super) fn next_step(&mut self) -> Option<Step> {
        self.steps.pop_front()
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
                self.counts.live += self.take(verdict, message, batch);
                Need::Nothing
            }
        }
    }

    /// Takes in a message from the replay socket.
    pub(super) fn replayed(&mut self, message: &Message<'_>) {
        let batch = decode_batch(message.payload);
        let verdict = self.cursor.admit_replayed(message.sequence, batch.clears());
        self.counts.replayed += self.take(verdict, message, batch);
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
        self.steps.push_back(Step::Restart);
        self.begin_again();
        self.counts.restarts += 1;
    }

    /// What was applied cannot be believed: it is cleared, and everything is to be replayed.
    pub(super) fn resync(&mut self) {
        self.steps.push_back(Step::Clear);
        self.begin_again();
        self.counts.resyncs += 1;
    }

    /// The stream has failed and begins as a new one: what had not been applied never will be.
    pub(super) fn failed(&mut self) {
        self.steps.clear();
        self.begin_again();
        self.counts.failures += 1;
    }

    fn begin_again(&mut self) {
        self.cursor = Cursor::new();
        self.latest = None;
    }

    /// Lets in what `verdict` does; how many batches that were.
    fn take(&mut self, verdict: Verdict, message: &Message<'_>, batch: Batch) -> u64 {
        match verdict {
            Verdict::Apply => {}
            Verdict::ApplyAfterLoss { missed, clear } => {
                self.counts.missed = self.counts.missed.saturating_add(missed);
                if clear {
                    self.steps.push_back(Step::Clear);
                }
            }
            Verdict::Stale | Verdict::Replay { .. } | Verdict::Restart => {
                self.counts.stale += 1;
                return 0;
            }
        }
        let progress = Progress { sequence: message.sequence, missed: self.cursor.missed() };
        self.steps.push_back(Step::Apply { batch, progress, bytes: message.payload.len() as u64 });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock_engine::{CacheEvent, Dialect, StreamFormat};

    /// What the steps say: the batches' sequences, -1 for a clear, -2 for a restart.
    fn steps(intake: &mut Intake) -> Vec<i64> {
        let word = |step| match step {
            Step::Apply { progress, .. } => i64::try_from(progress.sequence).unwrap(),
            Step::Clear => -1,
            Step::Restart => -2,
        };
        std::iter::from_fn(|| intake.next_step()).map(word).collect()
    }

    /// A batch that stores one block of its own, published at `timestamp_s`.
    fn payload(name: u64, timestamp_s: f64) -> Vec<u8> {
        let format = StreamFormat { dialect: Dialect::Vllm, rank: 0, block_size: 2 };
        let token = u32::try_from(name).unwrap();
        format.encode(timestamp_s, &[CacheEvent::Stored { parent: None, names: vec![name], tokens: vec![token, token] }])
    }

    fn message(sequence: u64, payload: &[u8]) -> Message<'_> {
        Message { topic: b"", sequence, payload }
    }

    #[test]
    fn a_gap_needs_a_replay_and_then_the_message_again() {
        let mut intake = Intake::default();
        let batches: Vec<_> = (0..4).map(|name| payload(name, 1.0)).collect();
        let live = |intake: &mut Intake, sequence: usize| intake.live(&message(sequence as u64, &batches[sequence]));
        assert_eq!(live(&mut intake, 0), Need::Nothing);
        assert_eq!(live(&mut intake, 3), Need::Replay { from: 1 });
        (1..).zip(&batches[1..]).for_each(|(sequence, batch)| intake.replayed(&message(sequence, batch)));
        assert_eq!(live(&mut intake, 3), Need::Nothing);
        assert_eq!(steps(&mut intake), [0, 1, 2, 3]);
        let expected = BatchCounts { live: 1, replayed: 3, stale: 1, ..BatchCounts::default() };
        assert_eq!(*intake.counts(), expected);
    }

    #[test]
    fn a_gap_that_cannot_be_filled_is_counted() {
        let mut intake = Intake::default();
        let batch = payload(1, 1.0);
        assert_eq!(intake.live(&message(0, &batch)), Need::Nothing);
        assert_eq!(intake.live(&message(3, &batch)), Need::Replay { from: 1 });
        assert_eq!(intake.live(&message(3, &batch)), Need::Nothing);
        assert_eq!((intake.counts().missed, intake.cursor().missed()), (2, 2));
    }

    #[test]
    fn two_lives_of_a_publisher_are_told_apart_by_what_they_say_under_one_number() {
        let mut intake = Intake::default();
        let (here, there) = (payload(1, 1.0), payload(1, 2.0));
        assert_eq!((intake.rejoin_from(), intake.is_same_life(&message(0, &here))), (0, None));
        intake.live(&message(0, &here));
        assert_eq!(intake.is_same_life(&message(0, &here)), Some(true));
        assert_eq!(intake.is_same_life(&message(0, &there)), Some(false));
        assert_eq!(intake.is_same_life(&message(1, &there)), None);
    }

    #[test]
    fn a_publisher_that_counts_from_0_again_begins_with_nothing() {
        let mut intake = Intake::default();
        let batches: Vec<_> = (0..5).map(|name| payload(name, 1.0)).collect();
        (0..).zip(&batches[..4]).for_each(|(sequence, batch)| _ = intake.live(&message(sequence, batch)));
        assert_eq!(intake.live(&message(0, &batches[4])), Need::Replay { from: 0 });
        assert_eq!(steps(&mut intake), [0, 1, 2, 3, -2]);
        assert_eq!(intake.live(&message(0, &batches[4])), Need::Nothing);
        assert_eq!((steps(&mut intake), intake.counts().restarts), (vec![0], 1));
    }

    #[test]
    fn a_resync_clears_and_takes_everything_in_again() {
        let mut intake = Intake::default();
        let batches: Vec<_> = (0..3).map(|name| payload(name, 1.0)).collect();
        (0..).zip(&batches).for_each(|(sequence, batch)| _ = intake.live(&message(sequence, batch)));
        intake.resync();
        (0..).zip(&batches).for_each(|(sequence, batch)| intake.replayed(&message(sequence, batch)));
        assert_eq!(steps(&mut intake), [0, 1, 2, -1, 0, 1, 2]);
        assert_eq!((intake.counts().resyncs, intake.cursor().missed()), (1, 0));
        intake.live(&message(2, &batches[2]));
        assert_eq!((steps(&mut intake), intake.counts().stale), (vec![], 1), "the echo of the replay");
    }

    #[test]
    fn a_failed_stream_knows_that_it_has_missed_what_came_before() {
        let mut intake = Intake::default();
        let batch = payload(1, 1.0);
        intake.live(&message(0, &batch));
        intake.failed();
        assert_eq!(steps(&mut intake), [0; 0]);
        intake.live(&message(7, &batch));
        assert_eq!((steps(&mut intake), intake.cursor().missed(), intake.counts().failures), (vec![7], 7, 1));
    }
}
