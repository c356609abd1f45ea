//! A relay as the source: it names lives, resumes behind any position, and sends snapshots.

use std::time::Duration;

use super::cursor::{Cursor, Verdict};
use super::delivery::Delivery;
use super::follower::{Anchor, Doubt, Follower, Repair, Source};
use super::orders::{Change, Request};
use crate::{Batch, Incarnation, Position};

/// A part of a snapshot: all that the rank held after one batch, in several pieces.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotPart {
    /// The life.
    pub incarnation: Incarnation,
    /// The last batch whose effects the snapshot holds. The stream goes on behind it.
    pub through: u64,
    /// Its place among the parts, from 0.
    pub index: u32,
    /// How many parts there are.
    pub count: u32,
    /// Batches that the relay never saw, from before the first that it did. They hide blocks from the snapshot.
    pub unknown_before: u64,
    /// Batches that the relay lost since. They may have removed what the snapshot tells.
    pub lost: u64,
    /// Length of its message.
    pub bytes: usize,
    /// The stores of this part.
    pub batch: Batch,
}

/// How it stands with a relay's stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Resumption {
    /// Nothing is taken before the next connection.
    pub(super) awaits_link: bool,
    /// It was asked for everything: its first batch is not to be judged by the ones before it.
    pub(super) from_nothing: bool,
    /// The next part of the snapshot under way.
    pub(super) snapshot_next: Option<u32>,
    /// The batch that it reaches, and how many parts it has.
    snapshot_frame: (u64, u32),
    /// Batches that its relay lost: what its parts tell may be gone, from the first one on.
    pub(super) snapshot_lost: u64,
}

impl Follower {
    /// The relay ended the stream because it cannot resume it (`OUT_OF_RANGE`), or because the publisher's life ended or we were
    /// too slow (`DATA_LOSS`): everything is learned anew.
    pub fn handle_rejected(&mut self, now: Duration) {
        self.clock.advance(now);
        self.link.connected = false;
        if self.source == Source::Relay {
            self.learn_anew();
        }
        self.settle();
    }

    /// Nothing that is held can be trusted, and there is no place to resume from.
    fn learn_anew(&mut self) {
        self.begin_life();
        self.resubscribe(None);
    }

    /// The relay says, without a batch (`load_only`), that `sequence` is the last that it sent; and, if it `vouches`, that the
    /// publisher has no other behind it. It enters no cursor; but if it is not the last here, the end of the stream was lost; if it is
    /// of another life, all that is held is of one that is over; and amid a snapshot, the rest of that will not come.
    pub fn handle_heartbeat(&mut self, now: Duration, incarnation: Incarnation, sequence: u64, vouches: bool) {
        self.active_at = self.clock.advance(now);
        let follows = self.source == Source::Relay && !self.resumption.awaits_link;
        let is_amid_snapshot = self.resumption.snapshot_next.is_some();
        match self.cursor.last().filter(|_| follows) {
            _ if follows && is_amid_snapshot => self.learn_anew(),
            Some(_) if incarnation != self.incarnation => self.learn_anew(),
            Some(last) if last == sequence => self.link.confirmed = vouches,
            Some(last) if last < sequence => self.resubscribe(self.position()),
            _ => {}
        }
        self.settle();
    }

    /// The relay says with each message, before what else it says, whether it knows that the publisher is the one whose batches it
    /// sent before. While it does not, what is held may be another life's.
    pub fn handle_doubt(&mut self, now: Duration, doubted: bool) {
        self.clock.advance(now);
        if self.source == Source::Relay && !self.resumption.awaits_link {
            self.doubt = if doubted { Doubt::Open } else { Doubt::None };
        }
        self.settle();
    }

    /// A part of a snapshot came. It stands outside of the rules for batches.
    pub fn handle_snapshot(&mut self, now: Duration, part: SnapshotPart) {
        self.active_at = self.clock.advance(now);
        if self.source == Source::Relay && !self.resumption.awaits_link {
            self.snapshot_part(part);
        }
        self.settle();
    }

    fn snapshot_part(&mut self, part: SnapshotPart) {
        let expected = self.resumption.snapshot_next.unwrap_or(0);
        let frame = (part.through, part.count);
        if part.index == 0 {
            self.resumption.from_nothing = false;
            self.counts.rebuilds += 1;
            self.incarnation = part.incarnation;
            self.forget();
            self.clear(Change::Restart);
            self.resumption.snapshot_frame = frame;
        } else if part.index != expected || part.incarnation != self.incarnation || frame != self.resumption.snapshot_frame {
            // A part is missing, or of another snapshot: what came is not all, and there is no place to resume from.
            return self.learn_anew();
        }
        self.counts.snapshot += 1;
        let is_last = part.index.saturating_add(1) >= part.count;
        self.resumption.snapshot_next = (!is_last).then_some(part.index.saturating_add(1));
        // With the last part it is the cursor's.
        self.resumption.snapshot_lost = if is_last { 0 } else { part.lost };
        if is_last {
            self.cursor = Cursor::resumed(part.through, part.unknown_before, part.lost);
            self.anchor = Some(Anchor { sequence: part.through, fingerprint: None });
            self.link.proven = true;
            let is_whole = part.unknown_before == 0 && part.lost == 0;
            self.repair = if is_whole { Repair::Possible } else { Repair::Impossible };
        }
        self.push(Change::Apply { sequence: part.through, bytes: part.bytes, batch: part.batch });
    }

    /// Judges a batch of a relay.
    pub(super) fn relayed(&mut self, delivery: Delivery) {
        if self.resumption.awaits_link {
            self.counts.late += 1;
            return;
        }
        if self.resumption.snapshot_next.is_some() {
            // A snapshot comes whole before what follows it.
            return self.learn_anew();
        }
        if std::mem::take(&mut self.resumption.from_nothing) && self.cursor.last().is_some() {
            let repair = self.repair;
            self.forget();
            self.clear(Change::Clear);
            self.repair = repair;
        }
        self.adopt(delivery.incarnation);
        let clears = delivery.batch.clears();
        match self.cursor.admit_live(delivery.sequence, clears) {
            Verdict::Stale => self.counts.stale += 1,
            Verdict::Replay { .. } => self.resubscribe(self.position()),
            Verdict::Restart => self.learn_anew(),
            verdict => self.apply_live(delivery, verdict),
        }
    }

    /// A batch says which life it is of.
    fn adopt(&mut self, named: Option<Incarnation>) {
        let Some(named) = named.filter(|named| *named != self.incarnation) else { return };
        if self.cursor.last().is_some() {
            self.begin_life();
        }
        self.incarnation = named;
    }

    /// The connection to the relay is gone. Half a snapshot is worth nothing.
    pub(super) fn relay_gone(&mut self) {
        if self.resumption.snapshot_next.is_some() {
            self.begin_life();
        }
        if !self.resumption.awaits_link {
            self.resubscribe(self.position());
        }
    }

    /// Asks for everything, once: what a relay cannot repair then, it cannot later.
    pub(super) fn resubscribe_from_nothing(&mut self) {
        self.repair = Repair::Impossible;
        self.resubscribe(None);
    }

    pub(super) fn resubscribe(&mut self, after: Option<Position>) {
        self.counts.resubscriptions += 1;
        (self.link.confirmed, self.resumption.awaits_link, self.retry_at) = (false, true, None);
        self.resumption.from_nothing = after.is_none();
        if self.cursor.last().is_none() {
            // Nothing is held of which anything could be doubted.
            self.doubt = Doubt::None;
        }
        self.request = Some(Request::Resubscribe { after });
    }
}
