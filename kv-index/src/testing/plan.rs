//! One stream of operations, dealt out to writers.
//!
//! What happens to a worker depends on its own operations only (rules 1 to 9 and 12), whatever the others do meanwhile. So the
//! stream, applied to the reference in order, tells what every writer must be answered, and what must be left at the end.

use std::collections::BTreeMap;

use super::{Answer, Driver, Op, assert_same_under};
use crate::{ContentHash, Index, Match, Matches, ReferenceIndex, WorkerId};

/// An operation on one worker, and what the reference answered.
#[derive(Clone, Debug)]
pub struct Job {
    /// The worker's seat.
    pub seat: usize,
    /// The operation.
    pub op: Op,
    answer: Answer,
}

/// A stream of operations as so many writers do it, and what comes of it.
#[derive(Debug)]
pub struct Plan {
    /// What each writer does, in order.
    pub writers: Vec<Vec<Job>>,
    /// What readers ask.
    pub requests: Vec<Vec<ContentHash>>,
    /// What is left at the end.
    reference: Driver<ReferenceIndex>,
    /// The worker in each seat at the end.
    ids: BTreeMap<usize, WorkerId>,
    /// Seats that were ever taken.
    seats: usize,
}

/// Where a writer keeps its workers: each in a driver of its own.
pub type Seats<'a, I> = BTreeMap<usize, (Driver<&'a I>, Option<WorkerId>)>;

impl Plan {
    /// Deals `ops` out to so many writers, by seat.
    pub fn new(writers: usize, ops: impl IntoIterator<Item = Op>) -> Self {
        let writers = (0..writers).map(|_| Vec::new()).collect();
        let reference = Driver::new(ReferenceIndex::new());
        let mut plan = Self { writers, requests: Vec::new(), reference, ids: BTreeMap::new(), seats: 0 };
        ops.into_iter().for_each(|op| plan.deal(op));
        plan
    }

    fn deal(&mut self, op: Op) {
        let seat = match &op {
            Op::Find { request } => return self.requests.push(request.clone()),
            Op::Add { .. } => (0..=self.seats).find(|seat| !self.ids.contains_key(seat)).expect("seats are numbered from 0"),
            Op::Drop { seat } | Op::Store { seat, .. } | Op::Remove { seat, .. } | Op::Clear { seat, .. } => {
                let Some(seat) = seat.checked_rem(self.seats).filter(|seat| self.ids.contains_key(seat)) else { return };
                seat
            }
        };
        let answer = self.reference.apply(&op);
        match (&op, &answer) {
            (Op::Add { .. }, Answer::Added(id)) => _ = self.ids.insert(seat, *id),
            (Op::Drop { .. }, _) => _ = self.ids.remove(&seat),
            _ => {}
        }
        self.seats = self.seats.max(seat + 1);
        let writers = self.writers.len();
        self.writers[seat % writers].push(Job { seat, op, answer });
    }

    /// Asserts that `index`, where all writers are done and left these workers, is what the reference is.
    ///
    /// # Panics
    /// When they differ.
    pub fn assert_same<I: Index>(&self, index: &I, left: &[Seats<'_, I>]) {
        let twins: BTreeMap<WorkerId, WorkerId> = left
            .iter()
            .flatten()
            .filter_map(|(seat, (_, id))| Some((self.ids.get(seat).copied()?, id.expect("a worker in the seat"))))
            .collect();
        assert_same_under(self.reference.index(), index, |worker| twins[&worker]);
        let (mut expected, mut found) = (Matches::new(), Matches::new());
        for request in &self.requests {
            self.reference.index().find(request, &mut expected);
            let mut translated = Matches::new();
            expected.iter().for_each(|row| translated.push(Match { worker: twins[&row.worker], ..row }));
            translated.finish();
            index.find(request, &mut found);
            assert_eq!(found, translated, "{request:?}");
        }
    }
}

impl Job {
    /// Does it, and asserts that the answer is the reference's.
    ///
    /// # Panics
    /// When it is not.
    pub fn run<'a, I: Index>(&self, index: &'a I, seats: &mut Seats<'a, I>) {
        let (driver, id) = seats.entry(self.seat).or_insert_with(|| (Driver::new(index), None));
        let answer = driver.apply(&self.op);
        match (&answer, &self.op) {
            (Answer::Added(added), _) => *id = Some(*added),
            (_, Op::Drop { .. }) => *id = None,
            _ => assert_eq!(answer, self.answer, "seat {}: {:?}", self.seat, self.op),
        }
    }
}

/// `ops`, with a worker replaced after every so many: its id is free for whoever is next.
pub fn with_replacements(ops: Vec<Op>, seats: usize, every: usize) -> Vec<Op> {
    let mut all = Vec::with_capacity(ops.len() + 2 * ops.len() / every);
    for (nth, op) in ops.into_iter().enumerate() {
        all.push(op);
        if nth % every == every - 1 && nth > seats {
            // A step that meets every seat.
            let seat = nth / every * 7 % seats;
            all.extend([Op::Drop { seat }, Op::Add { views: 1 + u8::from(seat.is_multiple_of(5)) }]);
        }
    }
    all
}
