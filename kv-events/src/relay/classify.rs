//! Which life of its publisher a message belongs to, and whether it is new: a pure function of what is known of the stream.
//!
//! Sequence numbers alone cannot say it. A publisher that starts again counts from 0, and by the time its first message comes
//! its counter may stand anywhere: below what was seen, inside it, or beyond it. What can be compared besides numbers is bytes:
//! a publisher sends one message under a number, and the time of publication is part of it. So a message that comes again is
//! told from another life's by a digest of its payload, wherever that number is still remembered.
//!
//! # A message of the live socket
//! | number | bytes remembered | verdict |
//! |---|---|---|
//! | any, before the first | - | accept |
//! | last + 1 | - | accept |
//! | beyond | - | gap, from last + 1 |
//! | at or below last | the same | duplicate |
//! | at or below last, came by replay and not by this socket yet | none | duplicate |
//! | 0 or 1, below a last of 2 or more | other, or none | restart: the counter began again |
//! | below last | other, or none | restart: the sequence went back |
//! | last | other, or none, and the batch begins with a clear | restart: a new cache announced itself |
//! | last | other | restart: another message under this number |
//! | last | none | duplicate |
//!
//! # A message of the replay socket
//! | number | bytes remembered | verdict |
//! |---|---|---|
//! | any, before the first; last + 1 | - | accept |
//! | beyond | - | gap |
//! | at or below last | the same, or none | duplicate |
//! | at or below last | other | restart: another message under this number |
//!
//! Why the live socket's rule looks at what came by *this* socket: one connection delivers in order and each message once, so
//! what it sends a second time is another publisher's, unless a replay overtook it. A replay repeats by nature.
//!
//! A number below all that a replay brought was not brought by it either: such a message is dropped as a duplicate, but the publisher is
//! doubted, and asked.
//!
//! What remains hidden: a restart while the socket was disconnected, of a publisher that has counted past the last number by
//! then. Nothing of the live socket shows it, so whoever drives this asks the replay socket, after each reconnection and for
//! each gap, from a few numbers *below* the last one ([`compare_from`]).

use super::history::Seen;
use crate::limits::COMPARED_MAX;

/// What is known of the stream's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// The last one accepted.
    pub(super) last: Option<u64>,
    /// The highest seen on the live socket itself.
    pub(super) live_last: Option<u64>,
    /// The highest that came by replay and that the live socket has not passed yet.
    pub(super) replayed_to: Option<u64>,
}

/// A message, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Incoming {
    pub(super) sequence: u64,
    /// What is remembered under its number.
    pub(super) seen: Seen,
    /// Its first event is a clear of the whole rank.
    pub(super) begins_with_clear: bool,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The next one.
    Accept,
    /// Numbers are missing before it.
    Gap {
        /// The first missing one.
        from: u64,
    },
    /// It was accepted before.
    Duplicate,
    /// Another life's.
    Restart(Restart),
}

/// How a new life of a publisher was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Restart {
    /// It counts from 0 again.
    CounterRestarted,
    /// It counts from below.
    SequenceWentBack,
    /// Its last number came again, with the clear of a new cache.
    StartupClear,
    /// It sent another message under a number that is remembered.
    OtherMessage,
    /// Its replay socket does not know the last number any more, and no later one.
    LastForgotten,
    /// So much was lost that what is held is worth nothing, or nobody says whether it belongs to what comes. The publisher may be the
    /// same.
    TooMuchLost,
    /// Something was missing, and the publisher, which is the same, is asked for everything once more.
    Relearned,
}

