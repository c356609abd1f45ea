//! The loop that runs one rank: commands in, passes through the scheduler, effects out.
//!
//! A pass is decided first and takes its time afterwards; what it did becomes visible when that time is over: first the
//! events, then the tokens, so that whoever got an answer can rely on its events being on the way. Commands wait for the
//! end of the pass, as they do in a real engine.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::events::{CacheEvent, Dialect, StreamFormat};
use super::generation::Update;
use super::limits;
use super::load::Load;
use super::log::{LogEntry, RequestLog};
use super::mirror::CacheMirror;
use super::scheduler::{Admitted, Emitted, Pass, Scheduler};
use super::sequence::{Prompt, Request};
use super::timing::Timing;
use super::zmq::Publisher;

/// What a rank can be told.
#[derive(Debug)]
pub(super) enum Command {
    Submit(Submission),
    Cancel(u64),
    /// Drops the cache; answered when that is done and published.
    Reset(oneshot::Sender<()>),
    /// Starts no further pass. Health and load go on answering.
    Pause(oneshot::Sender<()>),
    Resume(oneshot::Sender<()>),
    /// How many tokens would be served from the cache now.
    Truth(Prompt, oneshot::Sender<usize>),
}

/// A request with all that its log entry needs.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) request: Request,
    pub(super) updates: mpsc::UnboundedSender<Update>,
    pub(super) answer_id: String,
    pub(super) oracle_tokens: usize,
    pub(super) arrived: Instant,
}

/// Where a rank's loop belongs and whom it tells.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) worker: usize,
    pub(super) rank: usize,
    pub(super) format: StreamFormat,
    pub(super) publisher: Arc<Publisher>,
    pub(super) mirror: Arc<CacheMirror>,
    pub(super) load: Arc<Mutex<Load>>,
    pub(super) log: Arc<RequestLog>,
}

/// One rank.
pub(super) struct EngineCore {
    scheduler: Scheduler,
    timing: Timing,
    pacer: Pacer,
    links: Links,
    commands: mpsc::UnboundedReceiver<Command>,
    clients: HashMap<u64, Client>,
    resets: Vec<oneshot::Sender<()>>,
    paused: bool,
}

struct Client {
    updates: mpsc::UnboundedSender<Update>,
    answer_id: String,
    prompt_tokens: usize,
    oracle_tokens: usize,
    cached_tokens: usize,
    arrived: Instant,
}

impl EngineCore {
    pub(super) fn new(scheduler: Scheduler, timing: Timing, links: Links, commands: mpsc::UnboundedReceiver<Command>) -> Self {
        let (clients, resets) = (HashMap::new(), Vec::new());
        Self { scheduler, timing, pacer: Pacer::new(), links, commands, clients, resets, paused: false }
    }

