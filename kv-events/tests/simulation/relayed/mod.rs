//! A relay on the engine's sockets, and gateways that read from it.

mod check;
mod line;
mod reader;

use std::time::Duration;

use kv_events::relay::{Options, ReplayEnd, ReplayRequest};
use kv_events::wire::frame;
use kv_index::Index;

use self::line::Sidecar;
use self::reader::Reader;
use crate::listener::{Ends, Failure, Listener, Question, Site};
use crate::plan::{Op, Plan, RelayPlan};
use crate::random::Random;
use crate::source::{Answer, Live, read_answer};

/// One relay, and a reader of each rank in each gateway.
pub(crate) struct Relayed<I: Index> {
    index: I,
    sidecar: Sidecar,
    options: Options,
    /// Gateway by gateway, and in each rank by rank.
    readers: Vec<Reader<I>>,
    ranks: usize,
}

impl<I: Index> Relayed<I> {
    pub(crate) fn new(plan: &Plan, relay: &RelayPlan, index: I) -> Self {
        let ranks = plan.ranks.len();
        let options = Options {
            ranks: u32::try_from(ranks).expect("few"),
            replays: plan.ranks.iter().all(|rank| rank.replays),
            history_batches: relay.history,
            chunk_blocks: relay.chunk,
            ..Options::default()
        };
        let sidecar = Sidecar::new(Duration::ZERO, options, Duration::ZERO);
        let numbers = (0..relay.gateways).flat_map(|_| 0..options.ranks);
        let readers = numbers.map(|rank| Reader::new(&index, rank, relay.glues)).collect();
        Self { index, sidecar, options, readers, ranks }
    }

    /// Everybody gets what there is for them.
    fn serve(&mut self, now: Duration, random: &mut Random) {
        for reader in &mut self.readers {
            reader.run(now, &mut self.sidecar, random);
        }
    }

    fn restart(&mut self, now: Duration, down: Duration) -> Ends {
        self.sidecar = Sidecar::new(now, self.options, now + down);
        self.readers.iter_mut().for_each(|reader| reader.cut_off(now, None, &mut self.sidecar));
        Ends::All { down }
    }
}

impl<I: Index> Listener for Relayed<I> {
    fn live(&mut self, now: Duration, rank: usize, live: &Live, random: &mut Random) {
        let (relay, number) = (&mut self.sidecar.relay, u32::try_from(rank).expect("few"));
        match live {
            Live::Connected => relay.handle_connected(now, number),
            Live::Disconnected => relay.handle_disconnected(number),
            // The next message is behind a gap, or the silence after the last one is asked about.
            Live::Lagged => {}
            Live::Message(frames) => {
                if let Ok(message) = frame::live(frames) {
                    relay.handle_live(now, number, message.sequence, message.payload);
                }
            }
        }
        self.serve(now, random);
    }

    fn answer(&mut self, now: Duration, rank: usize, session: u64, answer: &Answer, random: &mut Random) {
        let request = ReplayRequest { rank: u32::try_from(rank).expect("few"), ticket: session, from: 0 };
        let relay = &mut self.sidecar.relay;
        match answer {
            Answer::Message(frames) => {
                if let Some(message) = read_answer(frames) {
                    relay.handle_replayed(now, request, message.sequence, message.payload);
                }
            }
            Answer::Complete => relay.handle_replay_end(now, request, ReplayEnd::Complete),
            Answer::Incomplete => relay.handle_replay_end(now, request, ReplayEnd::Incomplete),
        }
        self.serve(now, random);
    }

    fn next_timeout(&self) -> Option<Duration> {
        let readers = self.readers.iter().filter_map(Reader::next_timeout);
        readers.chain(self.sidecar.relay.next_timeout()).min()
    }

    fn timeout(&mut self, now: Duration, random: &mut Random) {
        self.sidecar.relay.handle_timeout(now);
        self.serve(now, random);
    }

    fn question(&mut self) -> Option<Question> {
        let ReplayRequest { rank, ticket, from } = self.sidecar.relay.poll_request()?;
        Some(Question { rank: rank as usize, session: ticket, from })
    }

    fn act(&mut self, now: Duration, rank: usize, op: Op, random: &mut Random) -> Ends {
        if let Op::RelayRestart { down } = op {
            return self.restart(now, down);
        }
        let gateway = random.index(self.readers.len() / self.ranks);
        let reader = &mut self.readers[gateway * self.ranks + rank];
        match op {
            Op::GatewayRestart => reader.restart(now, &self.index, &mut self.sidecar),
            Op::GatewayResume => reader.cut_off(now, Some(now), &mut self.sidecar),
            Op::ReaderCut { down } => reader.cut_off(now, Some(now + down), &mut self.sidecar),
            Op::ReaderStall { time } => reader.line.stall(now + time),
            Op::ReaderDelay { by } => reader.line.delay = by,
            Op::Fail => reader.fail(now, &self.index, &mut self.sidecar),
            Op::ClockJump => reader.jump(now, random.within_ms(10_000_000), &mut self.sidecar),
            _ => {}
        }
        self.serve(now, random);
        Ends::Nothing
    }

    fn heal(&mut self) {
        self.readers.iter_mut().for_each(Reader::heal);
    }

    fn check(&mut self, now: Duration, sites: &[Site]) -> Result<(), Failure> {
        for at in 0..self.readers.len() {
            let reader = &mut self.readers[at];
            if reader.gateway.take_changed() {
                let checked = reader.gateway.check(&self.index, sites[at % self.ranks].engine());
                checked.map_err(|why| self.failure(now, at, sites, why))?;
            }
        }
        Ok(())
    }

    fn check_quiet(&self, now: Duration, sites: &[Site]) -> Result<(), Failure> {
        self.check_each(now, sites, Self::quiet)
    }

    fn check_end(&self, now: Duration, sites: &[Site]) -> Result<(), Failure> {
        self.check_each(now, sites, Self::end)
    }
}
