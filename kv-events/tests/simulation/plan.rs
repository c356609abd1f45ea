//! What happens in one run, drawn from its seed before it begins: any part of it can be left out, and the rest stays the same.

use std::fmt;
use std::time::Duration;

use kv_events::limits::GAP_KEPT_MAX;

use crate::random::Random;

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) ranks: Vec<RankPlan>,
    pub(crate) actions: Vec<Action>,
    /// A relay stands between the engine and its gateways. Without one, a gateway listens to the engine itself.
    pub(crate) relay: Option<RelayPlan>,
    /// The run is on a chain index; on the reference index if not.
    pub(crate) chain: bool,
}

/// How one rank is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankPlan {
    /// It has a replay socket.
    pub(crate) replays: bool,
    pub(crate) clears_at_start: bool,
    /// Batches kept for replays.
    pub(crate) window: usize,
    /// Replay answers have a topic frame.
    pub(crate) topic: bool,
}

/// How a relay is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RelayPlan {
    /// Gateways that it serves, each with every rank.
    pub(crate) gateways: usize,
    /// Batches kept of each rank.
    pub(crate) history: usize,
    /// Copies in a chunk of a snapshot.
    pub(crate) chunk: u64,
    /// It ends no stream where another life begins, as ours would: the next life comes on the same stream. Nor does it end every snapshot.
    pub(crate) glues: bool,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Action {
    /// After the one before.
    pub(crate) after: Duration,
    pub(crate) rank: usize,
    pub(crate) op: Op,
    /// Decides the details.
    pub(crate) salt: u64,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// The engine publishes a few batches.
    Work { batches: u8 },
    /// The engine empties its cache.
    Clear,
    /// Numbers are used and never sent: one, or about as many as make what is held worth nothing.
    SkipNumbers { count: u64 },
    /// The engine publishes a batch that cannot be read to its end.
    Corrupt,
    /// The engine starts again: its connections break.
    Restart { down: Duration },
    /// Its counter starts again, and no connection breaks.
    RestartInPlace,
    /// The link breaks, and is back after a while.
    Cut { down: Duration },
    /// The next messages of the link are lost.
    Drop { batches: u8 },
    /// The next message of the link comes twice.
    Duplicate,
    /// The link is slow from now on.
    Delay { by: Duration },
    /// The subscriber's own queue overflows: the next messages are lost, and it says so.
    Lag { batches: u8 },
    /// The replay socket is like this from now on.
    Replay(Socket),
    /// The gateway starts again, and knows nothing.
    GatewayRestart,
    /// The gateway's process is back with its index and its place in the stream.
    GatewayResume,
    /// The relay is gone, and another with an empty history begins after a while.
    RelayRestart { down: Duration },
    /// The connection from a gateway to the relay breaks, and cannot be had again for a while.
    ReaderCut { down: Duration },
    /// A gateway does not read what the relay sends.
    ReaderStall { time: Duration },
    /// The connection from a gateway to the relay is slow from now on.
    ReaderDelay { by: Duration },
    /// The next two messages of the engine's link change places.
    Swap,
    /// The index loses the stream.
    Fail,
    /// A message of nobody's comes: as a number that no publisher has, or a payload that is no batch.
    Garbage,
    /// The gateway's clock jumps.
    ClockJump,
    /// Nothing happens for long.
    Quiet,
}

/// How a replay socket behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Socket {
    /// It answers with all that the engine has kept.
    #[default]
    Complete,
    /// It takes the question and says nothing.
    Silent,
    /// It cannot be connected to.
    Dead,
    /// Its answers are framed as no publisher's.
    Misframed,
    /// Its answers end after a few, without an end marker.
    Breaks,
    /// It drops answers behind the first, and its end marker or not.
    Drops,
    /// It is slow: each answer takes so long that the whole may take too long.
    Slow,
}

impl Plan {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut ranks = (0..=random.below(2)).map(|_| RankPlan::draw(&mut random)).collect::<Vec<_>>();
        let relay = (seed % 2 == 1).then(|| RelayPlan { glues: seed % 8 == 5, ..RelayPlan::draw(&mut random) });
        if relay.is_some() {
            let replays = ranks[0].replays;
            ranks.iter_mut().for_each(|rank| rank.replays = replays);
        }
        let faults = random.below(4);
        let count = 10 + random.below(40);
        let actions = (0..count).map(|_| Action::draw(&mut random, ranks.len(), faults, relay.is_some())).collect();
        Self { ranks, actions, relay, chain: random.once_in(2) }
    }
}

