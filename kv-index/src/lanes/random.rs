//! Random schedules on one thread. A lane's work is cut into the steps that others can come between, and so is queuing: what
//! is drawn is their order.

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::inbox::{Job, Pushed, Step};
use super::reply::Reply;
use super::scene::{Event, Log, event, options};
use super::shared::Shared;
use super::slot::{Slot, apply};
use super::stream::{Retired, StreamState};

const LANES: usize = 3;
const QUEUE: usize = 4;

#[derive(Clone, Debug)]
enum Op {
    Add,
    Enqueue {
        stream: usize,
        slices: u32,
        panics: bool,
    },
    Task {
        stream: usize,
    },
    /// Someone who queued something gets around to listing the stream.
    Place,
    /// A lane does its next step. `over`: if that ends an event, the turn is over.
    Lane {
        lane: usize,
        over: bool,
    },
    Remove {
        stream: usize,
    },
}

fn any_op() -> impl Strategy<Value = Op> {
    let stream = 0..4usize;
    prop_oneof![
        1 => Just(Op::Add),
        8 => (stream.clone(), 1..4u32, proptest::bool::weighted(0.05))
            .prop_map(|(stream, slices, panics)| Op::Enqueue { stream, slices, panics }),
        2 => stream.clone().prop_map(|stream| Op::Task { stream }),
        6 => Just(Op::Place),
        16 => (0..LANES, any::<bool>()).prop_map(|(lane, over)| Op::Lane { lane, over }),
        1 => stream.prop_map(|stream| Op::Remove { stream }),
    ]
}

/// What a lane is at.
enum Hand {
    Empty,
    Taken(Arc<Slot<Log>>),
    Begun(Arc<Slot<Log>>, Box<Log>, Job<Log>),
}

#[derive(Clone, Copy, PartialEq)]
enum Accepted {
    Event(Event),
    Task(u32),
}

struct Fed {
    slot: Arc<Slot<Log>>,
    accepted: Vec<Accepted>,
    removal: Option<Reply<Retired<Log>>>,
}

struct World {
    shared: Shared<Log>,
    streams: Vec<Fed>,
    /// Queued, and not listed yet.
    unplaced: VecDeque<(Arc<Slot<Log>>, Pushed)>,
    hands: Vec<Hand>,
    next: u32,
}

