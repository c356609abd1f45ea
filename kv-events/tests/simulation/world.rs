//! One run: engines, links and a gateway in virtual time, and what must hold after every event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use kv_events::Trust;
use kv_events::admission::Request;
use kv_index::{ChainIndex, Index, ReferenceIndex};

use crate::gateway::Gateway;
use crate::plan::{Action, Op, Plan, Socket};
use crate::random::Random;
use crate::source::{Answer, Live, Source, message};

/// Why a run failed.
pub(crate) type Failure = String;

/// Runs `plan`.
pub(crate) fn run(plan: &Plan) -> Result<(), Failure> {
    if plan.chain { World::new(plan, ChainIndex::new()).run(plan) } else { World::new(plan, ReferenceIndex::new()).run(plan) }
}

struct World<I: Index> {
    now: Duration,
    events: BinaryHeap<Reverse<Due>>,
    /// Breaks ties between events of one moment.
    number: u64,
    index: I,
    ranks: Vec<Rank<I>>,
    random: Random,
    handled: u64,
}

struct Rank<I: Index> {
    source: Source,
    replays: bool,
    gateway: Gateway<I>,
    /// The gateway's process: what was sent to a former one does not reach it.
    process: u64,
    /// A fault has touched the stream since its gateway began.
    touched: bool,
    /// All that its link may lose can be had from the replay socket, at any time.
    keeps_all: bool,
    /// When the engine last changed.
    changed: Duration,
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
    /// Something reaches the live side of the gateway's process.
    Live { process: u64, link: u64, live: Live },
    /// A question reaches the replay socket.
    Question { process: u64, session: u64, from: u64 },
    /// An answer reaches the gateway's process.
    Answer { process: u64, session: u64, answer: Answer },
    /// The engine runs again.
    Up,
    /// The link is tried again.
    Link,
}

impl<I: Index> World<I> {
    fn new(plan: &Plan, index: I) -> Self {
        let rank = |(number, rank): (u32, &crate::plan::RankPlan)| Rank {
            source: Source::new(number, rank),
            replays: rank.replays,
            gateway: Gateway::new(&index, rank.replays, u64::from(number)),
            process: 0,
            // Its first batch is out before anybody listens.
            touched: rank.clears_at_start,
            keeps_all: rank.replays && rank.window > 1000,
            changed: Duration::ZERO,
        };
        let ranks = (0..).zip(&plan.ranks).map(rank).collect();
        Self { now: Duration::ZERO, events: BinaryHeap::new(), number: 0, index, ranks, random: Random::new(0), handled: 0 }
    }

    fn run(mut self, plan: &Plan) -> Result<(), Failure> {
        (0..self.ranks.len()).for_each(|rank| self.connect(rank));
        for action in &plan.actions {
            self.pass(action.after)?;
            self.random = Random::new(action.salt);
            self.act(action)?;
            self.check_all()?;
        }
        self.heal();
        self.pass(SETTLE)?;
        (0..self.ranks.len()).try_for_each(|rank| self.check_end(rank))
    }

    /// Lets `time` pass, with all that is due in it.
    fn pass(&mut self, time: Duration) -> Result<(), Failure> {
        let end = self.now + time;
        loop {
            let next = self.events.peek().map(|Reverse(due)| due.at);
            let wakes = (0..self.ranks.len()).filter_map(|rank| Some((self.ranks[rank].gateway.next_timeout()?, rank)));
            let wake = wakes.min();
            match (next, wake) {
                (_, Some((at, rank))) if at <= end && next.is_none_or(|next| at <= next) => {
                    self.now = self.now.max(at);
                    let request = self.ranks[rank].gateway.timeout(self.now);
                    self.asked(rank, request);
                    self.check(rank)?;
                }
                (Some(at), _) if at <= end => {
                    let Some(Reverse(due)) = self.events.pop() else { break };
                    self.now = due.at;
                    let rank = due.rank;
                    self.happen(due);
                    self.check(rank)?;
                }
                _ => break,
            }
            self.handled += 1;
            if self.handled > EVENTS_MAX {
                return Err(format!("{EVENTS_MAX} events by {:?}: something asks in a loop", self.now));
            }
        }
        self.now = end;
        Ok(())
    }

