//! A relay: it follows one engine for as long as it lives, so that whoever wants to know the engine's cache can come late, go
//! away, be slow and come back.
//!
//! An engine's publisher keeps its last batches and knows nothing of its readers. A relay runs beside it and keeps two things for
//! every data-parallel rank: the last batches, and the blocks that are held now. A reader that was away is resumed from the
//! first, one that is new is told the second, and both get everything that follows, once and in order.
//!
//! ```
//! use std::time::Duration;
//!
//! use kv_events::relay::{Next, Options, Relay, ReplayEnd};
//! use kv_events::{Stream, StreamOptions};
//! use kv_index::{Index, ReferenceIndex, View};
//!
//! let now = Duration::ZERO;
//! let mut relay = Relay::new(now, 0x5eed, Options::default());
//! // Subscribe first, then ask for what was published before: until it is answered, live batches wait.
//! relay.handle_connected(now, 0);
//! let request = relay.poll_request().expect("a replay from the start");
//! let payload = b"\x93\xca\0\0\0\0\x91\x97\xabBlockStored\x91\x07\xc0\x94\x01\x02\x03\x04\x04\xc0\xa3GPU\x00";
//! relay.handle_live(now, 0, 0, payload);
//! relay.handle_replay_end(now, request, ReplayEnd::Complete);
//!
//! let reader = relay.subscribe(now, &[])?;
//! let index = ReferenceIndex::new();
//! let mut stream = Stream::new(index.add_worker()?, StreamOptions::default());
//! loop {
//!     match relay.poll(now, reader) {
//!         Next::Batch(relayed) => stream.apply(&relayed.batch.decode()),
//!         Next::Snapshot(snapshot) => snapshot.for_each(|chunk| stream.apply(&chunk.batch)),
//!         Next::Heartbeat(_) => {}
//!         Next::Wait { .. } | Next::End(_) => break,
//!     }
//! }
//! assert_eq!(index.digest(stream.worker(), View::MAIN).count, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Driving it
//! A [`Relay`] has no socket, clock or thread. Whoever has them tells it what came (`handle_*`), sends what it asks for
//! ([`poll_request`](Relay::poll_request)), calls [`handle_timeout`](Relay::handle_timeout) at
//! [`next_timeout`](Relay::next_timeout), and gives each subscriber what [`poll`](Relay::poll) has for it. `now` is the time since any
//! moment of the caller's choice, and must not go back.
//!
//! # What it promises
//! * A subscriber gets each batch of a life at most once, in order; what is missing between two is said ([`Relayed::missed`]).
//! * A snapshot and the batches after it are what a reader of every batch has: all tiers, groups, namespaces and copies, and what
//!   waits. What the relay itself does not know is said in every chunk.
//! * No position of one life is ever resumed in another: [`Incarnation`]. Where the relay cannot tell whether its publisher is still the same
//!   (it connected again, and there is no replay socket or none that answers), it says so with every message ([`Relayed::doubted`]).
//! * It vouches for a batch as the engine's last one ([`Heartbeat::vouched`]) only when the engine has shown that nothing follows it.
//! * A slow reader costs its place in a window. It keeps nobody waiting, and ends when the window has passed it.
//! * No call takes longer for a million blocks than for a thousand, but for a clear or a restart, which let them all go.
//!
//! # A subscription's beginning, for each rank
//! | position | what is known of the rank | what it gets |
//! |---|---|---|
//! | none | every batch of the life is kept | all of them, then live |
//! | none | anything else | a snapshot, then live |
//! | none | nothing | live; and the replay socket is asked once more |
//! | of another life | | [`OutOfRange::ForeignIncarnation`] |
//! | in the window | | batches after it, then live |
//! | elsewhere | | [`OutOfRange`], with the reason |
//!
//! # Where what is written
//! | file | what it knows |
//! |---|---|
//! | `classify` | whether a message is new, missing something before it, or another life's: pure |
//! | `asking` | a question to the replay socket, and what its end says |
//! | `rank` | the order of two sockets' messages, what is asked, what is lost |
//! | `history` | the window of batches, with holes |
//! | `live` | the blocks that are held |
//! | `snapshot` | how they are told |
//! | `subscriber`, `end` | what a reader gets next, and why it gets no more |
//! | `load` | what goes with it, and alone when it is quiet |

mod asking;
mod classify;
mod end;
mod given_up;
mod history;
#[expect(clippy::similar_names, reason = "a shelf is not self")]
mod live;
mod load;
mod rank;
#[expect(clippy::similar_names, reason = "a shelf is not self")]
mod snapshot;
mod subscriber;

