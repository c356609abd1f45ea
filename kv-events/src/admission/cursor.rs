//! Which batches of a stream are applied, by their numbers alone.
//!
//! | batch | what happens |
//! |---|---|
//! | first | applied; what came before it is missed, unless it is number 0 |
//! | last + 1 | applied |
//! | came by replay, and not by this socket yet | stale |
//! | beyond last + 1 | replay from last + 1 once; then what is still missing is missed |
//! | at or below the last live one | a restart if the batch clears, is the first of a connection, is number 0 or 1, or lies 1,024 below; else stale |
//!
//! The caller drives it: after [`Verdict::Replay`] it feeds what the replay socket has to [`Cursor::admit_replayed`] and then
//! admits the same batch again; after [`Verdict::Restart`] it restarts the stream ([`Stream::restart`](crate::Stream::restart)),
//! replays from 0 if it can, and admits the same batch again. A [`Follower`](super::Follower) does all this, and compares what
//! the batches say besides; a cursor by itself is for recordings.

use crate::limits::{GAP_KEPT_MAX, RESTART_DISTANCE};

/// The place of one stream in its publisher's sequence, and what it is known to have missed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    last: Option<u64>,
    /// The highest sequence seen on the live socket itself. Kept over replays and reconnections: one publisher sends no
    /// sequence twice, so a batch at or below it is never the echo of a replay.
    live_last: Option<u64>,
    /// The sequences, from the first to the last, that came by replay and not yet by the live socket.
    replayed: Option<(u64, u64)>,
    /// A replay was asked for the gap behind `last`.
    asked: bool,
    /// No batch has come on this connection yet.
    fresh: bool,
    unknown_before: u64,
    lost: u64,
}

/// What to do with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Apply it.
    Apply,
    /// Leave it: it was applied before.
    Stale,
    /// Batches are missing before it. Replay from `from`, then admit it again.
    Replay {
        /// The first missing sequence.
        from: u64,
    },
    /// Apply it, though `missed` batches before it are lost. The stream is degraded.
    ApplyAfterLoss {
        /// Batches lost before it.
        missed: u64,
        /// So many that what is held is worth nothing: clear the stream first.
        clear: bool,
    },
    /// The publisher started again. Restart the stream, replay from 0 if there is a replay socket, then admit it again.
    Restart,
}

impl Cursor {
    /// Before the first batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// After a snapshot of what was held after batch `through`, from which `unknown_before` batches are missing, and `lost` ones that
    /// may have removed what it tells.
    pub(super) fn resumed(through: u64, unknown_before: u64, lost: u64) -> Self {
        Self { last: Some(through), live_last: Some(through), unknown_before, lost, ..Self::default() }
    }

    /// The last applied sequence.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// Where a replay should start: after what was applied.
    pub fn next(&self) -> u64 {
        self.last.map_or(0, |last| last.saturating_add(1))
    }

    /// Batches that are known to be missing since the stream last started from nothing. Above 0, the index may be wrong.
    pub fn missed(&self) -> u64 {
        self.unknown_before.saturating_add(self.lost)
    }

    /// The part of [`missed`](Self::missed) that was published before what the index holds now: before the first batch that
    /// came, or before a gap so long that the stream was cleared. It hides blocks from the index, and never leaves it one
    /// that is gone.
    pub fn unknown_before(&self) -> u64 {
        self.unknown_before
    }

    /// The live socket connected again: its next batch may be another publisher's.
    pub fn reconnected(&mut self) {
        self.fresh = true;
    }

    /// Judges a batch of the live socket. `clears`: it holds a clear of the whole rank.
    pub fn admit_live(&mut self, sequence: u64, clears: bool) -> Verdict {
        let Some(last) = self.last else {
            self.fresh = false;
            self.live_last = Some(sequence);
            return self.take(sequence, sequence, clears);
        };
        let seen_live = self.live_last.is_some_and(|live| sequence <= live);
        if !seen_live && self.replayed.is_some_and(|(low, high)| (low..=high).contains(&sequence)) {
            self.live_last = Some(sequence);
            self.fresh = false;
            return Verdict::Stale;
        }
        let fresh = std::mem::take(&mut self.fresh);
        if sequence <= last {
            return self.behind(sequence, last, clears, fresh);
        }
        let verdict = self.ahead(sequence, last, clears);
        if !matches!(verdict, Verdict::Replay { .. }) {
            self.live_last = Some(sequence);
            self.replayed = None;
        }
        verdict
    }

    /// Judges a batch of the replay socket.
    pub fn admit_replayed(&mut self, sequence: u64, clears: bool) -> Verdict {
        let verdict = match self.last {
            None => self.take(sequence, sequence, clears),
            Some(last) if sequence <= last => return Verdict::Stale,
            // A hole in the middle of a replay: asking again would not fill it.
            Some(last) => {
                self.asked = true;
                self.ahead(sequence, last, clears)
            }
        };
        self.replayed = Some((self.replayed.map_or(sequence, |(low, _)| low), sequence));
        verdict
    }