    /// Runs until `stop`. Dropping the clients then ends their answers.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        if self.links.format.dialect == Dialect::Sglang {
            // A new radix tree resets itself, and that is the first thing it tells.
            self.publish(&[CacheEvent::Cleared]);
        }
        stop.run_until_cancelled(async { while self.step().await {} }).await;
    }

    /// One pass, or one command if there is nothing to compute. Returns false when nobody is left to command.
    async fn step(&mut self) -> bool {
        while let Ok(command) = self.commands.try_recv() {
            self.obey(command);
        }
        if self.paused || !self.scheduler.has_work() {
            self.links.load.lock().observe(&self.scheduler);
            let command = self.commands.recv().await;
            self.pacer.due = Instant::now();
            return command.map(|command| self.obey(command)).is_some();
        }
        let started = Instant::now();
        let pass = self.scheduler.pass();
        let duration = self.timing.real(pass.work);
        self.pacer.wait(started, duration).await;
        self.reveal(&pass, started, duration);
        true
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(submission) => self.submit(submission),
            Command::Cancel(id) => {
                self.scheduler.cancel(id);
                self.clients.remove(&id);
            }
            Command::Reset(done) => {
                self.scheduler.request_reset();
                self.resets.push(done);
            }
            Command::Pause(done) => self.set_paused(true, done),
            Command::Resume(done) => self.set_paused(false, done),
            Command::Truth(prompt, answer) => {
                let blocks = self.scheduler.pool().matched(prompt.servable());
                let _ = answer.send(blocks * self.links.format.block_size);
            }
        }
    }

    fn submit(&mut self, submission: Submission) {
        let Submission { request, updates, answer_id, oracle_tokens, arrived } = submission;
        let prompt_tokens = request.prompt.tokens().len();
        let client = Client { updates, answer_id, prompt_tokens, oracle_tokens, cached_tokens: 0, arrived };
        self.clients.insert(request.id, client);
        self.scheduler.submit(request);
    }

    fn set_paused(&mut self, paused: bool, done: oneshot::Sender<()>) {
        self.paused = paused;
        let _ = done.send(());
    }

    fn reveal(&mut self, pass: &Pass, started: Instant, duration: Duration) {
        self.links.mirror.apply(&pass.events);
        self.publish(&pass.events);
        self.count(pass, duration);
        pass.admitted.iter().for_each(|admitted| self.log_admission(admitted, started));
        pass.emitted.iter().for_each(|emitted| self.deliver(emitted));
        for done in self.resets.drain(..) {
            let _ = done.send(());
        }
    }

    fn publish(&self, events: &[CacheEvent]) {
        if !events.is_empty() {
            let now_s = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64();
            self.links.publisher.publish(self.links.format.encode(now_s, events));
        }
    }

    fn count(&self, pass: &Pass, duration: Duration) {
        let mut load = self.links.load.lock();
        load.count_pass(pass, duration.as_secs_f64());
        load.observe(&self.scheduler);
    }

    fn log_admission(&mut self, admitted: &Admitted, started: Instant) {
        let Some(client) = self.clients.get_mut(&admitted.id) else { return };
        client.cached_tokens = admitted.cached_tokens;
        self.links.load.lock().count_admission(client.prompt_tokens, admitted.cached_tokens);
        self.links.log.push(LogEntry {
            sequence: 0,
            id: client.answer_id.clone(),
            worker: self.links.worker,
            rank: self.links.rank,
            prompt_tokens: client.prompt_tokens,
            cached_tokens: admitted.cached_tokens,
            oracle_tokens: client.oracle_tokens.max(admitted.cached_tokens),
            queued_ms: started.saturating_duration_since(client.arrived).as_secs_f64() * 1_000.0,
        });
    }

    fn deliver(&mut self, emitted: &Emitted) {
        let Some(client) = self.clients.get(&emitted.id) else { return };
        let update = Update { token: emitted.token, cached_tokens: client.cached_tokens, last: emitted.last };
        // A client that is gone sends a cancel; until that is read its tokens go nowhere.
        let _ = client.updates.send(update);
        if emitted.last {
            self.clients.remove(&emitted.id);
        }
    }
}

/// Keeps passes on schedule although timers are coarse: a pass that was woken late shortens the wait of the next one.
struct Pacer {
    due: Instant,
}

impl Pacer {
    fn new() -> Self {
        Self { due: Instant::now() }
    }

    async fn wait(&mut self, started: Instant, duration: Duration) {
        self.due = self.next_due(started, duration);
        if self.due > Instant::now() {
            tokio::time::sleep_until(self.due).await;
        } else {
            // Passes without a wait must still let connections and sockets have their turn.
            tokio::task::yield_now().await;
        }
    }

    fn next_due(&self, started: Instant, duration: Duration) -> Instant {
        self.due.max(started.checked_sub(limits::PACING_SLACK).unwrap_or(started)) + duration
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_wake_up_is_made_up_for_but_a_stall_is_not() {
        let now = Instant::now() + Duration::from_secs(10);
        let due = |late: Duration| {
            let pacer = Pacer { due: now.checked_sub(late).unwrap() };
            pacer.next_due(now, Duration::from_millis(5)).duration_since(now)
        };
        assert_eq!(due(Duration::ZERO), Duration::from_millis(5));
        assert_eq!(due(Duration::from_millis(1)), Duration::from_millis(4));
        assert_eq!(due(Duration::from_secs(5)), Duration::from_millis(3));
    }
}
