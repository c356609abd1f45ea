//! A fleet's workers, and the sweep over them.

use std::collections::VecDeque;
use std::time::Duration;

use thiserror::Error;

use super::judge::{Change, Judge};
use super::{Cause, Contact, Options, Report, Transition, Veto, Vitals};
use crate::limits::{SWEEP_EVERY, TRANSITIONS_MAX, WORKERS_MAX};

/// A worker of one tracker. The generation tells it from a later worker in the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    place: u32,
    generation: u32,
}

/// There is no room for another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a fleet has at most {limit} workers")]
pub struct WorkersExhausted {
    /// The most there can be.
    pub limit: usize,
}

/// What a tracker has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackerCounts {
    /// Vetoes set and ended, by the cause's place in [`Cause::ALL`].
    transitions: [u64; Cause::ALL.len()],
    /// Inputs for workers that are not, or no more, in the fleet.
    pub strays: u64,
    /// Transitions that nobody polled before too many more came.
    pub unpolled: u64,
}

/// Who of a fleet is vetoed. See the [module](super).
#[derive(Debug)]
pub struct Tracker {
    options: Options,
    seats: Vec<Seat>,
    free: Vec<u32>,
    due: Option<Duration>,
    transitions: VecDeque<Transition>,
    vetoed: [usize; Veto::ALL.len()],
    counts: TrackerCounts,
}

/// A place for a worker.
#[derive(Debug)]
struct Seat {
    generation: u32,
    taken: Option<(Vitals, Judge)>,
}

