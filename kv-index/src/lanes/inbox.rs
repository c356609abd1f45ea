//! A stream's queue and its place in the schedule: the state machine that a [`Slot`](super::slot::Slot) keeps under its lock.
//!
//! Nothing of the stream's own code runs in here: what would (drops, wake-ups, replies) is handed out, to be done once the
//! lock is free.

use std::collections::VecDeque;
use std::mem;
use std::task::Waker;

use super::metrics::Counts;
use super::reply::Promise;
use super::stream::{Failure, Load, Refusal, Refused, Retired, Stream, StreamId, StreamOptions, StreamState};
use crate::limits::{LANE_QUEUE_KEPT, LANE_TASKS_MAX};

pub(super) struct Inbox<S: Stream> {
    phase: Phase<S>,
    queue: VecDeque<Job<S>>,
    /// Events in the queue and the one in a lane's hands.
    held: Load,
    /// Tasks in the queue, marks not counted.
    tasks: usize,
    /// The lane that last had the stream: its cache may still know it.
    home: usize,
    closed: bool,
    options: StreamOptions,
    counts: Counts,
    /// Who waits for room.
    waiting: Vec<Waker>,
}

/// The table in the head of [`lanes`](super) says who moves one into which.
enum Phase<S: Stream> {
    /// The value is here. `listed`: the queue is not empty, and a ready list has the slot or is about to.
    Resting { stream: Box<S>, listed: bool },
    /// A lane has the value.
    Running,
    /// A lane has the value and will hand it to who asked for it.
    Leaving(Promise<Retired<S>>),
    /// The value is here and its last event panicked.
    Failed { stream: Box<S>, message: String },
    /// The value is gone.
    Removed,
}

pub(super) enum Job<S: Stream> {
    Event {
        event: S::Event,
        cost: u64,
    },
    Task(Task<S>),
    /// A task that does not count against the bound of tasks.
    Mark(Task<S>),
}

pub(super) type Task<S> = Box<dyn FnOnce(&mut S) + Send>;

/// What a job came to.
pub(super) enum Outcome<S: Stream> {
    Applied {
        cost: u64,
    },
    /// Not all of the event was applied.
    Sliced {
        rest: S::Event,
        cost: u64,
    },
    Done,
    /// `cost`: of the event, if it was one.
    Panicked {
        message: String,
        cost: Option<u64>,
    },
}

/// Whether the stream must be put on a ready list by whoever queued something.
#[must_use]
#[derive(Clone, Copy)]
pub(super) enum Pushed {
    /// It stands on one, or a lane has it and will look again.
    Standing,
    /// On this lane's.
    Ready { lane: usize },
}

/// What a lane does next with the stream that it had.
#[must_use]
pub(super) enum Step<S: Stream> {
    /// Apply this.
    Apply(Box<S>, Job<S>),
    /// Nothing; whoever queues the next event will list the stream.
    Rest,
    /// Put it on a ready list again.
    List,
    /// Drop the tasks that will never run.
    Fail(VecDeque<Job<S>>),
    /// Hand it over.
    Leave(Departure<S>),
}

/// A stream on its way out of the pool.
pub(super) struct Departure<S: Stream> {
    pub(super) counts: Counts,
    promise: Promise<Retired<S>>,
    stream: Box<S>,
    jobs: VecDeque<Job<S>>,
    failure: Option<String>,
}

/// What became of the wish to remove a stream.
#[must_use]
pub(super) enum Leave<S: Stream> {
    Now(Departure<S>),
    /// The lane that has the stream will see to it.
    Soon,
    /// Someone else has removed it. The promise is to be dropped.
    Never(Promise<Retired<S>>),
}

impl<S: Stream> Inbox<S> {
    pub(super) fn new(stream: S, home: usize, options: StreamOptions) -> Self {
        Self {
            phase: Phase::Resting { stream: Box::new(stream), listed: false },
            queue: VecDeque::new(),
            held: Load::default(),
            tasks: 0,
            home,
            closed: false,
            options,
            counts: Counts::default(),
            waiting: Vec::new(),
        }
    }

    pub(super) fn push_event(&mut self, event: S::Event, cost: u64) -> Result<Pushed, Refused<S::Event>> {
        if let Some(why) = self.refusal() {
            self.counts.returned += 1;
            return Err(Refused { item: event, why });
        }
        self.held.add(cost);
        self.counts.accepted += 1;
        Ok(self.push(Job::Event { event, cost }))
    }

