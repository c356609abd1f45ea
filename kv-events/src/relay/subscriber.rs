//! One reader of the relay: a place in the window of every rank, and nothing that grows.

use std::sync::Arc;
use std::time::Duration;

use super::end::{End, OutOfRange, Refusal};
use super::history::{After, Kept};
use super::load::{LoadSample, Pulse};
use super::rank::Rank;
use super::snapshot::{Cut, Snapshot};
use crate::limits::RELAY_CUTS_MAX;
use crate::{Incarnation, Position};

/// What a subscriber gets next.
#[derive(Debug)]
pub enum Next {
    /// The next batch of a rank.
    Batch(Relayed),
    /// A rank's whole state, which its reader takes in at its own pace. What comes next of the rank follows it.
    Snapshot(Box<Snapshot>),
    /// A rank is quiet; this is its load.
    Heartbeat(Heartbeat),
    /// Nothing now. Something may come with whatever the relay is given next, and at this time at the latest.
    Wait {
        /// When to ask again though nothing came.
        until: Option<Duration>,
    },
    /// Nothing any more: the subscription is over.
    End(End),
}

/// A batch as a subscriber gets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Relayed {
    /// The rank.
    pub rank: u32,
    /// The life of the rank's publisher.
    pub incarnation: Incarnation,
    /// Batches directly before it that nobody has any more.
    pub missed: u64,
    /// It is not known whether its publisher is the one of the batches before it.
    pub doubted: bool,
    /// The batch.
    pub batch: Kept,
    /// The rank's load.
    pub load: Option<LoadSample>,
}

/// A sign of life.
#[derive(Clone, Debug, PartialEq)]
pub struct Heartbeat {
    /// The rank.
    pub rank: u32,
    /// The life of the rank's publisher.
    pub incarnation: Incarnation,
    /// The last batch that was sent, once more.
    pub sequence: u64,
    /// Whether the engine has nothing behind it, as far as the relay can know. Not while the engine is away, has not answered, or has
    /// no replay socket: the sequence is then the last that the relay knows.
    pub vouched: bool,
    /// It is not known whether the publisher is still the one whose batches were sent.
    pub doubted: bool,
    /// The rank's load, if it is known.
    pub load: Option<LoadSample>,
}

#[derive(Debug)]
pub(super) struct Subscriber {
    readers: Vec<Reader>,
    /// Which rank is looked at first.
    turn: usize,
}

/// A subscriber's place in one rank.
#[derive(Debug)]
struct Reader {
    /// The rank, and its place among all.
    number: u32,
    incarnation: Incarnation,
    /// To be told before anything else.
    cut: Option<Arc<Cut>>,
    /// Nothing: whatever comes first.
    next: Option<u64>,
    pulse: Pulse,
    /// What the last heartbeat said.
    vouched: bool,
    /// What the last message said.
    doubted: bool,
}

impl Subscriber {
    /// A reader of the `wanted` of all `ranks`, resumed where `positions` say. Those of others are left alone.
    pub(super) fn begin(
        now: Duration,
        ranks: &mut [Rank],
        wanted: &[u32],
        positions: &[(u32, Position)],
    ) -> Result<Self, Refusal> {
        let is_wanted = |rank: u32| wanted.is_empty() || wanted.contains(&rank);
        let usable = positions.iter().filter(|position| is_wanted(position.0));
        let mut refused: Vec<_> = usable.filter_map(|&(rank, position)| Some((rank, unusable(ranks, rank, position)?))).collect();
        let count = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
        refused
            .extend(wanted.iter().filter(|&&rank| rank >= count).map(|&rank| (rank, OutOfRange::UnknownRank { ranks: count })));
        if !refused.is_empty() {
            return Err(Refusal::OutOfRange(refused));
        }
        let mut readers = Vec::with_capacity(ranks.len());
        for (number, rank) in (0..).zip(ranks).filter(|(number, _)| is_wanted(*number)) {
            let position = positions.iter().find(|position| position.0 == number).map(|position| position.1);
            readers.push(Reader::begin(now, number, rank, position)?);
        }
        Ok(Self { readers, turn: 0 })
    }

    /// Lets go of states that lead nowhere any more, whether or not its reader ever comes for them.
    pub(super) fn let_go(&mut self, ranks: &[Rank]) {
        for reader in &mut self.readers {
            let rank = reader.rank(ranks);
            let oldest = rank.history.oldest();
            let leads = |cut: &Cut| {
                reader.incarnation == rank.incarnation() && oldest.is_some_and(|oldest| cut.standing().through + 1 >= oldest)
            };
            if let Some(cut) = reader.cut.take_if(|cut| !leads(cut)) {
                reader.next = Some(cut.standing().through + 1);
            }
        }
    }