impl World {
    fn new() -> Self {
        let hands = (0..LANES).map(|_| Hand::Empty).collect();
        Self { shared: Shared::new(LANES), streams: Vec::new(), unplaced: VecDeque::new(), hands, next: 0 }
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Add => self.add(),
            Op::Enqueue { stream, slices, panics } => self.enqueue(stream, slices, panics),
            Op::Task { stream } => self.task(stream),
            Op::Place => self.place(),
            Op::Lane { lane, over } => self.lane(lane, over),
            Op::Remove { stream } => self.remove(stream),
        }
    }

    fn add(&mut self) {
        let home = self.streams.len() % LANES;
        let slot = self.shared.registry.enter(|id| Slot::new(id, Log::default(), home, options(QUEUE, 1)));
        self.streams.push(Fed { slot, accepted: Vec::new(), removal: None });
    }

    fn enqueue(&mut self, stream: usize, slices: u32, panics: bool) {
        self.next += 1;
        let offered = Event { slices, panics, ..event(self.next) };
        let Some(fed) = self.streams.get_mut(stream) else { return };
        let pushed = fed.slot.inbox().push_event(offered, 1);
        match pushed {
            Ok(pushed) => {
                fed.accepted.push(Accepted::Event(offered));
                self.unplaced.push_back((Arc::clone(&fed.slot), pushed));
            }
            Err(refused) => assert_eq!(refused.item, offered),
        }
    }

    fn task(&mut self, stream: usize) {
        self.next += 1;
        let number = self.next;
        let Some(fed) = self.streams.get_mut(stream) else { return };
        let task = Box::new(move |log: &mut Log| log.applied.push(number));
        if let Ok(pushed) = fed.slot.inbox().push_task(task, |task| task) {
            fed.accepted.push(Accepted::Task(number));
            self.unplaced.push_back((Arc::clone(&fed.slot), pushed));
        }
    }

    fn place(&mut self) {
        if let Some((slot, pushed)) = self.unplaced.pop_front() {
            self.shared.place(&slot, pushed);
        }
    }

    fn lane(&mut self, lane: usize, over: bool) {
        let hand = std::mem::replace(&mut self.hands[lane], Hand::Empty);
        self.hands[lane] = match hand {
            Hand::Empty => self.shared.schedule.take(lane).map_or(Hand::Empty, Hand::Taken),
            Hand::Taken(slot) => {
                let begun = slot.inbox().begin(lane);
                begun.map_or(Hand::Empty, |(stream, job)| Hand::Begun(slot, stream, job))
            }
            Hand::Begun(slot, mut stream, job) => {
                let outcome = apply(&mut *stream, job);
                match slot.advance(stream, outcome, over) {
                    Step::Apply(stream, job) => Hand::Begun(slot, stream, job),
                    end => {
                        self.shared.end_turn(lane, slot, end);
                        Hand::Empty
                    }
                }
            }
        };
    }

    fn remove(&mut self, stream: usize) {
        let Some(fed) = self.streams.get_mut(stream) else { return };
        let reply = self.shared.remove(&fed.slot);
        if fed.removal.is_none() {
            fed.removal = Some(reply);
        }
    }

    /// Everybody finishes what is begun, and the lanes everything else.
    fn settle(&mut self) {
        while !self.unplaced.is_empty() {
            self.place();
        }
        let is_busy = |world: &Self| {
            let mut listed = false;
            world.shared.schedule.for_each_listed(|_| listed = true);
            listed || world.hands.iter().any(|hand| !matches!(hand, Hand::Empty))
        };
        while is_busy(self) {
            (0..LANES).for_each(|lane| self.lane(lane, lane == 0));
        }
    }

    /// A queued stream stands in exactly one place, counting who is about to list it or has just taken it; any other in none.
    fn check_standing(&self) {
        let mut standing = Vec::new();
        self.shared.schedule.for_each_listed(|slot| standing.push(slot.id));
        standing
            .extend(self.unplaced.iter().filter(|(_, pushed)| matches!(pushed, Pushed::Ready { .. })).map(|(slot, _)| slot.id));
        standing.extend(self.hands.iter().filter_map(|hand| if let Hand::Taken(slot) = hand { Some(slot.id) } else { None }));
        for slot in self.streams.iter().map(|fed| &fed.slot) {
            let times = standing.iter().filter(|id| **id == slot.id).count();
            match slot.inbox().state() {
                StreamState::Queued => assert_eq!(times, 1),
                StreamState::Removed => assert!(times <= 1),
                _ => assert_eq!(times, 0),
            }
            assert!(slot.inbox().held().events <= QUEUE);
        }
    }
}

/// `retired` applied what it accepted, in order, up to where it ended, and gave back the events after that.
fn check_order(accepted: &[Accepted], retired: &Retired<Log>) {
    let number = |accepted: &Accepted| match accepted {
        Accepted::Event(event) => event.number,
        Accepted::Task(number) => *number,
    };
    let (done, mut rest) = accepted.split_at(retired.stream.applied.len());
    assert_eq!(done.iter().map(number).collect::<Vec<_>>(), retired.stream.applied);
    if retired.failure.is_some() {
        assert!(matches!(rest[0], Accepted::Event(Event { panics: true, .. })));
        rest = &rest[1..];
    }
    let events = rest.iter().filter(|accepted| matches!(accepted, Accepted::Event(_))).map(number);
    assert_eq!(events.collect::<Vec<_>>(), retired.unapplied.iter().map(|event| event.number).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn order_standing_and_sums_hold_in_every_schedule(ops in vec(any_op(), 0..200)) {
        let mut world = World::new();
        world.add();
        for op in &ops {
            world.run(op);
            world.check_standing();
        }
        world.settle();
        world.check_standing();

        for Fed { slot, accepted, removal } in std::mem::take(&mut world.streams) {
            let is_over = removal.is_some() || slot.inbox().state() == StreamState::Failed;
            let retired = removal.unwrap_or_else(|| world.shared.remove(&slot)).wait().unwrap();
            check_order(&accepted, &retired);
            prop_assert!(is_over || retired.stream.applied.len() == accepted.len(), "a live stream applies everything");
        }
        let counts = world.shared.registry.departed();
        prop_assert_eq!(counts.accepted, counts.applied + counts.panicked + counts.unapplied);
    }
}