    /// Queues what `boxed` makes of `task`.
    pub(super) fn push_task<F>(&mut self, task: F, boxed: impl FnOnce(F) -> Task<S>) -> Result<Pushed, Refused<F>> {
        if let Some(why) = self.task_refusal() {
            return Err(Refused { item: task, why });
        }
        self.tasks += 1;
        Ok(self.push(Job::Task(boxed(task))))
    }

    /// Queues a task of the pool's own, even at the bound and after the stream was closed.
    pub(super) fn push_mark(&mut self, mark: Task<S>) -> Result<Pushed, Task<S>> {
        if self.is_live() { Ok(self.push(Job::Mark(mark))) } else { Err(mark) }
    }

    /// Nothing more is taken.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// The stream and its first job, for a lane that found it on a list. Nothing if it has left since.
    pub(super) fn begin(&mut self, lane: usize) -> Option<(Box<S>, Job<S>)> {
        match mem::replace(&mut self.phase, Phase::Running) {
            Phase::Resting { stream, listed: true } => {
                self.home = lane;
                Some((stream, self.pop().expect("what is listed has something queued")))
            }
            phase => {
                debug_assert!(matches!(phase, Phase::Removed), "only a stream that left can be listed otherwise");
                self.phase = phase;
                None
            }
        }
    }

    /// Takes a job's outcome in and says what comes next. `over`: the turn is.
    pub(super) fn advance(&mut self, stream: Box<S>, outcome: Outcome<S>, over: bool) -> Step<S> {
        debug_assert!(matches!(self.phase, Phase::Running | Phase::Leaving(_)), "the value was with a lane");
        match outcome {
            Outcome::Panicked { message, cost } => return self.fail(stream, message, cost),
            Outcome::Sliced { rest, cost } => self.queue.push_front(Job::Event { event: rest, cost }),
            Outcome::Applied { cost } => {
                self.held.sub(cost);
                self.counts.applied += 1;
            }
            Outcome::Done => {}
        }
        match mem::replace(&mut self.phase, Phase::Running) {
            Phase::Leaving(promise) => Step::Leave(self.depart(promise, stream, None)),
            _ if self.queue.is_empty() => self.rest(stream),
            _ if over => {
                self.phase = Phase::Resting { stream, listed: true };
                Step::List
            }
            _ => Step::Apply(stream, self.pop().expect("seen above")),
        }
    }

    /// Removes the stream, now or when the lane that has it is back.
    pub(super) fn leave(&mut self, promise: Promise<Retired<S>>) -> Leave<S> {
        match mem::replace(&mut self.phase, Phase::Removed) {
            Phase::Resting { stream, .. } => Leave::Now(self.depart(promise, stream, None)),
            Phase::Failed { stream, message } => Leave::Now(self.depart(promise, stream, Some(message))),
            Phase::Running => {
                self.phase = Phase::Leaving(promise);
                Leave::Soon
            }
            phase @ (Phase::Leaving(_) | Phase::Removed) => {
                self.phase = phase;
                Leave::Never(promise)
            }
        }
    }

    /// Whether an offer would be taken now, or refused for good. Otherwise takes `waker`, once for each task, to tell it when.
    pub(super) fn has_news_or_keeps(&mut self, waker: &mut Option<Waker>) -> bool {
        if self.has_news() {
            return true;
        }
        let is_known = |waker: &Waker| self.waiting.iter().any(|known| known.will_wake(waker));
        self.waiting.extend(waker.take_if(|waker| !is_known(waker)));
        false
    }

    /// Whom to wake: everybody who waits for room, if there is some or never will be.
    pub(super) fn due(&mut self) -> Vec<Waker> {
        if !self.waiting.is_empty() && self.has_news() { mem::take(&mut self.waiting) } else { Vec::new() }
    }

    pub(super) fn state(&self) -> StreamState {
        match self.phase {
            Phase::Resting { listed: false, .. } => StreamState::Idle,
            Phase::Resting { listed: true, .. } => StreamState::Queued,
            Phase::Running => StreamState::Running,
            Phase::Failed { .. } => StreamState::Failed,
            Phase::Leaving(_) | Phase::Removed => StreamState::Removed,
        }
    }

    pub(super) fn failure(&self, stream: StreamId) -> Option<Failure> {
        let Phase::Failed { message, .. } = &self.phase else { return None };
        Some(Failure { stream, message: message.clone(), unapplied: self.queue.len() })
    }