    fn ahead(&mut self, sequence: u64, last: u64, clears: bool) -> Verdict {
        let missing = sequence - last - 1;
        if missing > 0 && !self.asked {
            self.asked = true;
            return Verdict::Replay { from: last + 1 };
        }
        self.take(sequence, missing, clears)
    }

    fn behind(&mut self, sequence: u64, last: u64, clears: bool, fresh: bool) -> Verdict {
        let below = sequence < last;
        let restarted = clears || (below && (fresh || sequence <= 1)) || last - sequence >= RESTART_DISTANCE;
        if restarted {
            *self = Self::default();
            return Verdict::Restart;
        }
        self.live_last = self.live_last.max(Some(sequence));
        Verdict::Stale
    }

    /// Moves to `sequence`, before which `missing` batches never came. A clear makes up for all that was missed; a stream that
    /// is thrown away for what it missed starts from nothing, as one that joined late does.
    fn take(&mut self, sequence: u64, missing: u64, clears: bool) -> Verdict {
        let first = self.last.is_none();
        let clear = missing > GAP_KEPT_MAX;
        self.last = Some(sequence);
        self.asked = false;
        (self.unknown_before, self.lost) = match (clears, first || clear) {
            (true, _) => (0, 0),
            (false, true) => (self.missed().saturating_add(missing), 0),
            (false, false) => (self.unknown_before, self.lost.saturating_add(missing)),
        };
        if missing == 0 || first || clears { Verdict::Apply } else { Verdict::ApplyAfterLoss { missed: missing, clear } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sequence: u64) -> Cursor {
        let mut cursor = Cursor::new();
        (0..=sequence).for_each(|sequence| assert_eq!(cursor.admit_live(sequence, false), Verdict::Apply));
        cursor
    }

    #[test]
    fn a_gap_is_replayed_once_and_then_owned_up_to() {
        let mut cursor = at(5);
        assert_eq!(cursor.admit_live(8, false), Verdict::Replay { from: 6 });
        assert_eq!([6, 7].map(|sequence| cursor.admit_replayed(sequence, false)), [Verdict::Apply; 2]);
        assert_eq!((cursor.admit_live(8, false), cursor.missed()), (Verdict::Apply, 0));
        assert_eq!(cursor.admit_live(12, false), Verdict::Replay { from: 9 });
        assert_eq!(cursor.admit_live(12, false), Verdict::ApplyAfterLoss { missed: 3, clear: false });
        assert_eq!((cursor.missed(), cursor.last(), cursor.next()), (3, Some(12), 13));
    }

    #[test]
    fn a_gap_of_more_than_1024_clears() {
        let mut cursor = at(5);
        cursor.admit_live(1031, false);
        assert_eq!(cursor.admit_live(1031, false), Verdict::ApplyAfterLoss { missed: 1025, clear: true });
        assert_eq!((cursor.missed(), cursor.unknown_before()), (1025, 1025), "what is held now is all true");
        let mut cursor = at(5);
        cursor.admit_live(1030, false);
        assert_eq!(cursor.admit_live(1030, false), Verdict::ApplyAfterLoss { missed: 1024, clear: false });
        assert_eq!((cursor.missed(), cursor.unknown_before()), (1024, 0));
    }

    #[test]
    fn a_replay_that_overran_is_no_restart() {
        let mut cursor = at(5);
        assert_eq!(cursor.admit_live(8, false), Verdict::Replay { from: 6 });
        (6..=10).for_each(|sequence| assert_eq!(cursor.admit_replayed(sequence, false), Verdict::Apply));
        assert_eq!([8, 9, 10].map(|sequence| cursor.admit_live(sequence, sequence == 9)), [Verdict::Stale; 3]);
        assert_eq!(cursor.admit_live(11, false), Verdict::Apply);
    }

    #[test]
    fn a_start_replays_first_and_skips_what_the_live_socket_queued() {
        let mut cursor = Cursor::new();
        assert_eq!(cursor.next(), 0);
        (0..=3).for_each(|sequence| assert_eq!(cursor.admit_replayed(sequence, sequence == 0), Verdict::Apply));
        // SGLang's startup clear was queued on the live socket too.
        assert_eq!([0, 1, 2, 3].map(|sequence| cursor.admit_live(sequence, sequence == 0)), [Verdict::Stale; 4]);
        assert_eq!((cursor.admit_live(4, false), cursor.missed()), (Verdict::Apply, 0));
    }

    #[test]
    fn restarts_are_seen_on_every_wire() {
        for (last, sequence, clears, reconnected) in [
            (5, 0, false, false),
            (5, 1, false, false),
            (5, 5, true, false),
            (5, 3, true, false),
            (5, 4, false, true),
            (2000, 900, false, false),
        ] {
            let mut cursor = at(last);
            if reconnected {
                cursor.reconnected();
            }
            assert_eq!(cursor.admit_live(sequence, clears), Verdict::Restart, "{sequence} after {last}");
            assert_eq!((cursor.admit_live(sequence, clears), cursor.last()), (Verdict::Apply, Some(sequence)));
        }
    }

    #[test]
    fn repeats_of_the_cursor_are_stale() {
        let mut cursor = at(5);
        (0..50).for_each(|_| assert_eq!(cursor.admit_live(5, false), Verdict::Stale));
        assert_eq!(cursor.admit_live(4, false), Verdict::Stale);
        cursor.reconnected();
        assert_eq!((cursor.admit_live(5, false), cursor.admit_live(6, false)), (Verdict::Stale, Verdict::Apply));
    }

    #[test]
    fn a_late_join_says_what_it_missed_until_a_clear() {
        let mut cursor = Cursor::new();
        assert_eq!((cursor.admit_live(40, false), cursor.missed(), cursor.unknown_before()), (Verdict::Apply, 40, 40));
        assert_eq!((cursor.admit_live(41, true), cursor.missed()), (Verdict::Apply, 0));
    }

    #[test]
    fn a_replay_that_starts_late_or_has_a_hole_says_so() {
        let mut cursor = Cursor::new();
        assert_eq!((cursor.admit_replayed(7, false), cursor.missed()), (Verdict::Apply, 7));
        assert_eq!(cursor.admit_replayed(10, false), Verdict::ApplyAfterLoss { missed: 2, clear: false });
        assert_eq!((cursor.missed(), cursor.unknown_before()), (9, 7));
    }

    #[test]
    fn a_restart_inside_the_replayed_range_is_seen() {
        let mut cursor = at(5);
        assert_eq!(cursor.admit_live(8, false), Verdict::Replay { from: 6 });
        (6..=10).for_each(|sequence| assert_eq!(cursor.admit_replayed(sequence, false), Verdict::Apply));
        assert_eq!(cursor.admit_live(8, false), Verdict::Stale);
        assert_eq!(cursor.admit_live(0, false), Verdict::Restart);
    }

    #[test]
    fn a_number_before_all_that_was_replayed_is_no_echo_of_it() {
        let mut cursor = Cursor::new();
        (1..=3).for_each(|sequence| assert_eq!(cursor.admit_replayed(sequence, false), Verdict::Apply));
        assert_eq!((cursor.admit_live(2, false), cursor.admit_live(0, false)), (Verdict::Stale, Verdict::Restart));
    }

    #[test]
    fn a_restart_between_a_replay_and_the_next_live_batch_is_seen() {
        let replayed = |mut cursor: Cursor| {
            (6..=10).for_each(|sequence| assert_eq!(cursor.admit_replayed(sequence, false), Verdict::Apply));
            cursor
        };
        assert_eq!(replayed(at(5)).admit_live(0, false), Verdict::Restart, "0 came live before");
        let mut cursor = at(5);
        cursor.reconnected();
        assert_eq!(replayed(cursor.clone()).admit_live(3, false), Verdict::Restart, "and so did 3");
        assert_eq!(replayed(cursor.clone()).admit_live(6, false), Verdict::Stale, "6 came by replay only");
        let mut echoed = replayed(cursor);
        assert_eq!(echoed.admit_live(8, false), Verdict::Stale);
        echoed.reconnected();
        assert_eq!(echoed.admit_live(7, false), Verdict::Restart, "7 came before 8 if it came live at all");
    }

    #[test]
    fn what_the_live_socket_brought_is_known_from_its_first_batch_on() {
        let mut late = Cursor::new();
        assert_eq!(late.admit_live(40, false), Verdict::Apply);
        assert_eq!(late.admit_replayed(41, false), Verdict::Apply);
        late.reconnected();
        assert_eq!(late.admit_live(40, false), Verdict::Restart);
        let mut repeated = at(12);
        assert_eq!(repeated.admit_live(11, false), Verdict::Stale);
        assert_eq!(repeated.admit_replayed(13, false), Verdict::Apply);
        repeated.reconnected();
        assert_eq!(repeated.admit_live(12, false), Verdict::Restart, "a late repeat of 11 does not undo 12");
    }

    #[test]
    fn the_highest_sequences_are_ordinary() {
        let mut cursor = Cursor::new();
        assert_eq!(cursor.admit_live(u64::MAX - 1, false), Verdict::Apply);
        assert_eq!(cursor.admit_live(u64::MAX - 2, false), Verdict::Stale);
        assert_eq!(cursor.admit_live(u64::MAX, false), Verdict::Apply);
        assert_eq!((cursor.next(), cursor.missed()), (u64::MAX, u64::MAX - 1));
        assert_eq!(cursor.admit_live(u64::MAX - 1024, false), Verdict::Restart);
    }

    #[test]
    fn a_first_connection_is_not_fresh_for_ever() {
        let mut cursor = Cursor::new();
        cursor.reconnected();
        assert_eq!([7, 6].map(|sequence| cursor.admit_live(sequence, false)), [Verdict::Apply, Verdict::Stale]);
    }
}
