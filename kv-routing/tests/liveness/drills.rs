//! The fault drills of behaviour.md 8, as far as they are the tracker's: a trickle of requests, a fault, and within which time the worker is
//! out of the routing and back in it.

use kv_routing::liveness::{Cause, Contact, Task, Veto};

use crate::rig::{Rig, polled, s};

/// What the engine and the way to it do in one tenth of a second.
#[derive(Clone, Copy, PartialEq)]
enum Engine {
    Serves,
    /// One token of each stream in so many tenths of a second.
    Crawls(u32),
    /// It answers health checks and polls, and generates nothing.
    Paused,
    /// Nothing comes, and no connection breaks: frozen, or behind a partition.
    Silent,
    /// Connections break and are refused.
    Refuses,
}

/// One worker under a trickle of two requests a second.
struct Drill {
    rig: Rig,
    tenth: u32,
}

impl Drill {
    /// A worker that has served for ten seconds.
    fn begin() -> Self {
        let mut drill = Self { rig: Rig::new(), tenth: 0 };
        drill.run(10.0, Engine::Serves);
        assert_eq!(drill.rig.told(), []);
        drill
    }

    /// Runs for some seconds. Returns when the veto changed first, from the beginning of this run.
    fn run(&mut self, seconds: f64, engine: Engine) -> Option<f64> {
        let (begun, mut changed) = (self.rig.now, None);
        while self.rig.now < begun + s(seconds) {
            let before = self.rig.veto();
            self.step(engine);
            if changed.is_none() && self.rig.veto() != before {
                changed = Some(self.rig.now.saturating_sub(begun).as_secs_f64());
            }
        }
        changed
    }

    fn step(&mut self, engine: Engine) {
        self.tenth += 1;
        // A vetoed worker gets nothing; what it has stays.
        if self.tenth.is_multiple_of(5) && self.rig.veto().is_none() {
            self.rig.begin(1, Task::streamed(150));
        }
        match engine {
            Engine::Serves => self.generate(),
            Engine::Crawls(every) if self.tenth.is_multiple_of(every) => self.generate(),
            Engine::Refuses => {
                self.rig.tickets.clear();
                self.rig.fail();
            }
            _ => {}
        }
        if self.tenth.is_multiple_of(10) && matches!(engine, Engine::Serves | Engine::Crawls(_) | Engine::Paused) {
            self.rig.contact(Contact::Probe);
            self.rig.report(polled(4, u32::from(engine == Engine::Paused)));
        }
        self.rig.pass(0.1);
    }

    /// A token of each stream. The oldest of five is complete by it.
    fn generate(&mut self) {
        self.rig.first_tokens();
        if self.rig.tickets.len() >= 5 {
            self.rig.tickets.remove(0).finish(self.rig.now);
        }
    }

    fn last_cause(&mut self) -> Option<Cause> {
        self.rig.told().last().map(|told| told.cause)
    }
}

fn within(seconds: Option<f64>, most: f64) -> bool {
    seconds.is_some_and(|seconds| seconds <= most)
}

#[test]
fn a_killed_engine_is_out_within_2_5_s_and_back_with_its_port() {
    let mut drill = Drill::begin();
    assert!(within(drill.run(10.0, Engine::Refuses), 2.5));
    assert_eq!(drill.rig.veto(), Some(Veto::Unreachable));
    drill.rig.told();
    drill.rig.contact(Contact::Traffic);
    assert!(drill.rig.told()[0].promotes(), "resubscribed: no health check has to agree first");
    assert_eq!(drill.run(30.0, Engine::Serves), None);
}

#[test]
fn a_partition_is_noticed_within_4_5_s_and_its_end_at_once() {
    let mut drill = Drill::begin();
    assert!(within(drill.run(7.5, Engine::Silent), 4.5));
    assert!(within(drill.run(2.0, Engine::Serves), 0.5));
    assert_eq!(drill.last_cause(), Some(Cause::Progress));
}

// Defect 24: the keepalive (30 s and 10 s) tears the connection down before the partition heals.
#[test]
fn a_partition_that_outlasts_the_keepalive_ends_too() {
    let mut drill = Drill::begin();
    assert!(within(drill.run(40.0, Engine::Silent), 4.5));
    drill.rig.told();
    drill.run(5.0, Engine::Refuses);
    let told: Vec<_> = drill.rig.told().iter().map(|told| (told.from, told.to)).collect();
    assert_eq!(told, [(Some(Veto::Wedged), Some(Veto::Unreachable))], "and not used in between");
    assert!(within(drill.run(2.0, Engine::Serves), 1.0), "the next answered poll");
    assert_eq!(drill.rig.veto(), None);
}

#[test]
fn a_paused_or_frozen_engine_is_out_within_its_eight_seconds_and_back_after() {
    for engine in [Engine::Paused, Engine::Silent] {
        let mut drill = Drill::begin();
        assert!(within(drill.run(8.0, engine), 4.5));
        assert_eq!(drill.rig.veto(), Some(Veto::Wedged));
        assert!(within(drill.run(2.0, Engine::Serves), 0.5));
        assert_eq!(drill.run(20.0, Engine::Serves), None, "and stays so");
    }
}

#[test]
fn a_slow_engine_is_not_out() {
    let mut drill = Drill::begin();
    assert_eq!(drill.run(60.0, Engine::Crawls(20)), None, "a token in two seconds");
    let mut drill = Drill::begin();
    drill.rig.begin(512, Task::streamed(150));
    assert_eq!(drill.run(30.0, Engine::Crawls(10)), None, "512 streams at once");
}