impl Numbers {
    /// Judges a message of the live socket.
    pub(super) fn live(&self, incoming: Incoming) -> Verdict {
        let Some(last) = self.last else { return Verdict::Accept };
        let Incoming { sequence, seen, begins_with_clear } = incoming;
        if sequence > last {
            return beyond(sequence, last);
        }
        let echo = self.replayed_to.is_some_and(|high| sequence <= high) && self.live_last.is_none_or(|live| sequence > live);
        match seen {
            Seen::Same => Verdict::Duplicate,
            Seen::Unknown if echo => Verdict::Duplicate,
            _ if sequence <= 1 && last >= 2 => Verdict::Restart(Restart::CounterRestarted),
            _ if sequence < last => Verdict::Restart(Restart::SequenceWentBack),
            _ if begins_with_clear => Verdict::Restart(Restart::StartupClear),
            Seen::Other => Verdict::Restart(Restart::OtherMessage),
            Seen::Unknown => Verdict::Duplicate,
        }
    }

    /// Judges a message of the replay socket.
    pub(super) fn replayed(&self, sequence: u64, seen: Seen) -> Verdict {
        match self.last {
            None => Verdict::Accept,
            Some(last) if sequence > last => beyond(sequence, last),
            Some(_) if seen == Seen::Other => Verdict::Restart(Restart::OtherMessage),
            Some(_) => Verdict::Duplicate,
        }
    }

    /// The live socket brought `sequence`, accepted or a duplicate.
    pub(super) fn came_live(&mut self, sequence: u64) {
        self.last = self.last.max(Some(sequence));
        self.live_last = self.live_last.max(Some(sequence));
        self.replayed_to = self.replayed_to.filter(|high| sequence <= *high);
    }

    /// The replay socket brought `sequence`, accepted or a duplicate.
    pub(super) fn came_replayed(&mut self, sequence: u64) {
        self.last = self.last.max(Some(sequence));
        self.replayed_to = self.replayed_to.max(Some(sequence));
    }
}

impl Restart {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::CounterRestarted,
        Self::SequenceWentBack,
        Self::StartupClear,
        Self::OtherMessage,
        Self::LastForgotten,
        Self::TooMuchLost,
        Self::Relearned,
    ];

    /// The name in metrics and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CounterRestarted => "counter_restarted",
            Self::SequenceWentBack => "sequence_went_back",
            Self::StartupClear => "startup_clear",
            Self::OtherMessage => "other_message",
            Self::LastForgotten => "last_forgotten",
            Self::TooMuchLost => "too_much_lost",
            Self::Relearned => "relearned",
        }
    }
}

impl std::fmt::Display for Restart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a replay must start after `last`: at a few numbers that are remembered, so that the two lives of a publisher can be told
/// apart.
pub(super) fn compare_from(last: Option<u64>) -> u64 {
    last.map_or(0, |last| (last + 1).saturating_sub(COMPARED_MAX))
}