    fn schedule(&mut self, at: Duration, rank: usize, what: What) {
        self.number += 1;
        self.events.push(Reverse(Due { at, number: self.number, rank, what }));
    }

    fn happen(&mut self, due: Due) {
        let rank = due.rank;
        let process = self.ranks[rank].process;
        let request = match due.what {
            What::Live { process: to, link, live } if to == process => {
                let is_lost = matches!(live, Live::Message(_)) && link <= self.ranks[rank].source.link.lost;
                if is_lost { None } else { self.ranks[rank].gateway.live(self.now, &live) }
            }
            What::Answer { process: to, session, answer } if to == process => {
                self.ranks[rank].gateway.answer(self.now, session, &answer)
            }
            What::Question { process: of, session, from } if of == process => return self.question(rank, session, from),
            What::Up => return self.up(rank),
            What::Link => return self.connect(rank),
            _ => None,
        };
        self.asked(rank, request);
    }

    fn asked(&mut self, rank: usize, request: Option<Request>) {
        if let Some(Request::Replay { session, from }) = request {
            let at = self.now + self.random.within_ms(20);
            let process = self.ranks[rank].process;
            self.schedule(at, rank, What::Question { process, session, from });
        }
    }

    fn question(&mut self, rank: usize, session: u64, from: u64) {
        let process = self.ranks[rank].process;
        for (after, answer) in self.ranks[rank].source.answer(from, &mut self.random) {
            let at = self.now + after + Duration::from_millis(1);
            self.schedule(at, rank, What::Answer { process, session, answer });
        }
    }

    /// Sends something over the link of a rank.
    fn send(&mut self, rank: usize, live: Live) {
        let at = self.ranks[rank].source.link.arrival(self.now, &mut self.random);
        let (process, link) = (self.ranks[rank].process, self.ranks[rank].source.link.number);
        self.schedule(at, rank, What::Live { process, link, live });
    }

    fn connect(&mut self, rank: usize) {
        let source = &mut self.ranks[rank].source;
        if source.link.up {
            return;
        }
        if source.alive {
            source.link.up = true;
            source.link.number += 1;
            self.send(rank, Live::Connected);
        } else {
            self.schedule(self.now + RECONNECT, rank, What::Link);
        }
    }

    fn disconnect(&mut self, rank: usize) {
        if std::mem::take(&mut self.ranks[rank].source.link.up) {
            self.send(rank, Live::Disconnected);
            if self.random.once_in(2) {
                let link = &mut self.ranks[rank].source.link;
                link.lost = link.number;
            }
        }
        self.ranks[rank].touched = true;
    }

    fn publish(&mut self, rank: usize, batch: &crate::engine::Published) {
        let (now, process, link) = (self.now, self.ranks[rank].process, self.ranks[rank].source.link.number);
        self.ranks[rank].changed = now;
        for (at, live) in self.ranks[rank].source.link.carry(now, batch, &mut self.random) {
            self.schedule(at, rank, What::Live { process, link, live });
        }
    }

    fn up(&mut self, rank: usize) {
        self.ranks[rank].source.alive = true;
        if let Some(batch) = self.ranks[rank].source.engine.restart() {
            self.publish(rank, &batch);
        }
        self.ranks[rank].changed = self.now;
    }

