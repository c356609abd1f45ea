//! One run: engines, links and whoever listens to them in virtual time, and what must hold after every event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use kv_index::{ChainIndex, Index, ReferenceIndex};

use crate::direct::Direct;
use crate::engine::Published;
use crate::listener::{Ends, Failure, Listener, QUIET, Question, Site};
use crate::plan::{Action, Op, Plan, Socket};
use crate::random::Random;
use crate::relayed::Relayed;
use crate::source::{Answer, Live, Source, message};

/// Runs `plan`.
pub(crate) fn run(plan: &Plan) -> Result<(), Failure> {
    if plan.chain { run_on(plan, ChainIndex::new()) } else { run_on(plan, ReferenceIndex::new()) }
}

fn run_on<I: Index>(plan: &Plan, index: I) -> Result<(), Failure> {
    match plan.relay {
        None => World::new(plan, Direct::new(plan, index)).run(plan),
        Some(relay) => World::new(plan, Relayed::new(plan, &relay, index)).run(plan),
    }
}

struct World<L> {
    now: Duration,
    events: BinaryHeap<Reverse<Due>>,
    /// Breaks ties between events of one moment.
    number: u64,
    sites: Vec<Site>,
    listener: L,
    random: Random,
    handled: u64,
}

#[derive(Debug)]
struct Due {
    at: Duration,
    number: u64,
    rank: usize,
    what: What,
}

#[derive(Debug)]
enum What {
    /// Something reaches the live side of the listener's process.
    Live { process: u64, link: u64, live: Live },
    /// A question reaches the replay socket.
    Question { process: u64, session: u64, from: u64 },
    /// An answer reaches the listener's process.
    Answer { process: u64, session: u64, answer: Answer },
    /// The engine runs again.
    Up,
    /// The link is tried again.
    Link,
}

impl<L: Listener> World<L> {
    fn new(plan: &Plan, listener: L) -> Self {
        let site = |(number, rank): (u32, &crate::plan::RankPlan)| Site {
            source: Source::new(number, rank),
            replays: rank.replays,
            process: 0,
            // Its first batch is out before anybody listens.
            touched: rank.clears_at_start,
            keeps_all: rank.replays && rank.window > 1000,
            changed: Duration::ZERO,
        };
        let sites = (0..).zip(&plan.ranks).map(site).collect();
        let (now, events, random) = (Duration::ZERO, BinaryHeap::new(), Random::new(0));
        Self { now, events, number: 0, sites, listener, random, handled: 0 }
    }

    fn run(mut self, plan: &Plan) -> Result<(), Failure> {
        (0..self.sites.len()).for_each(|rank| self.connect(rank));
        for action in &plan.actions {
            self.pass(action.after)?;
            self.random = Random::new(action.salt);
            self.act(action)?;
            self.settle()?;
        }
        self.heal();
        self.pass(SETTLE)?;
        self.listener.check_end(self.now, &self.sites)
    }

    /// Lets `time` pass, with all that is due in it.
    fn pass(&mut self, time: Duration) -> Result<(), Failure> {
        let end = self.now + time;
        loop {
            let next = self.events.peek().map(|Reverse(due)| due.at);
            match (next, self.listener.next_timeout()) {
                (_, Some(at)) if at <= end && next.is_none_or(|next| at <= next) => {
                    self.now = self.now.max(at);
                    self.listener.timeout(self.now, &mut self.random);
                }
                (Some(at), _) if at <= end => {
                    let Some(Reverse(due)) = self.events.pop() else { break };
                    self.now = due.at;
                    self.happen(due);
                }
                _ => break,
            }
            self.settle()?;
            self.handled += 1;
            if self.handled > EVENTS_MAX {
                return Err(format!("{EVENTS_MAX} events by {:?}: something asks in a loop", self.now));
            }
        }
        self.now = end;
        Ok(())
    }