    pub(super) fn held(&self) -> Load {
        self.held
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    fn refusal(&self) -> Option<Refusal> {
        let full = || Refusal::Full { held: self.held, bound: self.options.queue };
        self.closing().or_else(|| (!self.held.is_below(&self.options.queue)).then(full))
    }

    fn task_refusal(&self) -> Option<Refusal> {
        let full = || Refusal::TasksFull { max: LANE_TASKS_MAX };
        self.closing().or_else(|| (self.tasks >= LANE_TASKS_MAX).then(full))
    }

    fn closing(&self) -> Option<Refusal> {
        match self.phase {
            Phase::Failed { .. } => Some(Refusal::Failed),
            Phase::Leaving(_) | Phase::Removed => Some(Refusal::Closed),
            _ if self.closed => Some(Refusal::Closed),
            Phase::Resting { .. } | Phase::Running => None,
        }
    }

    fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Resting { .. } | Phase::Running)
    }

    fn has_news(&self) -> bool {
        self.closing().is_some() || self.held.is_at_most_half(&self.options.queue)
    }

    fn push(&mut self, job: Job<S>) -> Pushed {
        self.queue.push_back(job);
        match &mut self.phase {
            Phase::Resting { listed, .. } if !*listed => {
                *listed = true;
                Pushed::Ready { lane: self.home }
            }
            _ => Pushed::Standing,
        }
    }

    fn pop(&mut self) -> Option<Job<S>> {
        let job = self.queue.pop_front()?;
        self.tasks -= usize::from(matches!(job, Job::Task(_)));
        Some(job)
    }

    fn rest(&mut self, stream: Box<S>) -> Step<S> {
        self.phase = Phase::Resting { stream, listed: false };
        if self.queue.capacity() > LANE_QUEUE_KEPT {
            self.queue.shrink_to(LANE_QUEUE_KEPT);
        }
        Step::Rest
    }

    /// The events stay for whoever removes the stream; nobody is left waiting for its tasks.
    fn fail(&mut self, stream: Box<S>, message: String, cost: Option<u64>) -> Step<S> {
        if let Some(cost) = cost {
            self.held.sub(cost);
            self.counts.panicked += 1;
        }
        if let Phase::Leaving(promise) = mem::replace(&mut self.phase, Phase::Removed) {
            return Step::Leave(self.depart(promise, stream, Some(message)));
        }
        self.phase = Phase::Failed { stream, message };
        self.tasks = 0;
        let (events, tasks) = mem::take(&mut self.queue).into_iter().partition(|job| matches!(job, Job::Event { .. }));
        self.queue = events;
        Step::Fail(tasks)
    }

    fn depart(&mut self, promise: Promise<Retired<S>>, stream: Box<S>, failure: Option<String>) -> Departure<S> {
        self.phase = Phase::Removed;
        self.tasks = 0;
        self.counts.unapplied = self.held.events as u64;
        self.held = Load::default();
        Departure { counts: mem::take(&mut self.counts), promise, stream, jobs: mem::take(&mut self.queue), failure }
    }
}

impl<S: Stream> Departure<S> {
    /// Hands the stream to who asked for it, and drops the tasks that will never run.
    pub(super) fn complete(self, id: StreamId) {
        let event = |job| if let Job::Event { event, .. } = job { Some(event) } else { None };
        let unapplied = self.jobs.into_iter().filter_map(event).collect();
        self.promise.fulfil(Retired { id, stream: *self.stream, unapplied, failure: self.failure });
    }
}

#[cfg(all(test, not(any(kv_loom, kv_shuttle))))]
mod tests {
    use super::super::scene::{Log, event, options};
    use super::*;

    #[test]
    fn the_memory_of_a_burst_is_given_back() {
        let mut inbox = Inbox::new(Log::default(), 0, options(10_000, 1));
        (0..10_000).for_each(|number| _ = inbox.push_event(event(number), 1).unwrap());
        let (mut stream, mut job) = inbox.begin(0).unwrap();
        while let Step::Apply(same, next) = inbox.advance(stream, Outcome::Applied { cost: 1 }, false) {
            (stream, job) = (same, next);
        }
        assert!(matches!(job, Job::Event { event, .. } if event.number == 9_999));
        assert!(inbox.queue.capacity() <= 2 * LANE_QUEUE_KEPT);
    }
}
