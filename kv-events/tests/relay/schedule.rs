//! Publishers that restart, links that lose and break, replay sockets that answer as they like, readers that come, go, lag and
//! resume: whoever was told that nothing is missing holds what the publisher held, and when the faults end, everybody does.

use std::time::Duration;

use kv_events::relay::{End, Next, Options, Relay, ReplayEnd, ReplayRequest, SubscriberId};
use kv_events::{Position, Tiers};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::publisher::{Publisher, Work};
use crate::reader::{Known, drain};

const RANKS: usize = 2;

#[derive(Clone, Debug)]
enum Step {
    /// A rank publishes; the live socket loses the message if `lost`.
    Publish {
        rank: usize,
        work: Vec<Work>,
        lost: bool,
    },
    /// The live socket breaks. A publisher that goes on counting meanwhile cannot be told from one that did not.
    Cut {
        rank: usize,
    },
    Connect {
        rank: usize,
    },
    /// The publisher starts again, which breaks the live socket; it may have published so many times before it is heard of.
    Restart {
        rank: usize,
        clears: bool,
        unheard: usize,
    },
    /// The replay socket answers what it was asked, in this way.
    Answer(Answer),
    /// Time passes.
    Pass {
        ms: u64,
    },
    Subscribe {
        reader: usize,
    },
    /// The reader goes away, and comes back with its positions.
    Resume {
        reader: usize,
    },
    Read {
        reader: usize,
    },
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    Whole,
    /// So many messages, and no end.
    Broken(usize),
    /// One message is missing in the middle.
    Holed(usize),
    Dead,
}

struct Reader {
    ranks: Vec<Known>,
    subscriber: Option<SubscriberId>,
}

struct World {
    now: Duration,
    relay: Relay,
    publishers: Vec<Publisher>,
    connected: [bool; RANKS],
    asked: Vec<ReplayRequest>,
    readers: Vec<Reader>,
}

impl Reader {
    fn new() -> Self {
        Self { ranks: (0..RANKS).map(|_| Known::new(Tiers::SERVED)).collect(), subscriber: None }
    }

    fn positions(&self) -> Vec<(u32, Position)> {
        (0..).zip(&self.ranks).filter_map(|(rank, known)| Some((rank, known.position?))).collect()
    }
}

impl World {
    fn new(options: Options, buffer_max: usize) -> Self {
        let now = Duration::ZERO;
        let mut relay = Relay::new(now, 7, options);
        (0..RANKS).for_each(|rank| relay.handle_connected(now, u32::try_from(rank).unwrap()));
        let publishers = (0..RANKS).map(|_| Publisher::new(buffer_max)).collect();
        let readers = (0..3).map(|_| Reader::new()).collect();
        Self { now, relay, publishers, connected: [true; RANKS], asked: Vec::new(), readers }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Publish { rank, work, lost } => self.publish(*rank, work, *lost),
            Step::Cut { rank } => {
                self.relay.handle_disconnected(u32::try_from(*rank).unwrap());
                self.connected[*rank] = false;
            }
            Step::Connect { rank } => self.connect(*rank),
            Step::Restart { rank, clears, unheard } => {
                self.step(&Step::Cut { rank: *rank });
                self.publishers[*rank].restart();
                if *clears {
                    self.publish(*rank, &[Work::Clear], true);
                }
                for nth in 0..*unheard {
                    let path = vec![u8::try_from(nth % 3).unwrap(), 1, 2];
                    self.publish(*rank, &[Work::Serve { path, tier: 0, again: false }], true);
                }
            }
            Step::Answer(answer) => self.answer(*answer),
            Step::Pass { ms } => {
                self.now += Duration::from_millis(*ms);
                self.relay.handle_timeout(self.now);
            }
            Step::Subscribe { reader } => self.subscribe(*reader, false),
            Step::Resume { reader } => self.subscribe(*reader, true),
            Step::Read { reader } => self.read(*reader),
        }
        while let Some(request) = self.relay.poll_request() {
            self.asked.retain(|asked| asked.rank != request.rank);
            self.asked.push(request);
        }
    }

    fn connect(&mut self, rank: usize) {
        if !std::mem::replace(&mut self.connected[rank], true) {
            self.relay.handle_connected(self.now, u32::try_from(rank).unwrap());
        }
    }

    fn publish(&mut self, rank: usize, work: &[Work], lost: bool) {
        let (sequence, payload) = self.publishers[rank].publish(work);
        if self.connected[rank] && !lost {
            self.relay.handle_live(self.now, u32::try_from(rank).unwrap(), sequence, &payload);
        }
    }

    /// Answers the oldest question.
    fn answer(&mut self, answer: Answer) {
        if self.asked.is_empty() {
            return;
        }
        let request = self.asked.remove(0);
        let mut answers = self.publishers[request.rank as usize].replay(request.from);
        let end = match answer {
            Answer::Whole => ReplayEnd::Complete,
            Answer::Broken(len) => {
                answers.truncate(len);
                ReplayEnd::Incomplete
            }
            Answer::Holed(at) => {
                if at + 1 < answers.len() {
                    answers.remove(at);
                }
                ReplayEnd::Incomplete
            }
            Answer::Dead => {
                answers.clear();
                ReplayEnd::Incomplete
            }
        };
        answers.iter().for_each(|(sequence, payload)| self.relay.handle_replayed(self.now, request, *sequence, payload));
        self.relay.handle_replay_end(self.now, request, end);
    }

    fn subscribe(&mut self, reader: usize, resumes: bool) {
        let known = &mut self.readers[reader];
        if let Some(subscriber) = known.subscriber.take() {
            self.relay.unsubscribe(subscriber);
        }
        let positions = if resumes { known.positions() } else { Vec::new() };
        match self.relay.subscribe(self.now, &positions) {
            Ok(subscriber) if resumes => {
                // Ranks of which it knew nothing come from their start; the others go on.
                known.subscriber = Some(subscriber);
            }
            Ok(subscriber) => {
                known.ranks = Reader::new().ranks;
                known.subscriber = Some(subscriber);
            }
            Err(refusal) => {
                assert!(resumes, "{refusal}");
                known.ranks = Reader::new().ranks;
            }
        }
    }

    /// Has the reader read everything there is, and checks what it was told.
    fn read(&mut self, reader: usize) {
        let known = &mut self.readers[reader];
        let Some(subscriber) = known.subscriber else { return };
        match drain(&mut self.relay, self.now, subscriber, &mut known.ranks) {
            Next::Wait { .. } => {}
            Next::End(End::Restarted { .. } | End::LeftBehind { .. }) => {
                known.subscriber = None;
                known.ranks = Reader::new().ranks;
                return;
            }
            other => panic!("{other:?}"),
        }
        for (number, (known, publisher)) in (0..).zip(known.ranks.iter().zip(&self.publishers)) {
            let status = self.relay.status(number).unwrap();
            if known.missing == 0 && known.position.is_some() && !status.doubted {
                let truth = publisher.held_at(known.timestamp_s).expect("a message of this publisher");
                assert_eq!(&known.names(), truth, "reader {reader} of rank {number}, told that nothing is missing");
            }
        }
    }

    /// No fault any more: a second passes, and whoever was cut off comes back.
    fn settle(&mut self) {
        for rank in 0..RANKS {
            self.connect(rank);
            self.publish(rank, &[Work::Serve { path: vec![2, 2], tier: 0, again: true }], false);
        }
        for _ in 0..12 {
            self.step(&Step::Pass { ms: 1_000 });
            for questions in 0.. {
                if self.asked.is_empty() {
                    break;
                }
                assert!(questions < 100, "questions without an end: {:?}", self.asked);
                self.step(&Step::Answer(Answer::Whole));
            }
        }
        for _ in 0..2 {
            (0..self.readers.len()).for_each(|reader| {
                self.read(reader);
                if self.readers[reader].subscriber.is_none() {
                    self.subscribe(reader, false);
                    self.read(reader);
                }
            });
        }
    }
}