    /// After anything has happened: what is asked for is on its way, and what must hold does.
    fn settle(&mut self) -> Result<(), Failure> {
        while let Some(Question { rank, session, from }) = self.listener.question() {
            let at = self.now + self.random.within_ms(20);
            let process = self.sites[rank].process;
            self.schedule(at, rank, What::Question { process, session, from });
        }
        self.listener.check(self.now, &self.sites)
    }

    fn schedule(&mut self, at: Duration, rank: usize, what: What) {
        self.number += 1;
        self.events.push(Reverse(Due { at, number: self.number, rank, what }));
    }

    fn happen(&mut self, due: Due) {
        let rank = due.rank;
        let process = self.sites[rank].process;
        match due.what {
            What::Live { process: to, link, live } if to == process => {
                let is_lost = matches!(live, Live::Message(_)) && link <= self.sites[rank].source.link.lost;
                if !is_lost {
                    self.listener.live(self.now, rank, &live, &mut self.random);
                }
            }
            What::Answer { process: to, session, answer } if to == process => {
                self.listener.answer(self.now, rank, session, &answer, &mut self.random);
            }
            What::Question { process: of, session, from } if of == process => self.answer(rank, session, from),
            What::Up => self.up(rank),
            What::Link => self.connect(rank),
            _ => {}
        }
    }

    fn answer(&mut self, rank: usize, session: u64, from: u64) {
        let process = self.sites[rank].process;
        for (after, answer) in self.sites[rank].source.answer(from, &mut self.random) {
            let at = self.now + after + Duration::from_millis(1);
            self.schedule(at, rank, What::Answer { process, session, answer });
        }
    }

    /// Sends something over the link of a rank.
    fn send(&mut self, rank: usize, live: Live) {
        let at = self.sites[rank].source.link.arrival(self.now, &mut self.random);
        let (process, link) = (self.sites[rank].process, self.sites[rank].source.link.number);
        self.schedule(at, rank, What::Live { process, link, live });
    }

    fn connect(&mut self, rank: usize) {
        let source = &mut self.sites[rank].source;
        if source.link.up {
            return;
        }
        if source.alive {
            source.link.open();
            self.send(rank, Live::Connected);
        } else {
            self.schedule(self.now + RECONNECT, rank, What::Link);
        }
    }

    fn disconnect(&mut self, rank: usize) {
        if std::mem::take(&mut self.sites[rank].source.link.up) {
            self.send(rank, Live::Disconnected);
            if self.random.once_in(2) {
                let link = &mut self.sites[rank].source.link;
                link.lost = link.number;
            }
        }
        self.sites[rank].touched = true;
    }

    fn publish(&mut self, rank: usize, batch: &Published) {
        let (now, process, link) = (self.now, self.sites[rank].process, self.sites[rank].source.link.number);
        self.sites[rank].changed = now;
        for (at, live) in self.sites[rank].source.link.carry(now, batch, &mut self.random) {
            self.schedule(at, rank, What::Live { process, link, live });
        }
    }

    fn up(&mut self, rank: usize) {
        self.sites[rank].source.alive = true;
        if let Some(batch) = self.sites[rank].source.engine.restart() {
            self.publish(rank, &batch);
        }
        self.sites[rank].changed = self.now;
    }

    fn act(&mut self, action: &Action) -> Result<(), Failure> {
        let (rank, op) = (action.rank, action.op);
        let site = &mut self.sites[rank];
        site.keeps_all &= op.loses_nothing();
        site.touched |= op.leaves_a_mark();
        let alive = site.source.alive;
        let source = &mut site.source;
        match op {
            Op::Work { .. } | Op::Clear | Op::SkipNumbers { .. } | Op::Corrupt | Op::Restart { .. } | Op::RestartInPlace => {
                if alive {
                    self.act_engine(rank, op);
                }
            }
            Op::Cut { down } => {
                self.disconnect(rank);
                self.schedule(self.now + down, rank, What::Link);
            }
            Op::Drop { batches } => source.link.drop_next(batches),
            Op::Lag { batches } => source.link.lag_next(batches),
            Op::Duplicate => source.link.duplicate_next(),
            Op::Swap => source.link.swap_next(),
            Op::Delay { by } => source.link.delay = by,
            Op::Replay(socket) => source.socket = socket,
            Op::Garbage => self.garbage(rank),
            Op::Quiet => {
                self.pass(QUIET)?;
                self.listener.check_quiet(self.now, &self.sites)?;
            }
            _ => self.act_listener(rank, op),
        }
        Ok(())
    }

