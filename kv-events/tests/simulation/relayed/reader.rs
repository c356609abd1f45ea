//! One rank of a gateway that reads from a relay: what the adapter's subscription does, in virtual time.

use std::time::Duration;

use kv_events::admission::{Request, SnapshotPart};
use kv_events::relay::{Chunk, Code, Heartbeat, Next, Relayed, Snapshot, SubscriberId};
use kv_events::{Position, Source};
use kv_index::Index;

use super::line::{Line, Sent, Sidecar};
use crate::gateway::{Gateway, News, Update, number_of};
use crate::random::Random;

/// A reader, and its subscription.
pub(super) struct Reader<I: Index> {
    pub(super) gateway: Gateway<I>,
    pub(super) rank: u32,
    pub(super) line: Line,
    after: Option<Position>,
    state: State,
    pause: Duration,
    /// Something came since the relay last rejected a position.
    heard: bool,
    asked_at: Duration,
    /// The relay sends the next life on the stream of the last one, and does not end every snapshot.
    glues: bool,
}

#[derive(Debug)]
enum State {
    Waiting {
        until: Duration,
    },
    Reading {
        id: SubscriberId,
        /// What is told before anything else.
        snapshot: Option<Box<Snapshot>>,
        /// When there may be something though nothing came.
        poll_at: Option<Duration>,
    },
    /// The relay has said all. The reader has not heard it yet.
    Ending,
}

impl<I: Index> Reader<I> {
    pub(super) fn new(index: &I, rank: u32, glues: bool) -> Self {
        Self {
            gateway: Gateway::new(index, Source::Relay, 0),
            rank,
            line: Line::default(),
            after: None,
            state: State::Waiting { until: Duration::ZERO },
            pause: PAUSE.0,
            heard: true,
            asked_at: Duration::ZERO,
            glues,
        }
    }

    /// Whether a subscription is under way and the reader keeps up with it.
    pub(super) fn follows(&self, now: Duration) -> bool {
        matches!(self.state, State::Reading { .. }) && self.line.next_arrival().is_none_or(|at| at > now)
    }

    /// Whether nothing is under way to it.
    pub(super) fn has_all(&self) -> bool {
        matches!(self.state, State::Reading { .. }) && self.line.next_arrival().is_none()
    }

    /// When it has something to do.
    pub(super) fn next_timeout(&self) -> Option<Duration> {
        let state = match &self.state {
            State::Waiting { until } => Some(*until),
            State::Reading { poll_at, .. } => poll_at.filter(|_| self.line.has_room()),
            State::Ending => None,
        };
        [state, self.line.next_arrival(), self.gateway.next_timeout()].into_iter().flatten().min()
    }

    /// Does all that there is to do now.
    pub(super) fn run(&mut self, now: Duration, sidecar: &mut Sidecar, random: &mut Random) {
        loop {
            while let Some(sent) = self.line.take(now) {
                self.hear(now, sent, sidecar);
            }
            if !self.fetch(now, sidecar, random) {
                break;
            }
        }
        if self.gateway.next_timeout().is_some_and(|due| due <= now) {
            let request = self.gateway.timeout(now);
            self.asked(now, request, sidecar);
        }
    }

    /// The gateway's process is another, and knows nothing.
    pub(super) fn restart(&mut self, now: Duration, index: &I, sidecar: &mut Sidecar) {
        self.leave(sidecar);
        let line = std::mem::take(&mut self.line);
        *self = Self::new(index, self.rank, self.glues);
        (self.line, self.state) = (line, State::Waiting { until: now });
    }

    /// The connection breaks. It can be had again from `until` on, or when the relay is back.
    pub(super) fn cut_off(&mut self, now: Duration, until: Option<Duration>, sidecar: &mut Sidecar) {
        self.line.down_until = self.line.down_until.max(until.unwrap_or_default());
        let was_on = !matches!(self.state, State::Waiting { .. });
        self.leave(sidecar);
        if was_on {
            self.ended(now, Code::Unavailable, sidecar);
        }
    }

    /// From now on the line is a good one, and the relay one of ours.
    pub(super) fn heal(&mut self) {
        self.line.heal();
        self.glues = false;
    }

    pub(super) fn fail(&mut self, now: Duration, index: &I, sidecar: &mut Sidecar) {
        let request = self.gateway.fail(now, index);
        self.asked(now, request, sidecar);
    }

    pub(super) fn jump(&mut self, now: Duration, ahead: Duration, sidecar: &mut Sidecar) {
        let request = self.gateway.jump(now, ahead);
        self.asked(now, request, sidecar);
    }

