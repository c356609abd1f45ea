//! A gateway on the engine's own sockets.

use std::time::Duration;

use kv_events::admission::Request;
use kv_events::{Source, Trust};
use kv_index::Index;

use crate::gateway::Gateway;
use crate::listener::{Ends, Failure, Listener, Question, Site};
use crate::plan::{Op, Plan};
use crate::random::Random;
use crate::source::{Answer, Live};

/// Every rank has a process of its own.
pub(crate) struct Direct<I: Index> {
    index: I,
    ranks: Vec<Rank<I>>,
    questions: Vec<Question>,
}

struct Rank<I: Index> {
    gateway: Gateway<I>,
    source: Source,
    processes: u64,
}

impl<I: Index> Direct<I> {
    pub(crate) fn new(plan: &Plan, index: I) -> Self {
        let rank = |(number, replays): (u64, bool)| {
            let source = if replays { Source::EngineWithReplay } else { Source::Engine };
            Rank { gateway: Gateway::new(&index, source, number), source, processes: 0 }
        };
        let ranks = (0..).zip(plan.ranks.iter().map(|rank| rank.replays)).map(rank).collect();
        Self { index, ranks, questions: Vec::new() }
    }

    fn asked(&mut self, rank: usize, request: Option<Request>) {
        if let Some(Request::Replay { session, from }) = request {
            self.questions.push(Question { rank, session, from });
        }
    }

    fn each(&self) -> impl Iterator<Item = (usize, &Gateway<I>)> {
        self.ranks.iter().map(|rank| &rank.gateway).enumerate()
    }

    fn failure(&self, now: Duration, rank: usize, site: &Site, why: &str) -> Failure {
        let at = &self.ranks[rank].gateway;
        let (held, engine) = (at.digest(&self.index), site.engine().digest());
        let (trust, last, counts) = (at.trust, at.last, at.counts());
        format!("at {now:?} rank {rank}: {why}; {trust:?}, last {last:?}; index {held:?}, engine {engine:?}; {counts:?}")
    }

    fn quiet(&self, now: Duration, gateway: &Gateway<I>, site: &Site) -> Result<(), &'static str> {
        if !site.is_silent(now) || gateway.ahead > Duration::ZERO {
            return Ok(());
        }
        match gateway.trust {
            Trust::Exact if gateway.digest(&self.index) != site.engine().digest() => {
                Err("wrong after a silence, and called exact")
            }
            Trust::Exact | Trust::ExactAsOf { .. } if site.source.link.up && !gateway.is_of_this_life(site.engine()) => {
                Err("connected to another life, and called exact")
            }
            // What was overtaken on its own connection is another life's, or stale.
            Trust::ExactAsOf { .. } if !site.replays && ![gateway.heard, gateway.heard_last].contains(&gateway.last) => {
                Err("exact as of another batch than the last that came")
            }
            _ => Ok(()),
        }
    }

    fn end(&self, gateway: &Gateway<I>, site: &Site) -> Result<(), &'static str> {
        gateway.check(&self.index, site.engine())?;
        let is_right = gateway.digest(&self.index) == site.engine().digest();
        match gateway.trust {
            Trust::Exact if is_right && site.replays => Ok(()),
            Trust::Exact => Err("wrong at the end, and called exact"),
            // A publisher that has published nothing cannot be told from one that keeps nothing, which answers nothing that helps.
            Trust::Unheard | Trust::Resyncing | Trust::Degraded(_) if site.replays && !site.engine().keeps_some() => Ok(()),
            Trust::Degraded(degraded) if degraded.repairable => Err("not repaired, and said to be repairable"),
            Trust::ExactAsOf { .. } if !gateway.is_of_this_life(site.engine()) => {
                Err("of another life at the end, and called exact")
            }
            Trust::ExactAsOf { .. } if site.replays && !site.engine().keeps_some() => Ok(()),
            _ if site.replays && site.engine().keeps_all() => Err("the publisher keeps all, and it is not exact"),
            Trust::Degraded(_) if site.touched || site.replays => Ok(()),
            Trust::ExactAsOf { .. } if !site.replays && (is_right || site.touched) => Ok(()),
            Trust::Unheard if !site.replays && gateway.last.is_none() => Ok(()),
            _ => Err("not as good as it could be"),
        }
    }
}

impl<I: Index> Listener for Direct<I> {
    fn live(&mut self, now: Duration, rank: usize, live: &Live, _: &mut Random) {
        let request = self.ranks[rank].gateway.live(now, live);
        self.asked(rank, request);
    }

    fn answer(&mut self, now: Duration, rank: usize, session: u64, answer: &Answer, _: &mut Random) {
        let request = self.ranks[rank].gateway.answer(now, session, answer);
        self.asked(rank, request);
    }

    fn next_timeout(&self) -> Option<Duration> {
        self.each().filter_map(|(_, gateway)| gateway.next_timeout()).min()
    }

    fn timeout(&mut self, now: Duration, _: &mut Random) {
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].gateway.next_timeout().is_some_and(|due| due <= now) {
                let request = self.ranks[rank].gateway.timeout(now);
                self.asked(rank, request);
            }
        }
    }

    fn question(&mut self) -> Option<Question> {
        self.questions.pop()
    }

    fn act(&mut self, now: Duration, rank: usize, op: Op, random: &mut Random) -> Ends {
        let at = &mut self.ranks[rank];
        let request = match op {
            Op::GatewayRestart => {
                at.processes += 1;
                at.gateway = Gateway::new(&self.index, at.source, at.processes << 32);
                return Ends::Rank;
            }
            Op::Fail => at.gateway.fail(now, &self.index),
            Op::ClockJump => at.gateway.jump(now, random.within_ms(10_000_000)),
            _ => None,
        };
        self.asked(rank, request);
        Ends::Nothing
    }

    fn heal(&mut self) {}

    fn check(&mut self, now: Duration, sites: &[Site]) -> Result<(), Failure> {
        for (rank, site) in sites.iter().enumerate() {
            let gateway = &mut self.ranks[rank].gateway;
            let changed = gateway.take_changed();
            let lost = changed && site.keeps_all && gateway.counts().missed > 0;
            let checked = if changed { gateway.check(&self.index, site.engine()) } else { Ok(()) };
            let checked = if lost { Err("it lost what the publisher has kept") } else { checked };
            checked.map_err(|why| self.failure(now, rank, site, why))?;
        }
        Ok(())
    }

    fn check_quiet(&self, now: Duration, sites: &[Site]) -> Result<(), Failure> {
        self.each().zip(sites).try_for_each(|((rank, gateway), site)| {
            self.quiet(now, gateway, site).map_err(|why| self.failure(now, rank, site, why))
        })
    }

    fn check_end(&self, now: Duration, sites: &[Site]) -> Result<(), Failure> {
        self.each()
            .zip(sites)
            .try_for_each(|((rank, gateway), site)| self.end(gateway, site).map_err(|why| self.failure(now, rank, site, why)))
    }
}