fn any_work() -> impl Strategy<Value = Work> {
    let path = vec(0u8..3, 1..5);
    prop_oneof![
        6 => (path, 0usize..2, any::<bool>()).prop_map(|(path, tier, again)| Work::Serve { path, tier, again }),
        6 => (0usize..100, 0usize..2).prop_map(|(nth, tier)| Work::Evict { nth, tier }),
        1 => Just(Work::Clear),
    ]
}

fn any_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        6 => Just(Answer::Whole),
        1 => (0usize..4).prop_map(Answer::Broken),
        1 => (0usize..4).prop_map(Answer::Holed),
        1 => Just(Answer::Dead),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let rank = || 0..RANKS;
    prop_oneof![
        12 => (rank(), vec(any_work(), 0..3), prop::bool::weighted(0.15))
            .prop_map(|(rank, work, lost)| Step::Publish { rank, work, lost }),
        1 => rank().prop_map(|rank| Step::Cut { rank }),
        3 => rank().prop_map(|rank| Step::Connect { rank }),
        1 => (rank(), any::<bool>(), 0usize..12).prop_map(|(rank, clears, unheard)| Step::Restart { rank, clears, unheard }),
        8 => any_answer().prop_map(Step::Answer),
        3 => (0u64..3_000).prop_map(|ms| Step::Pass { ms }),
        2 => (0usize..3).prop_map(|reader| Step::Subscribe { reader }),
        2 => (0usize..3).prop_map(|reader| Step::Resume { reader }),
        5 => (0usize..3).prop_map(|reader| Step::Read { reader }),
    ]
}

proptest! {
    // R1, R2, R3, D9, D10, D11, D15, D26, P1, P2, P14, P20, P25, P34, P37; defects 6, 7, 20 of behaviour.md 10.
    #[test]
    fn who_is_told_that_nothing_is_missing_holds_what_the_engine_holds(
        steps in vec(any_step(), 10..120),
        history_batches in 1usize..20,
    ) {
        let options = Options { ranks: 2, history_batches, ..Options::default() };
        let mut world = World::new(options, 1_000);
        steps.iter().for_each(|step| world.step(step));
        world.settle();
        for (number, publisher) in (0..).zip(&world.publishers) {
            let status = world.relay.status(number).unwrap();
            prop_assert_eq!((status.unknown_before, status.lost), (0, 0), "rank {}: {:?}", number, status);
            prop_assert_eq!(status.last, Some(publisher.next() - 1));
            for reader in &world.readers {
                prop_assert_eq!(reader.ranks[number as usize].names(), publisher.names());
            }
        }
    }

    #[test]
    fn a_publisher_that_keeps_little_leaves_readers_degraded_and_never_wrong(steps in vec(any_step(), 10..120)) {
        let mut world = World::new(Options { ranks: 2, history_batches: 8, ..Options::default() }, 3);
        steps.iter().for_each(|step| world.step(step));
        world.settle();
    }

    #[test]
    fn without_replay_sockets_what_is_missing_is_said(steps in vec(any_step(), 10..120)) {
        let mut world = World::new(Options { ranks: 2, replays: false, history_batches: 8, ..Options::default() }, 0);
        steps.iter().for_each(|step| world.step(step));
        world.settle();
    }
}