fn beyond(sequence: u64, last: u64) -> Verdict {
    if sequence - last == 1 { Verdict::Accept } else { Verdict::Gap { from: last + 1 } }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    const SEEN: [Seen; 3] = [Seen::Same, Seen::Other, Seen::Unknown];

    fn incoming(sequence: u64, seen: Seen) -> Incoming {
        Incoming { sequence, seen, begins_with_clear: false }
    }

    /// Drives the function through every state and input that it tells apart, and compares with the checked-in table.
    #[test]
    fn the_table_is_as_it_was_agreed() {
        let states = [
            ("nothing", Numbers::default()),
            ("at 1", Numbers { last: Some(1), live_last: Some(1), replayed_to: None }),
            ("at 5", Numbers { last: Some(5), live_last: Some(5), replayed_to: None }),
            ("at 8, 6..=8 by replay", Numbers { last: Some(8), live_last: Some(5), replayed_to: Some(8) }),
            ("at 3, all by replay", Numbers { last: Some(3), live_last: None, replayed_to: Some(3) }),
        ];
        let mut table = String::from("state, number, bytes remembered: live, live and beginning with a clear, replayed\n");
        for (name, numbers) in states {
            writeln!(table, "{name}").unwrap();
            for sequence in 0..=numbers.last.map_or(0, |last| last + 2) {
                for seen in SEEN {
                    let live = |begins_with_clear| word(numbers.live(Incoming { sequence, seen, begins_with_clear }));
                    let replayed = word(numbers.replayed(sequence, seen));
                    let seen = format!("{seen:?}").to_lowercase();
                    let row = format!("  {sequence:2} {seen:8} {:19} {:19} {replayed}", live(false), live(true));
                    writeln!(table, "{}", row.trim_end()).unwrap();
                }
            }
        }
        assert!(table == include_str!("classify.txt"), "the table is now\n{table}");
    }

    fn word(verdict: Verdict) -> String {
        match verdict {
            Verdict::Accept => "accept".into(),
            Verdict::Gap { from } => format!("gap({from})"),
            Verdict::Duplicate => "duplicate".into(),
            Verdict::Restart(restart) => restart.to_string(),
        }
    }

    // Defect 6 of behaviour.md 10.
    // #6.
    #[test]
    fn the_live_echo_of_a_replay_is_a_duplicate_and_not_a_restart() {
        let mut numbers = Numbers { last: Some(5), live_last: Some(5), replayed_to: None };
        assert_eq!(numbers.live(incoming(8, Seen::Unknown)), Verdict::Gap { from: 6 });
        for sequence in 6..=10 {
            assert_eq!(numbers.replayed(sequence, Seen::Unknown), Verdict::Accept);
            numbers.came_replayed(sequence);
        }
        for sequence in 8..=10 {
            assert_eq!(numbers.live(incoming(sequence, Seen::Unknown)), Verdict::Duplicate);
            numbers.came_live(sequence);
        }
        assert_eq!(numbers.live(incoming(11, Seen::Unknown)), Verdict::Accept);
        numbers.came_live(11);
        assert_eq!(numbers.replayed_to, None, "the live socket is past the replay");
        assert_eq!(numbers.live(incoming(9, Seen::Unknown)), Verdict::Restart(Restart::SequenceWentBack));
    }

    #[test]
    fn a_restart_inside_the_replayed_range_is_caught() {
        let mut numbers = Numbers { last: Some(10), live_last: Some(8), replayed_to: Some(10) };
        assert_eq!(numbers.live(incoming(7, Seen::Unknown)), Verdict::Restart(Restart::SequenceWentBack), "it was live before");
        assert_eq!(numbers.live(incoming(9, Seen::Other)), Verdict::Restart(Restart::SequenceWentBack), "and its bytes differ");
        assert_eq!(numbers.live(incoming(9, Seen::Same)), Verdict::Duplicate);
        numbers.came_live(9);
        assert_eq!(numbers.live(incoming(9, Seen::Unknown)), Verdict::Restart(Restart::SequenceWentBack));
    }

    // smg-project/smg#742: seen on the first lower sequence.
    #[test]
    fn a_lower_number_is_a_restart_at_once() {
        let numbers = Numbers { last: Some(5_000), live_last: Some(5_000), replayed_to: None };
        for (sequence, cause) in
            [(0, Restart::CounterRestarted), (1, Restart::CounterRestarted), (4_999, Restart::SequenceWentBack)]
        {
            assert_eq!(numbers.live(incoming(sequence, Seen::Unknown)), Verdict::Restart(cause));
        }
    }

    #[test]
    fn a_replay_reaches_below_the_last_number() {
        assert_eq!([None, Some(0), Some(COMPARED_MAX + 6)].map(compare_from), [0, 0, 7]);
    }

    #[test]
    fn no_number_overflows() {
        let numbers = Numbers { last: Some(u64::MAX - 1), live_last: Some(0), replayed_to: Some(u64::MAX - 1) };
        assert_eq!(numbers.live(incoming(u64::MAX, Seen::Unknown)), Verdict::Accept);
        assert_eq!(Numbers { last: Some(0), ..numbers }.live(incoming(u64::MAX, Seen::Unknown)), Verdict::Gap { from: 1 });
    }
}
