//! A relay's client: one rank, subscribed to for as long as it is wanted.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prost::Message;
use thiserror::Error;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tonic::codec::Streaming;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::limits::{KEEPALIVE, RESUBSCRIBE_PAUSE, STREAM_SILENCE_MAX, SUBSCRIBE_MAX, UPDATE_BYTES_MAX};
use super::message::{MessageError, write_request};
use super::proto::kv_events as proto;
use super::proto::kv_events::kv_events_client::KvEventsClient;
use super::status::Remedy;
use super::update::Update;
use crate::Position;

/// Where a relay listens: `grpc://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RelayAddress {
    authority: String,
}

/// A text that is no relay's address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected grpc://HOST:PORT, got {got:?}")]
pub struct AddressError {
    /// The text.
    pub got: String,
}

/// One thing that a [`Subscription`] saw.
#[derive(Clone, Debug)]
pub enum SubscriptionEvent {
    /// The relay has accepted the subscription: what follows is behind the position that was asked for.
    Connected,
    /// A message.
    Update {
        /// What it says.
        update: Box<Update>,
        /// Its length.
        bytes: usize,
    },
    /// A message that is none of a relay's, or of another rank. What it would have said is missing.
    Unreadable(MessageError),
    /// The relay cannot go on from the position, or from where the stream was: what is held is to be dropped, and all of it is asked
    /// for again.
    Rejected {
        /// `OUT_OF_RANGE` or `DATA_LOSS`, and why.
        status: Box<Status>,
    },
    /// The stream ended. Another attempt follows by itself.
    Disconnected {
        /// How.
        status: Box<Status>,
        /// Whether that casts doubt on the engine too.
        is_transport: bool,
    },
    /// An attempt to subscribe failed; another follows.
    Unreachable {
        /// Why.
        status: Box<Status>,
        /// When, in milliseconds.
        retry_ms: u64,
    },
    /// What listens there is no relay. No further attempt follows.
    Unsupported {
        /// Its answer.
        status: Box<Status>,
    },
}

/// One rank of a relay.
///
/// It has no task and no queue of its own: who does not call [`next`](Self::next) leaves what comes to HTTP/2, which leaves it to
/// the relay. A connection carries one rank, so that a slow reader of one holds up no other.
pub struct Subscription {
    client: KvEventsClient<Channel>,
    rank: u32,
    after: Option<Position>,
    state: State,
    pause: Duration,
    /// When it was asked last.
    asked_at: Instant,
    /// Something came since the relay last rejected a position.
    heard: bool,
}

enum State {
    Waiting {
        until: Instant,
    },
    /// Locked by nobody: a future need not be `Sync`, and a subscription is.
    Asking(Mutex<Asking>),
    Reading {
        stream: Box<Streaming<proto::Update>>,
        silent_at: Option<Instant>,
    },
    Stopped,
}