    /// The relay's side: sends what there is. Whether it sent anything.
    fn fetch(&mut self, now: Duration, sidecar: &mut Sidecar, random: &mut Random) -> bool {
        match &mut self.state {
            State::Waiting { until } if *until <= now => self.subscribe(now, sidecar, random),
            State::Reading { id, snapshot, poll_at } if self.line.has_room() => {
                if let Some(chunk) = snapshot.as_mut().and_then(Iterator::next) {
                    self.line.send(now, Sent::Update(part(chunk).into()), random);
                    if self.glues && random.once_in(8) {
                        *snapshot = None;
                    }
                    return true;
                }
                *snapshot = None;
                match sidecar.relay.poll(now, *id) {
                    Next::Wait { until } => {
                        *poll_at = until.map(|until| until.max(now + LOOK));
                        return false;
                    }
                    Next::Snapshot(whole) => *snapshot = Some(whole),
                    Next::Batch(relayed) => self.line.send(now, Sent::Update(batch(&relayed).into()), random),
                    Next::Heartbeat(beat) => self.line.send(now, Sent::Update(heartbeat(&beat).into()), random),
                    Next::End(end) => {
                        // A relay that has nothing of the next life says nothing of it.
                        let has_more = sidecar.relay.status(self.rank).is_some_and(|status| status.last.is_some());
                        let glued = (self.glues && has_more && end.code() == Code::DataLoss)
                            .then(|| sidecar.relay.subscribe_to(now, &[self.rank], &[]).ok())
                            .flatten();
                        if let Some(id) = glued {
                            self.state = State::Reading { id, snapshot: None, poll_at: None };
                        } else {
                            self.line.send(now, Sent::Ended(end.code()), random);
                            self.state = State::Ending;
                        }
                    }
                }
            }
            _ => return false,
        }
        true
    }

    fn subscribe(&mut self, now: Duration, sidecar: &mut Sidecar, random: &mut Random) {
        self.asked_at = now;
        if !sidecar.is_up(now) || now < self.line.down_until {
            let pause = self.longer_pause();
            self.state = State::Waiting { until: now + pause };
            return;
        }
        let positions: Vec<_> = self.after.map(|after| (self.rank, after)).into_iter().collect();
        match sidecar.relay.subscribe_to(now, &[self.rank], &positions) {
            Ok(id) => {
                self.state = State::Reading { id, snapshot: None, poll_at: None };
                self.line.send(now, Sent::Accepted, random);
            }
            Err(refusal) => {
                self.state = State::Ending;
                self.line.send(now, Sent::Refused(refusal.code()), random);
            }
        }
    }

    /// The gateway's side: what arrives.
    fn hear(&mut self, now: Duration, sent: Sent, sidecar: &mut Sidecar) {
        let request = match sent {
            Sent::Accepted => self.gateway.connected(now),
            Sent::Refused(Code::Unavailable) => {
                let pause = self.longer_pause();
                return self.state = State::Waiting { until: now + pause };
            }
            Sent::Refused(code) | Sent::Ended(code) => return self.ended(now, code, sidecar),
            Sent::Update(update) => {
                (self.heard, self.pause) = (true, PAUSE.0);
                if let News::Batch { batch, .. } = &update.news {
                    self.gateway.heard = self.gateway.heard.max(number_of(batch.timestamp_s));
                }
                self.gateway.relayed(now, *update)
            }
        };
        self.asked(now, request, sidecar);
    }

    fn ended(&mut self, now: Duration, code: Code, sidecar: &mut Sidecar) {
        let request = if code == Code::Unavailable {
            let pause = self.longer_pause();
            self.state = State::Waiting { until: now + pause };
            self.gateway.disconnected(now)
        } else {
            self.state = State::Waiting { until: self.at_once(now) };
            (self.after, self.heard) = (None, false);
            self.gateway.rejected(now)
        };
        self.asked(now, request, sidecar);
    }

    fn asked(&mut self, now: Duration, request: Option<Request>, sidecar: &mut Sidecar) {
        let Some(Request::Resubscribe { after }) = request else { return };
        self.after = after;
        if !matches!(self.state, State::Waiting { .. }) {
            let until = self.at_once(now);
            self.leave(sidecar);
            (self.state, self.heard) = (State::Waiting { until }, false);
        }
    }

    /// Ends the subscription, if there is one, and all that is under way.
    fn leave(&mut self, sidecar: &mut Sidecar) {
        if let State::Reading { id, .. } = self.state {
            sidecar.relay.unsubscribe(id);
        }
        self.line.clear();
    }

    fn at_once(&mut self, now: Duration) -> Duration {
        if self.heard { self.asked_at + PAUSE.0 } else { now + self.longer_pause() }
    }

    fn longer_pause(&mut self) -> Duration {
        let next = (self.pause * 2).min(PAUSE.1);
        std::mem::replace(&mut self.pause, next)
    }
}

fn batch(relayed: &Relayed) -> Update {
    let &Relayed { incarnation, doubted, ref batch, .. } = relayed;
    Update { doubted, news: News::Batch { incarnation, sequence: batch.sequence, batch: batch.decode() } }
}

fn part(chunk: Chunk) -> Update {
    let number = |number: u64| u32::try_from(number).expect("few");
    let Chunk { incarnation, index, count, through, unknown_before, lost, doubted, batch, .. } = chunk;
    let (index, count) = (number(index), number(count));
    let part = SnapshotPart { incarnation, through, index, count, unknown_before, lost, bytes: 0, batch };
    Update { doubted, news: News::Part(part) }
}

fn heartbeat(beat: &Heartbeat) -> Update {
    let &Heartbeat { incarnation, sequence, vouched, doubted, .. } = beat;
    Update { doubted, news: News::Heartbeat { incarnation, sequence, vouched } }
}

/// As the adapter's.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How often it is looked whether a quiet stream has something to say: more rarely than a relay does, whose clock is no virtual one.
const LOOK: Duration = Duration::from_secs(1);