    fn act(&mut self, action: &Action) -> Result<(), Failure> {
        let rank = action.rank;
        let now = self.now;
        let at = &mut self.ranks[rank];
        let alive = at.source.alive;
        at.keeps_all &= matches!(
            action.op,
            Op::Work { .. }
                | Op::Clear
                | Op::Cut { .. }
                | Op::Drop { .. }
                | Op::Duplicate
                | Op::Lag { .. }
                | Op::Delay { .. }
                | Op::Quiet
        );
        let source = &mut at.source;
        match action.op {
            Op::Work { batches } if alive => (0..batches).for_each(|_| {
                let batch = self.ranks[rank].source.engine.work(&mut self.random);
                self.publish(rank, &batch);
            }),
            Op::Clear if alive => {
                let batch = source.engine.clear();
                self.publish(rank, &batch);
            }
            Op::SkipNumbers { count } if alive => {
                at.touched = true;
                source.engine.skip_numbers(count);
            }
            Op::Corrupt if alive => {
                at.touched = true;
                let batch = source.engine.corrupt_work(&mut self.random);
                self.publish(rank, &batch);
            }
            Op::Restart { down } if alive => {
                source.alive = false;
                self.disconnect(rank);
                self.schedule(now + down, rank, What::Up);
                let again = now + down.mul_f64(0.5) + self.random.within_ms(3000);
                self.schedule(again, rank, What::Link);
            }
            Op::RestartInPlace if alive => self.restart_in_place(rank),
            Op::Cut { down } => {
                self.disconnect(rank);
                self.schedule(now + down, rank, What::Link);
            }
            Op::Drop { batches } => {
                at.touched = true;
                source.link.drop_next(batches);
            }
            Op::Lag { batches } => {
                at.touched = true;
                source.link.lag_next(batches);
            }
            Op::Duplicate => source.link.duplicate_next(),
            Op::Delay { by } => source.link.delay = by,
            Op::Replay(socket) => source.socket = socket,
            Op::GatewayRestart => self.restart_gateway(rank),
            Op::Fail => {
                at.touched = true;
                let request = at.gateway.fail(now, &self.index);
                self.asked(rank, request);
            }
            Op::Garbage => self.garbage(rank),
            Op::ClockJump => {
                at.gateway.ahead = self.random.within_ms(10_000_000);
                // Who waits for a time of day looks at the clock now and then.
                let request = at.gateway.timeout(now);
                self.asked(rank, request);
            }
            Op::Quiet => {
                self.pass(QUIET)?;
                self.check_quiet(rank)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The counter begins again, and no connection breaks; then its first batch arrives (see the module on admission).
    fn restart_in_place(&mut self, rank: usize) {
        let source = &mut self.ranks[rank].source;
        source.link.heal();
        let first = source.engine.restart().unwrap_or_else(|| source.engine.work(&mut self.random));
        self.ranks[rank].touched = true;
        self.publish(rank, &first);
    }

    fn restart_gateway(&mut self, rank: usize) {
        let at = &mut self.ranks[rank];
        at.process += 1;
        at.gateway = Gateway::new(&self.index, at.replays, at.process << 32);
        (at.source.link.up, at.touched) = (false, true);
        self.connect(rank);
    }

    /// What no publisher sends: the number of the end marker, a payload that is no batch, frames that are no message.
    fn garbage(&mut self, rank: usize) {
        if !self.ranks[rank].source.link.up {
            return;
        }
        let frames = match self.random.below(3) {
            0 => message(u64::MAX, b"\x92\x00\x90"),
            1 => vec![vec![1, 2, 3]],
            _ => {
                self.ranks[rank].touched = true;
                message(u64::MAX - 1 - self.random.below(3), b"\x93\x00\x90\x00")
            }
        };
        self.send(rank, Live::Message(frames));
    }

    /// The faults stop.
    fn heal(&mut self) {
        for rank in 0..self.ranks.len() {
            let source = &mut self.ranks[rank].source;
            source.link.heal();
            source.socket = Socket::Complete;
            if !source.alive {
                self.up(rank);
            }
            self.connect(rank);
        }
    }

    fn check_all(&self) -> Result<(), Failure> {
        (0..self.ranks.len()).try_for_each(|rank| self.check(rank))
    }

    /// At every moment: what is called exact is what the engine held after the batch that was applied last, and what may lack
    /// blocks has no others.
    fn check(&self, rank: usize) -> Result<(), Failure> {
        let at = &self.ranks[rank];
        let held = at.gateway.digest(&self.index);
        if at.keeps_all && at.gateway.counts().missed > 0 {
            return self.fail(rank, "it lost what the publisher has kept");
        }
        if !at.gateway.trust.is_exact_as_of_last() {
            let overstates = !at.gateway.trust.may_overstate() && at.holds_what_was_gone(&self.index);
            return if overstates { self.fail(rank, "it holds what was gone, and does not say so") } else { Ok(()) };
        }
        let expected = at.gateway.last.map(|last| at.source.engine.digest_after(last)).unwrap_or_default();
        if held == expected { Ok(()) } else { self.fail(rank, "wrong, and called exact as of the last batch") }
    }

    /// After a long silence: what is called exact is what the engine holds now, and what is exact as of a batch has it all from
    /// the connection.
    fn check_quiet(&self, rank: usize) -> Result<(), Failure> {
        let at = &self.ranks[rank];
        let silent = self.now.saturating_sub(at.changed) >= QUIET && at.gateway.ahead == Duration::ZERO;
        if !silent {
            return Ok(());
        }
        match at.gateway.trust {
            Trust::Exact if at.gateway.digest(&self.index) != at.source.engine.digest() => {
                self.fail(rank, "wrong after a silence, and called exact")
            }
            Trust::Exact | Trust::ExactAsOf { .. } if at.source.link.up && !at.is_of_this_life() => {
                self.fail(rank, "connected to another life, and called exact")
            }
            Trust::ExactAsOf { .. } if !at.replays && at.gateway.last != at.gateway.heard => {
                self.fail(rank, "exact as of another batch than the last that came")
            }
            _ => Ok(()),
        }
    }

    /// The faults are over for long.
    fn check_end(&self, rank: usize) -> Result<(), Failure> {
        self.check(rank)?;
        let at = &self.ranks[rank];
        let is_right = at.gateway.digest(&self.index) == at.source.engine.digest();
        match at.gateway.trust {
            Trust::Exact if is_right && at.replays => Ok(()),
            Trust::Exact => self.fail(rank, "wrong at the end, and called exact"),
            Trust::Degraded(degraded) if degraded.repairable => self.fail(rank, "not repaired, and said to be repairable"),
            Trust::ExactAsOf { .. } if !at.is_of_this_life() => self.fail(rank, "of another life at the end, and called exact"),
            _ if at.replays && at.source.engine.keeps_all() => self.fail(rank, "the publisher keeps all, and it is not exact"),
            Trust::Degraded(_) if at.touched || at.replays => Ok(()),
            Trust::ExactAsOf { .. } if !at.replays && (is_right || at.touched) => Ok(()),
            Trust::Unheard if !at.replays && at.gateway.last.is_none() => Ok(()),
            _ => self.fail(rank, "not as good as it could be"),
        }
    }

    fn fail(&self, rank: usize, why: &str) -> Result<(), Failure> {
        let at = &self.ranks[rank];
        let (held, engine) = (at.gateway.digest(&self.index), at.source.engine.digest());
        Err(format!(
            "at {:?} rank {rank}: {why}; {:?}, last {:?}; index {held:?}, engine {engine:?}; {:?}",
            self.now,
            at.gateway.trust,
            at.gateway.last,
            at.gateway.counts(),
        ))
    }
}

impl<I: Index> Rank<I> {
    /// Whether the index holds what the engine did not after the batch that was applied last.
    fn holds_what_was_gone(&self, index: &I) -> bool {
        let was_held = |name| self.gateway.last.is_some_and(|last| self.source.engine.held_after(last, name));
        self.gateway.names(index).into_iter().any(|name| !was_held(name))
    }

    /// Whether what the gateway holds is of the engine's present life, if it is of any.
    fn is_of_this_life(&self) -> bool {
        self.gateway.last.is_none_or(|last| self.source.engine.is_of_this_life(last))
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

/// A silence in which everything that can show has shown: a quiet stream is asked after 5 s, a replay takes 30 s at most.
const QUIET: Duration = Duration::from_secs(45);

/// How soon a link that finds no engine is tried again.
const RECONNECT: Duration = Duration::from_millis(500);

/// More events than any plan has.
const EVENTS_MAX: u64 = 50_000;