use std::time::Duration;

use hashbrown::HashMap;

pub use self::classify::Restart;
pub use self::end::{Code, End, OutOfRange, Refusal};
pub use self::history::Kept;
pub use self::live::LiveCounts;
pub use self::load::{Load, LoadCore, LoadSample, Telemetry};
use self::rank::Rank;
pub use self::rank::{RankCounts, ReplayEnd};
pub use self::snapshot::{Chunk, Snapshot};
use self::subscriber::Subscriber;
pub use self::subscriber::{Heartbeat, Next, Relayed};
use crate::copies::CopyRule;
use crate::hash_check::{HashCounts, Hashing};
use crate::limits::{CHUNK_BLOCKS, HISTORY_BATCHES, HISTORY_BYTES, LIVE_BLOCKS_MAX, RELAY_RANKS_MAX, RELAY_SUBSCRIBERS_MAX};
use crate::{Incarnation, Position};

/// How a relay follows its engine.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Data-parallel ranks, each a publisher with its own sockets and numbers. At least 1, at most [`RELAY_RANKS_MAX`].
    pub ranks: u32,
    /// Whether there is a replay socket for each.
    pub replays: bool,
    /// What a repeated store means.
    pub copies: CopyRule,
    /// Batches kept of each rank, at least one.
    pub history_batches: usize,
    /// Bytes kept of each rank's batches.
    pub history_bytes: usize,
    /// Blocks kept of each rank.
    pub live_blocks_max: usize,
    /// Copies in a chunk of a snapshot, at least one.
    pub chunk_blocks: u64,
    /// How the engine is believed to hash its blocks, if that is to be checked.
    pub hash_check: Option<Hashing>,
}

/// One engine's relay.
#[derive(Debug)]
pub struct Relay {
    ranks: Vec<Rank>,
    subscribers: HashMap<SubscriberId, Subscriber>,
    next_subscriber: u64,
    /// What came for ranks that there are not.
    foreign: u64,
}

/// A subscriber's handle. Never given out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriberId(u64);

/// A question to a rank's replay socket: for all batches from a number on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayRequest {
    /// The rank.
    pub rank: u32,
    /// Tells this question's answers from those to a former one.
    pub ticket: u64,
    /// The first batch wanted.
    pub from: u64,
}

/// How a rank stands.
#[derive(Clone, Debug, PartialEq)]
pub struct RankStatus {
    /// The life of its publisher.
    pub incarnation: Incarnation,
    /// The first batch of this life that was taken in.
    pub first: Option<u64>,
    /// The last one.
    pub last: Option<u64>,
    /// Batches that were published before what is known, and lost; and stores that there was no room for.
    pub unknown_before: u64,
    /// Batches lost since. One more while [`doubted`](Self::doubted).
    pub lost: u64,
    /// Its live socket connected again, and nothing has shown yet that the publisher is the same.
    pub doubted: bool,
    /// Whether its live socket is connected.
    pub connected: bool,
    /// Whether its replay socket is being asked.
    pub asking: bool,
    /// When its replay socket last said that nothing follows the last batch.
    pub confirmed_at: Option<Duration>,
    /// Batches in its window, lost ones included.
    pub history_batches: usize,
    /// What the window is charged for.
    pub history_bytes: usize,
    /// Blocks that are held.
    pub live_blocks: usize,
    /// Their copies.
    pub live_copies: u64,
    /// Blocks that wait for their parents.
    pub waiting_blocks: usize,
    /// What became of its messages.
    pub counts: RankCounts,
    /// What became of their events in the relay's own state.
    pub live_counts: LiveCounts,
    /// What the check of the engine's hashes found, over all lives, if it is asked for.
    pub hashes: Option<HashCounts>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ranks: 1,
            replays: true,
            copies: CopyRule::default(),
            history_batches: HISTORY_BATCHES,
            history_bytes: HISTORY_BYTES,
            live_blocks_max: LIVE_BLOCKS_MAX,
            chunk_blocks: CHUNK_BLOCKS,
            hash_check: None,
        }
    }
}

impl Relay {
    /// A relay that has heard nothing. `watcher` is drawn at random, once for each relay that starts: it is what makes the lives
    /// that this one sees different from those that any other one saw.
    pub fn new(now: Duration, watcher: u64, options: Options) -> Self {
        let ranks = 0..options.ranks.clamp(1, RELAY_RANKS_MAX);
        let ranks = ranks.map(|rank| Rank::new(now, rank, Incarnation::first(watcher), options)).collect();
        Self { ranks, subscribers: HashMap::new(), next_subscriber: 0, foreign: 0 }
    }