impl Tracker {
    /// A tracker of nobody.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            seats: Vec::new(),
            free: Vec::new(),
            due: None,
            transitions: VecDeque::new(),
            vetoed: [0; Veto::ALL.len()],
            counts: TrackerCounts::default(),
        }
    }

    /// A worker joins, without a veto. That counts as contact with it.
    ///
    /// # Errors
    /// [`WorkersExhausted`] beyond [`WORKERS_MAX`].
    pub fn add_worker(&mut self, now: Duration) -> Result<Handle, WorkersExhausted> {
        let exhausted = WorkersExhausted { limit: WORKERS_MAX };
        let place = if let Some(place) = self.free.pop() {
            place
        } else if self.seats.len() < WORKERS_MAX {
            self.seats.push(Seat { generation: 0, taken: None });
            u32::try_from(self.seats.len() - 1).map_err(|_| exhausted)?
        } else {
            return Err(exhausted);
        };
        let seat = &mut self.seats[place as usize];
        seat.taken = Some((Vitals::new(), Judge::new(now)));
        let generation = seat.generation;
        self.due = Some(self.due.unwrap_or_else(|| now.saturating_add(SWEEP_EVERY)));
        Ok(Handle { place, generation })
    }

    /// A worker leaves. Its tickets may outlive it. Whether there was such a worker.
    pub fn remove_worker(&mut self, worker: Handle) -> bool {
        let seat = self.seats.get_mut(worker.place as usize).filter(|seat| seat.generation == worker.generation);
        let Some((seat, (vitals, judge))) = seat.and_then(|seat| seat.taken.take().map(|taken| (seat, taken))) else {
            return false;
        };
        vitals.set_veto(None);
        if let Some(veto) = judge.veto() {
            self.vetoed[veto as usize] -= 1;
        }
        seat.generation = seat.generation.wrapping_add(1);
        self.free.push(worker.place);
        if self.free.len() == self.seats.len() {
            self.due = None;
        }
        true
    }

    /// What the worker's requests and the routing decision share.
    pub fn vitals(&self, worker: Handle) -> Option<Vitals> {
        let seat = self.seats.get(worker.place as usize).filter(|seat| seat.generation == worker.generation)?;
        seat.taken.as_ref().map(|(vitals, _)| vitals.clone())
    }

    /// The worker was heard.
    pub fn handle_contact(&mut self, now: Duration, worker: Handle, contact: Contact) {
        self.tell(now, worker, |_, judge, _| judge.contact(now, contact));
    }

    /// Something that the worker was given moved. For requests with a [`Ticket`](super::Ticket) it is told through that.
    pub fn handle_progress(&mut self, now: Duration, worker: Handle) {
        self.tell(now, worker, |_, judge, _| judge.progress(now, now));
    }

    /// The connection to the worker failed.
    pub fn handle_transport_failure(&mut self, now: Duration, worker: Handle) {
        self.tell(now, worker, |_, judge, options| judge.transport_failure(now, options));
    }

    /// The worker's load report came, pushed or polled. It is contact as well.
    pub fn handle_load_report(&mut self, now: Duration, worker: Handle, report: &Report) {
        self.tell(now, worker, |_, judge, _| judge.contact(now, Contact::Traffic));
        self.tell(now, worker, |vitals, judge, options| judge.report(now, report, &vitals.work_now(now), options));
    }

    /// Sweeps over all workers, if it is time.
    pub fn handle_timeout(&mut self, now: Duration) {
        // A due time further ahead than a sweep's period is from before the clock went back.
        if self.due.is_none_or(|due| now < due && due <= now.saturating_add(SWEEP_EVERY)) {
            return;
        }
        self.due = Some(now.saturating_add(SWEEP_EVERY));
        for place in 0..self.seats.len() {
            let Seat { generation, taken } = &self.seats[place];
            if let (Ok(place), true) = (u32::try_from(place), taken.is_some()) {
                let worker = Handle { place, generation: *generation };
                self.tell(now, worker, |vitals, judge, options| judge.sweep(now, &vitals.work_now(now), options));
            }
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next: every quarter of a second while there are workers.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Duration> {
        self.due
    }

    /// The next veto that was set or ended. Poll after every input, until there is none.
    #[must_use]
    pub fn poll_transition(&mut self) -> Option<Transition> {
        self.transitions.pop_front()
    }

    /// Whether there is a transition to be polled.
    #[must_use]
    pub fn has_transition(&self) -> bool {
        !self.transitions.is_empty()
    }

    /// How many workers are under a veto now.
    pub fn vetoed(&self, veto: Veto) -> usize {
        self.vetoed[veto as usize]
    }

    /// What was counted.
    pub fn counts(&self) -> &TrackerCounts {
        &self.counts
    }

    /// Takes note of the worker's progress, then gives its judge an input.
    fn tell(&mut self, now: Duration, worker: Handle, input: impl FnOnce(&Vitals, &mut Judge, &Options) -> Change) {
        let seat = self.seats.get_mut(worker.place as usize).filter(|seat| seat.generation == worker.generation);
        let Some((vitals, judge)) = seat.and_then(|seat| seat.taken.as_mut()) else {
            self.counts.strays += 1;
            return;
        };
        let mut changes = [None; 2];
        let mut from = judge.veto();
        changes[0] = vitals.take_progress().and_then(|at| judge.progress(now, at));
        changes[1] = input(vitals, judge, &self.options);
        vitals.set_veto(judge.veto());
        for (to, cause) in changes.into_iter().flatten() {
            self.say(Transition { worker, at: now, from, to, cause });
            from = to;
        }
    }

    fn say(&mut self, transition: Transition) {
        if let Some(veto) = transition.from {
            self.vetoed[veto as usize] -= 1;
        }
        if let Some(veto) = transition.to {
            self.vetoed[veto as usize] += 1;
        }
        self.counts.transitions[transition.cause as usize] += 1;
        if self.transitions.len() == TRANSITIONS_MAX {
            self.transitions.pop_front();
            self.counts.unpolled += 1;
        }
        self.transitions.push_back(transition);
    }
}

impl TrackerCounts {
    /// Vetoes set or ended for this cause.
    pub fn transitions(&self, cause: Cause) -> u64 {
        self.transitions[cause as usize]
    }
}