    /// What happens to an engine that runs.
    fn act_engine(&mut self, rank: usize, op: Op) {
        let (now, engine) = (self.now, &mut self.sites[rank].source.engine);
        match op {
            Op::Work { batches } => (0..batches).for_each(|_| {
                let batch = self.sites[rank].source.engine.work(&mut self.random);
                self.publish(rank, &batch);
            }),
            Op::Clear => {
                let batch = engine.clear();
                self.publish(rank, &batch);
            }
            Op::SkipNumbers { count } => engine.skip_numbers(count),
            Op::Corrupt => {
                let batch = engine.corrupt_work(&mut self.random);
                self.publish(rank, &batch);
            }
            Op::Restart { down } => {
                self.sites[rank].source.alive = false;
                self.disconnect(rank);
                self.schedule(now + down, rank, What::Up);
                let again = now + down.mul_f64(0.5) + self.random.within_ms(3000);
                self.schedule(again, rank, What::Link);
            }
            _ => self.restart_in_place(rank),
        }
    }

    /// The counter begins again, and no connection breaks; then its first batch arrives (see the module on admission).
    fn restart_in_place(&mut self, rank: usize) {
        let source = &mut self.sites[rank].source;
        source.link.heal();
        let first = source.engine.restart().unwrap_or_else(|| source.engine.work(&mut self.random));
        self.publish(rank, &first);
    }

    fn act_listener(&mut self, rank: usize, op: Op) {
        match self.listener.act(self.now, rank, op, &mut self.random) {
            Ends::Nothing => {}
            Ends::Rank => {
                self.forsake(rank);
                self.connect(rank);
            }
            Ends::All { down } => (0..self.sites.len()).for_each(|rank| {
                self.forsake(rank);
                self.schedule(self.now + down, rank, What::Link);
            }),
        }
    }

    /// The process that listened to a rank is gone.
    fn forsake(&mut self, rank: usize) {
        let site = &mut self.sites[rank];
        site.process += 1;
        (site.source.link.up, site.touched) = (false, true);
    }

    /// What no publisher sends: the number of the end marker, a payload that is no batch, frames that are no message.
    fn garbage(&mut self, rank: usize) {
        if !self.sites[rank].source.link.up {
            return;
        }
        let frames = match self.random.below(3) {
            0 => message(u64::MAX, b"\x92\x00\x90"),
            1 => vec![vec![1, 2, 3]],
            _ => {
                self.sites[rank].touched = true;
                message(u64::MAX - 1 - self.random.below(3), b"\x93\x00\x90\x00")
            }
        };
        self.send(rank, Live::Message(frames));
    }

    /// The faults stop.
    fn heal(&mut self) {
        self.listener.heal();
        for rank in 0..self.sites.len() {
            let source = &mut self.sites[rank].source;
            source.link.heal();
            source.socket = Socket::Complete;
            if !source.alive {
                self.up(rank);
            }
            self.connect(rank);
        }
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// After the faults, all that can become exact does within this time: the longest pause before a question, one replay that fails,
/// and the few that repair.
const SETTLE: Duration = Duration::from_secs(90);

/// How soon a link that finds no engine is tried again.
const RECONNECT: Duration = Duration::from_millis(500);

/// More events than any plan has.
const EVENTS_MAX: u64 = 50_000;