impl RankPlan {
    fn draw(random: &mut Random) -> Self {
        let window = match random.below(4) {
            0 => random.index(7),
            1 => 6 + random.index(30),
            _ => 10_000,
        };
        Self { replays: !random.once_in(4), clears_at_start: random.once_in(3), window, topic: random.once_in(2) }
    }
}

impl RelayPlan {
    fn draw(random: &mut Random) -> Self {
        let history = match random.below(3) {
            0 => 1 + random.index(6),
            1 => 6 + random.index(30),
            _ => 10_000,
        };
        let chunk = if random.once_in(2) { 1 + random.below(4) } else { 2048 };
        Self { gateways: 1 + random.index(3), history, chunk, glues: false }
    }
}

impl Action {
    /// `faults` of 4 actions are no work.
    fn draw(random: &mut Random, ranks: usize, faults: u64, relayed: bool) -> Self {
        let op = match random.below(4) < faults {
            true if relayed && random.once_in(2) => Op::draw_relay_fault(random),
            true => Op::draw_fault(random),
            false => Op::draw_work(random),
        };
        let after = if random.once_in(3) { random.within_ms(3000) } else { random.within_ms(50) };
        Self { after, rank: random.index(ranks), op, salt: random.next() }
    }
}

impl Op {
    /// Whether all that the link may lose by it can be had from a replay socket that has kept all.
    pub(crate) fn loses_nothing(self) -> bool {
        matches!(
            self,
            Self::Work { .. }
                | Self::Clear
                | Self::Cut { .. }
                | Self::Drop { .. }
                | Self::Duplicate
                | Self::Lag { .. }
                | Self::Delay { .. }
                | Self::Quiet
                | Self::GatewayResume
                | Self::ReaderCut { .. }
                | Self::ReaderStall { .. }
                | Self::ReaderDelay { .. }
        )
    }

    /// Whether a stream without a replay socket may be worse for it for ever. Links that break leave a mark when they do.
    pub(crate) fn leaves_a_mark(self) -> bool {
        let of_engine = matches!(self, Self::SkipNumbers { .. } | Self::Corrupt | Self::RestartInPlace | Self::Fail);
        of_engine || matches!(self, Self::Drop { .. } | Self::Lag { .. } | Self::Swap)
    }

    fn draw_work(random: &mut Random) -> Self {
        match random.below(20) {
            0 => Self::Clear,
            1 => Self::Quiet,
            _ => Self::Work { batches: 1 + small(random, 4) },
        }
    }

    fn draw_fault(random: &mut Random) -> Self {
        match random.below(32) {
            0..4 => Self::Restart { down: random.within_ms(2000) },
            4 | 29 => Self::RestartInPlace,
            5..9 => Self::Cut { down: random.within_ms(4000) },
            9..13 => Self::Drop { batches: 1 + small(random, 6) },
            13 => Self::Duplicate,
            14..16 => Self::Delay { by: random.within_ms(1500) },
            16 => Self::Lag { batches: 1 + small(random, 4) },
            17..23 => Self::Replay(Socket::draw(random)),
            23 | 28 | 30 => Self::GatewayRestart,
            24 => Self::Fail,
            25 => Self::Garbage,
            26 => Self::ClockJump,
            27 => Self::Corrupt,
            31 => Self::Swap,
            _ => Self::SkipNumbers { count: if random.once_in(3) { GAP_KEPT_MAX - 8 + random.below(16) } else { 1 } },
        }
    }
}

impl Op {
    fn draw_relay_fault(random: &mut Random) -> Self {
        match random.below(16) {
            0..4 => Self::RelayRestart { down: random.within_ms(3000) },
            4..8 => Self::ReaderCut { down: random.within_ms(6000) },
            8..11 => Self::ReaderStall { time: random.within_ms(20_000) },
            11..13 => Self::ReaderDelay { by: random.within_ms(1500) },
            13..15 => Self::GatewayResume,
            _ => Self::GatewayRestart,
        }
    }
}

impl Socket {
    fn draw(random: &mut Random) -> Self {
        let all = [Self::Complete, Self::Silent, Self::Dead, Self::Misframed, Self::Breaks, Self::Drops, Self::Slow];
        all[random.index(all.len())]
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} index, {:?}", if self.chain { "chain" } else { "reference" }, self.relay)?;
        for (number, rank) in self.ranks.iter().enumerate() {
            writeln!(f, "rank {number}: {rank:?}")?;
        }
        for action in &self.actions {
            writeln!(f, "  +{:?} rank {} {:?} (salt {:x})", action.after, action.rank, action.op, action.salt)?;
        }
        Ok(())
    }
}

fn small(random: &mut Random, end: u64) -> u8 {
    u8::try_from(random.below(end)).expect("small")
}
