//! The owner of the relay.

use std::time::Duration;

use hashbrown::HashMap;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::{Command, Input};
use crate::limits::{HUB_BATCH_BYTES, HUB_BATCH_ITEMS, HUB_INPUTS_MAX};
use crate::relay::{Next, Relay, ReplayRequest, SubscriberId};

/// A relay, its clock, and those who wait for it.
pub(super) struct Task {
    relay: Relay,
    begun: Instant,
    inputs: mpsc::Receiver<Input>,
    commands: mpsc::UnboundedReceiver<Command>,
    asking: Vec<watch::Sender<Option<ReplayRequest>>>,
    /// How many subscriptions there have been.
    subscribed: watch::Sender<u64>,
    /// Readers for whom there is nothing yet.
    waiting: HashMap<SubscriberId, oneshot::Sender<Vec<Next>>>,
    /// When one of them may be told something though nothing came.
    next_beat: Option<Duration>,
}

impl Task {
    /// `asking` is where its questions go, by rank; `subscribed` where its subscriptions are counted.
    pub(super) fn new(
        relay: Relay,
        asking: Vec<watch::Sender<Option<ReplayRequest>>>,
        subscribed: watch::Sender<u64>,
        inputs: mpsc::Receiver<Input>,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Self {
        let (begun, waiting) = (Instant::now(), HashMap::new());
        Self { relay, begun, inputs, commands, asking, subscribed, waiting, next_beat: None }
    }

    /// Until it is stopped, or nobody has a handle any more.
    pub(super) async fn run(mut self) {
        let mut came = Vec::with_capacity(HUB_INPUTS_MAX);
        let mut is_open = true;
        loop {
            let due = self.relay.next_timeout().into_iter().chain(self.next_beat).min();
            let due = due.map_or_else(|| Instant::now() + NEVER, |moment| self.begun + moment);
            tokio::select! {
                command = self.commands.recv() => match command {
                    None | Some(Command::Stop) => return,
                    Some(command) => self.obey(command),
                },
                count = self.inputs.recv_many(&mut came, HUB_INPUTS_MAX), if is_open => is_open = count > 0,
                () = sleep_until(due) => {}
            }
            while let Ok(command) = self.commands.try_recv() {
                if let Command::Stop = command {
                    return;
                }
                self.obey(command);
            }
            let now = self.begun.elapsed();
            came.drain(..).for_each(|input| self.take_in(now, input));
            self.relay.handle_timeout(now);
            self.ask();
            self.serve(now);
        }
    }

    fn obey(&mut self, command: Command) {
        let now = self.begun.elapsed();
        match command {
            Command::Subscribe { ranks, positions, answer } => {
                let subscribed = self.relay.subscribe_to(now, &ranks, &positions);
                self.subscribed.send_modify(|count| *count += u64::from(subscribed.is_ok()));
                if let Err(Ok(id)) = answer.send(subscribed) {
                    // Who asked has not waited for it.
                    self.relay.unsubscribe(id);
                }
            }
            Command::Next { id, answer } => _ = self.waiting.insert(id, answer),
            Command::Unsubscribe { id } => {
                self.waiting.remove(&id);
                self.relay.unsubscribe(id);
            }
            Command::Status { answer } => {
                let status = (0..).map_while(|rank| self.relay.status(rank)).collect();
                // Who asked may be gone.
                let _ = answer.send((status, self.relay.subscribers()));
            }
            Command::Stop => {}
        }
    }

    fn take_in(&mut self, now: Duration, input: Input) {
        match input {
            Input::Connected { rank } => self.relay.handle_connected(now, rank),
            Input::Disconnected { rank } => self.relay.handle_disconnected(rank),
            Input::Live { rank, sequence, payload } => self.relay.handle_live(now, rank, sequence, &payload),
            Input::Replayed { request, sequence, payload } => self.relay.handle_replayed(now, request, sequence, &payload),
            Input::ReplayEnded { request, end } => self.relay.handle_replay_end(now, request, end),
            Input::Load { rank, load } => self.relay.handle_load(rank, load),
            Input::Unloaded { rank } => self.relay.forget_load(rank),
        }
    }

    fn ask(&mut self) {
        while let Some(request) = self.relay.poll_request() {
            if let Some(rank) = self.asking.get(request.rank as usize) {
                rank.send_replace(Some(request));
            }
        }
    }

    /// Gives those who wait what there is for them.
    fn serve(&mut self, now: Duration) {
        self.next_beat = None;
        let waiting: Vec<SubscriberId> = self.waiting.keys().copied().collect();
        for id in waiting {
            let (items, until) = part(&mut self.relay, now, id);
            if items.is_empty() {
                self.next_beat = self.next_beat.into_iter().chain(until).min();
            } else if let Some(answer) = self.waiting.remove(&id) {
                // Who has gone away unsubscribes.
                let _ = answer.send(items);
            }
        }
    }
}

/// As much as is told at once; or, if that is nothing, when to look again though nothing comes.
fn part(relay: &mut Relay, now: Duration, id: SubscriberId) -> (Vec<Next>, Option<Duration>) {
    let (mut items, mut bytes) = (Vec::new(), 0);
    while items.len() < HUB_BATCH_ITEMS && bytes < HUB_BATCH_BYTES {
        match relay.poll(now, id) {
            Next::Wait { until } => return (items, until),
            Next::Batch(relayed) => {
                bytes += relayed.batch.payload().len();
                items.push(Next::Batch(relayed));
            }
            item @ Next::Heartbeat(_) => items.push(item),
            item @ (Next::Snapshot(_) | Next::End(_)) => {
                items.push(item);
                break;
            }
        }
    }
    (items, None)
}

/// Long enough for a timer that waits for nothing.
const NEVER: Duration = Duration::from_hours(24);