    /// What comes next, each rank in its turn.
    pub(super) fn poll(&mut self, now: Duration, ranks: &[Rank]) -> Next {
        let count = self.readers.len();
        for step in 0..count {
            let at = (self.turn + step) % count;
            if let Some(next) = self.readers[at].next(now, ranks) {
                self.turn = at + 1;
                return next;
            }
        }
        let beat = self.readers.iter_mut().find_map(|reader| reader.beat(now, ranks));
        beat.map_or_else(
            || Next::Wait { until: self.readers.iter().filter_map(|reader| reader.pulse.next()).min() },
            Next::Heartbeat,
        )
    }
}

impl Reader {
    fn begin(now: Duration, number: u32, rank: &mut Rank, position: Option<Position>) -> Result<Self, Refusal> {
        let (incarnation, pulse) = (rank.incarnation(), Pulse::default());
        let mut reader = Self { number, incarnation, cut: None, next: None, pulse, vouched: false, doubted: false };
        match position {
            Some(position) => {
                reader.next = Some(position.sequence + 1);
                reader.pulse = Pulse::resumed(now);
            }
            None if rank.history.is_complete_from_start() => reader.next = Some(0),
            None if rank.last().is_some() => {
                reader.cut = rank.cut();
                if reader.cut.is_none() {
                    return Err(Refusal::TooManySnapshots { rank: number, limit: RELAY_CUTS_MAX });
                }
            }
            None => rank.prime(now),
        }
        Ok(reader)
    }

    fn rank<'a>(&self, ranks: &'a [Rank]) -> &'a Rank {
        &ranks[self.number as usize]
    }

    fn next(&mut self, now: Duration, ranks: &[Rank]) -> Option<Next> {
        let (number, rank) = (self.number, self.rank(ranks));
        if self.incarnation != rank.incarnation() {
            return Some(Next::End(End::Restarted { rank: number }));
        }
        let load = rank.load.as_ref();
        if let Some(cut) = self.cut.take() {
            self.next = Some(cut.standing().through + 1);
            self.doubted = cut.standing().doubted;
            return Some(Next::Snapshot(Box::new(Snapshot::new(cut, self.pulse.with_batch(now, load)))));
        }
        let next = self.next.or(rank.first())?;
        if let Some(oldest) = rank.history.oldest().filter(|oldest| next < *oldest) {
            return Some(Next::End(End::LeftBehind { rank: number, oldest, next }));
        }
        let batch = rank.history.next(next)?.clone();
        self.next = Some(batch.sequence + 1);
        let (incarnation, missed, doubted) = (self.incarnation, batch.sequence - next, rank.doubts(batch.sequence));
        self.doubted = doubted;
        Some(Next::Batch(Relayed { rank: number, incarnation, missed, doubted, batch, load: self.pulse.with_batch(now, load) }))
    }

    fn beat(&mut self, now: Duration, ranks: &[Rank]) -> Option<Heartbeat> {
        let rank = self.rank(ranks);
        let sequence = self.next?.checked_sub(1)?;
        // That a relay can vouch, or doubts, or does not any more, is said at once: a stream that is never quiet has no other heartbeats.
        let (vouched, doubted) = (rank.vouches(), rank.doubts(sequence));
        let is_news = (vouched, doubted) != (self.vouched, self.doubted);
        if !self.pulse.is_due(now, rank.load.as_ref()) && !is_news {
            return None;
        }
        (self.vouched, self.doubted) = (vouched, doubted);
        let load = self.pulse.beat(now, rank.load.as_ref());
        Some(Heartbeat { rank: self.number, incarnation: self.incarnation, sequence, vouched, doubted, load })
    }
}

/// Why `position` cannot be resumed.
fn unusable(ranks: &[Rank], rank: u32, position: Position) -> Option<OutOfRange> {
    let Some(known) = ranks.get(rank as usize) else {
        return Some(OutOfRange::UnknownRank { ranks: u32::try_from(ranks.len()).unwrap_or(u32::MAX) });
    };
    let (current, got) = (known.incarnation(), position.sequence);
    if position.incarnation != current {
        return Some(OutOfRange::ForeignIncarnation { current, got: position.incarnation });
    }
    match known.history.after(got) {
        After::From { .. } => None,
        After::Empty => Some(OutOfRange::Empty { got }),
        After::Ahead { newest } => Some(OutOfRange::Ahead { newest, got }),
        After::Behind { oldest } => Some(match known.first() {
            Some(first) if got + 1 < first => OutOfRange::BeforeStart { first, got },
            _ => OutOfRange::Behind { oldest, got },
        }),
    }
}