    /// The live socket of `rank` connected, for the first time or again.
    pub fn handle_connected(&mut self, now: Duration, rank: u32) {
        self.with_rank(rank, |rank| rank.connected(now));
    }

    /// The live socket of `rank` was cut off.
    pub fn handle_disconnected(&mut self, rank: u32) {
        self.with_rank(rank, Rank::disconnected);
    }

    /// A message of the live socket of `rank`.
    pub fn handle_live(&mut self, now: Duration, rank: u32, sequence: u64, payload: &[u8]) {
        self.with_rank(rank, |rank| rank.live(now, sequence, payload));
    }

    /// An answer to `request`.
    pub fn handle_replayed(&mut self, now: Duration, request: ReplayRequest, sequence: u64, payload: &[u8]) {
        self.with_rank(request.rank, |rank| rank.replayed(now, request.ticket, sequence, payload));
    }

    /// The answers to `request` ended.
    pub fn handle_replay_end(&mut self, now: Duration, request: ReplayRequest, end: ReplayEnd) {
        self.with_rank(request.rank, |rank| rank.replay_ended(now, request.ticket, end));
    }

    /// The load of `rank` is now this.
    pub fn handle_load(&mut self, rank: u32, load: Load) {
        self.with_rank(rank, |rank| rank.load = Some(load));
    }

    /// The load of `rank` is not known any more: nothing is said of it until it is again.
    pub fn forget_load(&mut self, rank: u32) {
        self.with_rank(rank, |rank| rank.load = None);
    }

    /// The next question to a replay socket. It replaces an earlier one to the same socket, whose answers are not wanted any more.
    pub fn poll_request(&mut self) -> Option<ReplayRequest> {
        self.ranks.iter_mut().find_map(Rank::poll_request)
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn next_timeout(&self) -> Option<Duration> {
        self.ranks.iter().filter_map(Rank::next_timeout).min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.ranks.iter_mut().for_each(|rank| rank.handle_timeout(now));
    }

    /// A reader of all ranks, each from the batch after its position, or from the start.
    ///
    /// # Errors
    /// A [`Refusal`]; nobody was subscribed.
    pub fn subscribe(&mut self, now: Duration, positions: &[(u32, Position)]) -> Result<SubscriberId, Refusal> {
        self.subscribe_to(now, &[], positions)
    }

    /// The same for some ranks only; for all if `ranks` is empty. A restart of another rank does not end it.
    ///
    /// # Errors
    /// A [`Refusal`]; nobody was subscribed.
    pub fn subscribe_to(&mut self, now: Duration, ranks: &[u32], positions: &[(u32, Position)]) -> Result<SubscriberId, Refusal> {
        if self.subscribers.len() >= RELAY_SUBSCRIBERS_MAX {
            return Err(Refusal::TooManySubscribers { limit: RELAY_SUBSCRIBERS_MAX });
        }
        self.subscribers.values_mut().for_each(|subscriber| subscriber.let_go(&self.ranks));
        let subscriber = Subscriber::begin(now, &mut self.ranks, ranks, positions)?;
        let id = SubscriberId(self.next_subscriber);
        self.next_subscriber += 1;
        self.subscribers.insert(id, subscriber);
        Ok(id)
    }

    /// What `subscriber` gets next. After [`Next::End`] it is none any more.
    pub fn poll(&mut self, now: Duration, subscriber: SubscriberId) -> Next {
        let Some(reader) = self.subscribers.get_mut(&subscriber) else { return Next::End(End::Unknown) };
        let next = reader.poll(now, &self.ranks);
        if let Next::End(_) = next {
            self.subscribers.remove(&subscriber);
        }
        next
    }

    /// `subscriber` went away.
    pub fn unsubscribe(&mut self, subscriber: SubscriberId) {
        self.subscribers.remove(&subscriber);
    }

    /// How many subscribers there are.
    pub fn subscribers(&self) -> usize {
        self.subscribers.len()
    }

    /// How `rank` stands. Nothing if there is no such rank.
    pub fn status(&self, rank: u32) -> Option<RankStatus> {
        self.ranks.get(rank as usize).map(Rank::status)
    }

    /// Calls that named a rank that there is not.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    fn with_rank(&mut self, rank: u32, change: impl FnOnce(&mut Rank)) {
        match self.ranks.get_mut(rank as usize) {
            Some(rank) => change(rank),
            None => self.foreign += 1,
        }
    }
}
