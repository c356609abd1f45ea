//! An engine that answers as it is told to, and remembers how it was asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kv_routing::adapter::tokio::{LoadSource, PollError, Pulse, Watch};
use kv_routing::liveness;
use kv_routing::load::wire::Loads;
use kv_routing::load::{self, Ledger, Sample};
use parking_lot::Mutex;
use tokio::time::sleep;

/// What it answers, and after how long; the last one again and again.
type Answer = fn(Duration) -> Result<Loads, PollError>;

#[derive(Clone)]
pub(crate) struct Engine(Arc<State>);

struct State {
    answers: Mutex<Vec<(Duration, Answer)>>,
    asked_at: Mutex<Vec<Duration>>,
    under_way: AtomicU32,
    most_under_way: AtomicU32,
}

/// A question under way.
struct Question<'a>(&'a State);

impl Engine {
    pub(crate) fn new(answers: &[(Duration, Answer)]) -> Self {
        Self(Arc::new(State {
            answers: Mutex::new(answers.iter().rev().copied().collect()),
            asked_at: Mutex::default(),
            under_way: AtomicU32::new(0),
            most_under_way: AtomicU32::new(0),
        }))
    }

    /// When it was asked, in milliseconds.
    pub(crate) fn asked_ms(&self) -> Vec<u128> {
        self.0.asked_at.lock().iter().map(Duration::as_millis).collect()
    }

    pub(crate) fn under_way(&self) -> u32 {
        self.0.under_way.load(Ordering::Relaxed)
    }

    pub(crate) fn most_under_way(&self) -> u32 {
        self.0.most_under_way.load(Ordering::Relaxed)
    }
}

impl LoadSource for Engine {
    async fn poll(&self, sent_at: Duration) -> Result<Loads, PollError> {
        let question = Question::new(&self.0);
        self.0.asked_at.lock().push(sent_at);
        let (after, answer) = {
            let mut answers = self.0.answers.lock();
            if answers.len() > 1 { answers.pop().unwrap() } else { answers[0] }
        };
        sleep(after).await;
        drop(question);
        answer(sent_at)
    }
}

impl<'a> Question<'a> {
    fn new(state: &'a State) -> Self {
        let now = state.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        state.most_under_way.fetch_max(now, Ordering::Relaxed);
        Self(state)
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One worker, unswept.
pub(crate) fn worker(watch: &Watch) -> (Pulse, Ledger) {
    (watch.enlist().unwrap(), Ledger::new(load::Options::default()))
}

pub(crate) fn watch() -> Watch {
    Watch::new(liveness::Options::default())
}

pub(crate) fn loads(ranks: &[(u16, f64, f64)], sent_at: Duration) -> Loads {
    let sample = |&(rank, running, waiting)| (rank, Sample { running, waiting, ..Sample::polled(sent_at) });
    Loads { ranks: ranks.iter().map(sample).collect(), unreadable: 0 }
}

#[expect(clippy::unnecessary_wraps, reason = "an answer as the others")]
pub(crate) fn busy(sent_at: Duration) -> Result<Loads, PollError> {
    Ok(loads(&[(0, 3.0, 1.0)], sent_at))
}

pub(crate) fn refused(_: Duration) -> Result<Loads, PollError> {
    Err(PollError::transport("connection refused"))
}

pub(crate) fn broken(_: Duration) -> Result<Loads, PollError> {
    Err(PollError::engine("500"))
}
