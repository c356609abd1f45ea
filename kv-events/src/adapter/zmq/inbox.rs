//! The bounded queue between the task that reads a socket and the one that reads events.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use super::link::LinkError;
use super::subscriber::{SubscriberEvent, SubscriberOptions};

/// Events in order; those that find it full are counted and dropped, and the reader is told at the place where they are missing.
///
/// The newest are dropped, not the oldest, so that what is kept has one gap, which one replay request can fill. Once it has
/// overflowed, the queue takes messages again only when it is half empty: a reader that is a little too slow then sees few long
/// gaps, not many short.
#[derive(Debug)]
pub(super) struct Inbox {
    state: Mutex<State>,
    arrived: Notify,
    messages_max: usize,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<SubscriberEvent>,
    /// Bytes of the messages in `queue`.
    bytes: usize,
    overflow: Option<Overflow>,
}

/// What came while the queue was full. Its size is constant, whatever comes.
#[derive(Debug, Default)]
struct Overflow {
    lost: u64,
    disconnected: Option<LinkError>,
    connected: bool,
}

impl Inbox {
    pub(super) fn new(options: &SubscriberOptions) -> Self {
        Self {
            state: Mutex::default(),
            arrived: Notify::new(),
            messages_max: options.queue_messages_max,
            bytes_max: options.queue_bytes_max,
        }
    }

    /// Adds an event. Never waits: a publisher must not see a slow reader here, its own buffer would fill.
    pub(super) fn push(&self, event: SubscriberEvent) {
        let mut state = self.state();
        if state.overflow.is_some() && self.has_room(&state, state.bytes * 2, state.queue.len() * 2) {
            state.settle();
        }
        let fits = self.has_room(&state, state.bytes + event.bytes(), state.queue.len() + 1);
        match &mut state.overflow {
            None if fits => state.push(event),
            overflow => overflow.get_or_insert_default().absorb(event),
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// The next event. Safe to cancel: an event is taken only when it is returned.
    pub(super) async fn next(&self) -> SubscriberEvent {
        loop {
            if let Some(event) = self.state().pop() {
                return event;
            }
            self.arrived.notified().await;
        }
    }

    /// Whether `bytes` and `events` are within the bounds; the empty queue takes one event of any size.
    fn has_room(&self, state: &State, bytes: usize, events: usize) -> bool {
        state.queue.is_empty() || bytes <= self.bytes_max && events <= self.messages_max
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that runs under the lock panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, event: SubscriberEvent) {
        // A peer that stays away for days is one event, the latest.
        let waiting = matches!(self.queue.back(), Some(SubscriberEvent::Unreachable { .. }));
        if waiting && matches!(event, SubscriberEvent::Unreachable { .. }) {
            self.queue.pop_back();
        }
        self.bytes += event.bytes();
        self.queue.push_back(event);
    }

    fn pop(&mut self) -> Option<SubscriberEvent> {
        if self.queue.is_empty() {
            self.settle();
        }
        let event = self.queue.pop_front()?;
        self.bytes -= event.bytes();
        Some(event)
    }

    /// Turns the overflow into events: first the loss, then what became of the link meanwhile.
    fn settle(&mut self) {
        let Some(overflow) = self.overflow.take() else { return };
        if overflow.lost > 0 {
            self.push(SubscriberEvent::Lagged { lost: overflow.lost });
        }
        if let Some(cause) = overflow.disconnected {
            self.push(SubscriberEvent::Disconnected { cause });
        }
        if overflow.connected {
            self.push(SubscriberEvent::Connected);
        }
    }
}

impl Overflow {
    fn absorb(&mut self, event: SubscriberEvent) {
        match event {
            SubscriberEvent::Message(_) => self.lost += 1,
            SubscriberEvent::Lagged { lost } => self.lost += lost,
            SubscriberEvent::Connected => self.connected = true,
            SubscriberEvent::Disconnected { cause } => (self.disconnected, self.connected) = (Some(cause), false),
            // The disconnection before it says enough.
            SubscriberEvent::Unreachable { .. } => {}
        }
    }
}

impl SubscriberEvent {
    fn bytes(&self) -> usize {
        match self {
            Self::Message(frames) => frames.iter().map(Bytes::len).sum(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox(messages_max: usize, bytes_max: usize) -> Inbox {
        Inbox::new(&SubscriberOptions { queue_messages_max: messages_max, queue_bytes_max: bytes_max, ..Default::default() })
    }

    fn message(len: usize) -> SubscriberEvent {
        SubscriberEvent::Message(vec![Bytes::from(vec![b'x'; len])])
    }

    fn disconnected() -> SubscriberEvent {
        SubscriberEvent::Disconnected { cause: LinkError::Closed }
    }

    /// The queue's events, one letter each: `m3` is a message of three bytes, `L2` a loss of two messages.
    fn drained(inbox: &Inbox) -> String {
        let mut told = Vec::new();
        while let Some(event) = inbox.state().pop() {
            told.push(match event {
                SubscriberEvent::Message(frames) => format!("m{}", frames[0].len()),
                SubscriberEvent::Lagged { lost } => format!("L{lost}"),
                SubscriberEvent::Connected => "C".to_owned(),
                SubscriberEvent::Disconnected { .. } => "D".to_owned(),
                SubscriberEvent::Unreachable { .. } => "U".to_owned(),
            });
        }
        told.join(" ")
    }

    #[test]
    fn messages_that_find_it_full_are_told_in_their_place() {
        let inbox = inbox(3, 100);
        inbox.push(SubscriberEvent::Connected);
        (1..=5).for_each(|len| inbox.push(message(len)));
        assert_eq!(drained(&inbox), "C m1 m2 L3");
        inbox.push(message(6));
        assert_eq!(drained(&inbox), "m6", "the loss is told once");
    }

    #[test]
    fn after_an_overflow_it_takes_more_only_when_half_empty() {
        let inbox = inbox(4, 100);
        (1..=5).for_each(|len| inbox.push(message(len)));
        inbox.state().pop();
        inbox.push(message(6));
        inbox.state().pop();
        inbox.push(message(7));
        assert_eq!(drained(&inbox), "m3 m4 L2 m7");
    }

    #[test]
    fn bytes_are_bounded_and_one_large_message_still_passes() {
        let inbox = inbox(10, 8);
        inbox.push(message(20));
        inbox.push(message(1));
        assert_eq!(drained(&inbox), "m20 L1");
        for len in [4, 4, 1] {
            inbox.push(message(len));
        }
        assert_eq!(drained(&inbox), "m4 m4 L1");
        assert_eq!(inbox.state().bytes, 0);
    }

    #[test]
    fn a_link_that_changes_while_it_is_full_is_told_as_it_ended() {
        let inbox = inbox(1, 100);
        inbox.push(message(1));
        for _ in 0..1000 {
            inbox.push(disconnected());
            inbox.push(SubscriberEvent::Connected);
            inbox.push(message(2));
        }
        assert_eq!(drained(&inbox), "m1 L1000 D C");
        inbox.push(message(1));
        inbox.push(disconnected());
        assert_eq!(drained(&inbox), "m1 D");
    }

    #[test]
    fn a_peer_that_stays_away_takes_one_place() {
        let inbox = inbox(3, 100);
        let away = || SubscriberEvent::Unreachable { cause: LinkError::Closed, retry_ms: 1 };
        (0..10).for_each(|_| inbox.push(away()));
        inbox.push(SubscriberEvent::Connected);
        assert_eq!(drained(&inbox), "U C");
    }
}