impl Subscription {
    /// Subscribes to `rank` of the relay at `address`, from the beginning, now and again after every loss, with pauses from 100 ms
    /// doubling to 5 s.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(address: &RelayAddress, rank: u32) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{}", address.authority)).expect("the address was checked");
        let channel = endpoint
            .connect_timeout(SUBSCRIBE_MAX)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE.0)
            .keep_alive_timeout(KEEPALIVE.1)
            .keep_alive_while_idle(true)
            .connect_lazy();
        let client = KvEventsClient::new(channel).max_decoding_message_size(UPDATE_BYTES_MAX);
        let (now, pause) = (Instant::now(), RESUBSCRIBE_PAUSE.0);
        Self { client, rank, after: None, state: State::Waiting { until: now }, pause, asked_at: now, heard: true }
    }

    /// Ends the stream, if there is one, and asks for what comes after a position; from the beginning, if there is none. At once,
    /// unless a pause is under way.
    pub fn resubscribe(&mut self, after: Option<Position>) {
        self.after = after;
        match self.state {
            State::Waiting { .. } | State::Stopped => {}
            State::Asking(_) | State::Reading { .. } => {
                self.state = State::Waiting { until: self.at_once() };
                self.heard = false;
            }
        }
    }

    /// The next event, in order. Safe to cancel.
    pub async fn next(&mut self) -> SubscriptionEvent {
        loop {
            match &mut self.state {
                State::Waiting { until } => {
                    sleep_until(*until).await;
                    self.asked_at = Instant::now();
                    self.state = State::Asking(Mutex::new(ask(self.client.clone(), self.rank, self.after)));
                }
                State::Asking(asking) => match asking.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut().await {
                    Ok(stream) => {
                        self.state = State::Reading { stream: Box::new(stream), silent_at: None };
                        return SubscriptionEvent::Connected;
                    }
                    Err(status) => return self.refused(status),
                },
                State::Reading { stream, silent_at } => {
                    let message = match *silent_at {
                        None => stream.message().await,
                        Some(moment) => timeout_at(moment, stream.message()).await.unwrap_or_else(|_| Err(silence())),
                    };
                    match message {
                        Ok(Some(message)) => {
                            *silent_at = Some(Instant::now() + STREAM_SILENCE_MAX);
                            return self.heard(message);
                        }
                        Ok(None) => return self.ended(Status::unavailable("the relay ended the stream")),
                        Err(status) => return self.ended(status),
                    }
                }
                State::Stopped => std::future::pending().await,
            }
        }
    }

    fn heard(&mut self, message: proto::Update) -> SubscriptionEvent {
        (self.heard, self.pause) = (true, RESUBSCRIBE_PAUSE.0);
        let bytes = message.encoded_len();
        match Update::try_from(message) {
            Ok(update) if update.rank == self.rank => SubscriptionEvent::Update { update: Box::new(update), bytes },
            Ok(update) => SubscriptionEvent::Unreadable(MessageError::Rank { asked: self.rank, got: update.rank }),
            Err(error) => SubscriptionEvent::Unreadable(error),
        }
    }

    fn refused(&mut self, status: Status) -> SubscriptionEvent {
        match Remedy::of(status.code()) {
            Remedy::Relearn | Remedy::Stop => self.ended(status),
            Remedy::Reconnect | Remedy::Retry => {
                let pause = self.longer_pause();
                self.state = State::Waiting { until: Instant::now() + pause };
                let retry_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                SubscriptionEvent::Unreachable { status: Box::new(status), retry_ms }
            }
        }
    }

    fn ended(&mut self, status: Status) -> SubscriptionEvent {
        let remedy = Remedy::of(status.code());
        let status = Box::new(status);
        if remedy == Remedy::Stop {
            self.state = State::Stopped;
            return SubscriptionEvent::Unsupported { status };
        }
        let until = if remedy == Remedy::Relearn { self.at_once() } else { Instant::now() + self.longer_pause() };
        self.state = State::Waiting { until };
        if remedy == Remedy::Relearn {
            (self.after, self.heard) = (None, false);
            return SubscriptionEvent::Rejected { status };
        }
        SubscriptionEvent::Disconnected { status, is_transport: remedy == Remedy::Reconnect }
    }

    /// When it may be asked again without a pause: not more often than by the shortest pause, whatever the relay does; and after the
    /// next pause if nothing has come since it was last asked so, because that would go on for ever.
    fn at_once(&mut self) -> Instant {
        if self.heard { self.asked_at + RESUBSCRIBE_PAUSE.0 } else { Instant::now() + self.longer_pause() }
    }

    fn longer_pause(&mut self) -> Duration {
        let next = (self.pause * 2).min(RESUBSCRIBE_PAUSE.1);
        std::mem::replace(&mut self.pause, next)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("rank", &self.rank).field("after", &self.after).finish_non_exhaustive()
    }
}

impl FromStr for RelayAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError { got: text.to_owned() };
        let authority = text.strip_prefix("grpc://").ok_or_else(wrong)?;
        let parsed: tonic::codegen::http::uri::Authority = authority.parse().map_err(|_| wrong())?;
        let is_plain = parsed.port_u16().is_some() && !parsed.host().is_empty() && !authority.contains('@');
        if is_plain { Ok(Self { authority: authority.to_owned() }) } else { Err(wrong()) }
    }
}

impl fmt::Display for RelayAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "grpc://{}", self.authority)
    }
}

type Asking = Pin<Box<dyn Future<Output = Result<Streaming<proto::Update>, Status>> + Send>>;

fn ask(mut client: KvEventsClient<Channel>, rank: u32, after: Option<Position>) -> Asking {
    Box::pin(async move {
        let answer = timeout(SUBSCRIBE_MAX, client.subscribe(write_request(rank, after))).await;
        Ok(answer.map_err(|_| Status::new(Code::DeadlineExceeded, "no answer to the subscription"))??.into_inner())
    })
}

fn silence() -> Status {
    Status::unavailable(format!("expected a heartbeat within {} s, got none", STREAM_SILENCE_MAX.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_can_be_moved_and_shown() {
        fn shared<T: Send + Sync>() {}
        shared::<Subscription>();
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for text in ["grpc://127.0.0.1:5600", "grpc://relay.pods:1", "grpc://[::1]:5600"] {
            assert_eq!(text.parse::<RelayAddress>().unwrap().to_string(), text);
        }
        for text in
            ["", "grpc://", "grpc://host", "http://host:1", "grpc://host:70000", "grpc://host:1/x", "grpc://a@host:1", "host:1"]
        {
            assert_eq!(text.parse::<RelayAddress>().unwrap_err(), AddressError { got: text.to_owned() });
        }
    }
}
