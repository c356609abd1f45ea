//! One rank: what comes in from its publisher's two sockets, in one order, into history and live state.
//!
//! # States
//! ```text
//!                 asked                           answered, nothing waits
//!  (following) ------------> asking ----------------------------------------> (following)
//!     ^  |                    |  ^ broke off, but brought something: once more
//!     |  | connected, a gap,  |  +---- a restart: from 0, in a new life
//!     |  | quiet, primed      |
//!     |  +--------------------+ answered, or given up: what waits is judged again; a gap asks again, once
//!     +-- live batches are taken at once
//! ```
//! While it asks, live messages wait, bounded; those beyond the bound are a gap later on. A question ends by its answers' end, by
//! its deadline, or by a reconnection; no stream ever waits for a socket that does not answer for longer than that.
//!
//! A replay is asked from a few numbers below the last one, and what it says there is compared with what was seen: see
//! [`classify`](super::classify). A life that a replay has begun may be younger than what the live socket still brings, which is not taken
//! before the replay socket knows it. A number that is missing at the *start* of an answer is gone at the publisher: it is lost. One that
//! is missing in the middle was dropped on the way (a ROUTER drops what a slow reader leaves): it is asked for again, a few times at once
//! and then now and then ([`given_up`](super::given_up)).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::asking::Asking;
use super::classify::{Incoming, Numbers, Restart, Verdict, compare_from};
use super::given_up::GivenUp;
use super::history::{History, Kept, Seen};
use super::live::Live;
use super::load::Load;
use super::snapshot::{Cut, Standing};
use super::{Options, RankStatus, ReplayRequest};
use crate::limits::{
    GAP_KEPT_MAX, HELD_BATCHES_MAX, HELD_BYTES_MAX, HISTORY_BATCHES, PAYLOAD_BYTES_MAX, QUIET_MAX, RELAY_CUTS_MAX,
    RELAY_REPLAY_TRIES_MAX, RELAY_RETRY_EVERY,
};
use crate::{Batch, Event, HashCheck, Incarnation};

/// How a replay's answers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayEnd {
    /// The end marker came.
    Complete,
    /// It fell silent, broke off, or never answered.
    Incomplete,
}

/// What became of a rank's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankCounts {
    /// Batches taken in as they were published.
    pub live: u64,
    /// Batches taken in from a replay.
    pub replayed: u64,
    /// Messages that were taken in before.
    pub duplicates: u64,
    /// Times that numbers were missing.
    pub gaps: u64,
    /// Batches that nobody had any more.
    pub lost: u64,
    /// Lives of the publisher that began after the first, by how they were recognised, in the order of [`Restart::ALL`].
    pub restarts: [u64; Restart::ALL.len()],
    /// Questions to the replay socket.
    pub asked: u64,
    /// Answers to a question that was given up, and answers behind a hole.
    pub answers_ignored: u64,
    /// Live messages that came while too many waited.
    pub overflowed: u64,
    /// Live messages that waited, or were still on their way, when their connection, or their publisher's life, ended.
    pub outlived: u64,
    /// Numbers that no publisher reaches.
    pub unreadable: u64,
    /// Payloads too long to be read: empty batches under their numbers.
    pub oversized: u64,
}

/// One rank of the engine.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each was seen or not, by itself")]
pub(super) struct Rank {
    number: u32,
    options: Options,
    incarnation: Incarnation,
    numbers: Numbers,
    pub(super) history: History,
    pub(super) live: Live,
    pub(super) load: Option<Load>,
    hash_check: Option<HashCheck>,
    /// The first batch of this life that was taken in.
    first: Option<u64>,
    unknown_before: u64,
    lost: u64,
    /// Batches of which a part could not be read: what they removed is still held.
    damaged: u64,
    timestamp_s: f64,
    asking: Option<Asking>,
    request: Option<ReplayRequest>,
    tickets: u64,
    waiting: VecDeque<Kept>,
    waiting_bytes: usize,
    /// The waiting message for which something was asked.
    stuck: Option<u64>,
    /// Connections of the live socket so far.
    connections: u64,
    connected: bool,
    /// When to ask again for what was not answered.
    retry_at: Duration,
    heard_at: Duration,
    /// The last question of this connection was answered to its end, in this life.
    answered: bool,
    /// What follows the last number will come by the live socket: the replay socket had nothing behind it, or the live one has shown
    /// the last batch itself.
    shown_end: bool,
    /// The last number when the live socket connected again, while nothing has shown that the publisher is the same. What came since
    /// shows nothing: it may be the other's.
    doubted: Option<u64>,
    /// Batches, from one number to before another, of which a clear made it needless to know whose they are. A reader that comes to
    /// them later than that is told of the doubt all the same.
    doubtful: Option<(u64, u64)>,
    /// The life was begun by what a replay told: what the live socket still brings may be the former life's, on its way since.
    unproven: bool,
    /// Something is missing that the publisher may have kept: it was not answered when it was asked for.
    relearns: bool,
    given_up: GivenUp,
    /// In this life the replay socket has answered with a batch: it keeps some.
    has_replayed: bool,
    /// It had nothing from the last number on, and has never answered with a batch. Either it keeps none, or that number was never the
    /// publisher's: it is asked for all that it keeps.
    answers_nothing: bool,
    /// When the publisher last said that there is nothing after the last number.
    confirmed_at: Option<Duration>,
    cuts: Vec<Weak<Cut>>,
    pub(super) counts: RankCounts,
}

impl Rank {
    pub(super) fn new(now: Duration, number: u32, incarnation: Incarnation, options: Options) -> Self {
        Self {
            number,
            incarnation,
            numbers: Numbers::default(),
            history: History::new(options.history_batches, options.history_bytes),
            live: Live::new(options.copies, options.live_blocks_max),
            load: None,
            hash_check: options.hash_check.map(HashCheck::new),
            first: None,
            unknown_before: 0,
            lost: 0,
            damaged: 0,
            timestamp_s: 0.0,
            asking: None,
            request: None,
            tickets: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            stuck: None,
            connections: 0,
            connected: false,
            retry_at: now,
            heard_at: now,
            answered: false,
            shown_end: false,
            doubted: None,
            doubtful: None,
            unproven: false,
            relearns: false,
            given_up: GivenUp::default(),
            has_replayed: false,
            answers_nothing: false,
            confirmed_at: None,
            cuts: Vec::new(),
            counts: RankCounts::default(),
            options,
        }
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The first batch of this life that was taken in.
    pub(super) fn first(&self) -> Option<u64> {
        self.first
    }

    pub(super) fn last(&self) -> Option<u64> {
        self.numbers.last
    }

    /// Batches that were published before what is known, and lost, or that there was no room for; and those lost since, among
    /// which a batch of which a part could not be read counts as one.
    pub(super) fn missing(&self) -> (u64, u64) {
        (self.unknown_before.saturating_add(self.live.crowded_out()), self.lost.saturating_add(self.damaged))
    }

    /// Whether it is not known that the publisher of the batch `sequence` is that of the batches before it.
    pub(super) fn doubts(&self, sequence: u64) -> bool {
        self.doubted.is_some() || self.doubtful.is_some_and(|(from, to)| (from..to).contains(&sequence))
    }

    /// Whether nothing follows the last batch, as far as can be known: the publisher is connected, it is the same, it told all when it
    /// was asked since, and nothing waits behind a gap. What is lost behind the last batch shows within [`QUIET_MAX`].
    pub(super) fn vouches(&self) -> bool {
        let knows_end = self.answered && self.shown_end && self.waiting.is_empty();
        self.connected && self.doubted.is_none() && knows_end && self.options.replays
    }

    pub(super) fn status(&self) -> RankStatus {
        let (unknown_before, lost) = self.missing();
        let lost = lost.saturating_add(u64::from(self.doubted.is_some()));
        RankStatus {
            incarnation: self.incarnation,
            first: self.first,
            last: self.numbers.last,
            unknown_before,
            lost,
            doubted: self.doubted.is_some(),
            connected: self.connected,
            asking: self.asking.is_some(),
            confirmed_at: self.confirmed_at,
            history_batches: self.history.len(),
            history_bytes: self.history.bytes(),
            live_blocks: self.live.blocks(),
            live_copies: self.live.copies(),
            waiting_blocks: self.live.waiting_blocks(),
            counts: self.counts.clone(),
            live_counts: self.live.counts().clone(),
            hashes: self.hash_check.as_ref().map(|check| *check.counts()),
        }
    }

    pub(super) fn poll_request(&mut self) -> Option<ReplayRequest> {
        self.request.take()
    }

    /// The live socket connected, for the first time or again: its messages may be another life's.
    pub(super) fn connected(&mut self, now: Duration) {
        self.connections += 1;
        self.drop_waiting();
        (self.connected, self.answered, self.shown_end) = (true, false, false);
        self.doubted = self.doubted.or(self.numbers.last);
        self.unproven = false;
        self.ask(now, 0);
    }

    pub(super) fn disconnected(&mut self) {
        self.drop_waiting();
        self.connected = false;
    }

    /// A message of the live socket.
    pub(super) fn live(&mut self, now: Duration, sequence: u64, payload: &[u8]) {
        self.heard_at = now;
        if sequence == u64::MAX {
            // What ends a replay. No publisher counts so far.
            return self.counts.unreadable += 1;
        }
        let kept = Kept::new(sequence, payload);
        self.counts.oversized += u64::from(payload.len() > PAYLOAD_BYTES_MAX);
        if self.asking.is_none() {
            return self.take_live(now, kept, 0);
        }
        if self.waiting.len() >= HELD_BATCHES_MAX || self.waiting_bytes + kept.payload().len() > HELD_BYTES_MAX {
            return self.counts.overflowed += 1;
        }
        self.waiting_bytes += kept.payload().len();
        self.waiting.push_back(kept);
    }

    /// An answer of the replay socket.
    pub(super) fn replayed(&mut self, now: Duration, ticket: u64, sequence: u64, payload: &[u8]) {
        self.heard_at = now;
        let Some(asking) = self.asking.as_mut().filter(|asking| asking.ticket == ticket && !asking.broken) else {
            return self.counts.answers_ignored += 1;
        };
        if sequence == u64::MAX {
            return self.counts.unreadable += 1;
        }
        asking.hears(sequence, now);
        self.relearns |= self.given_up.contains(sequence);
        (self.has_replayed, self.answers_nothing) = (true, false);
        let kept = Kept::new(sequence, payload);
        let seen = self.history.seen(&kept);
        if seen == Seen::Same {
            self.doubted.take_if(|last| sequence <= *last);
        }
        asking.verified |= seen == Seen::Same;
        if asking.last.is_some_and(|last| sequence > last) && !asking.verified {
            // Nothing that is remembered came first, though it was asked for: this may be another publisher.
            self.doubted = self.doubted.or(asking.last);
        }
        match self.numbers.replayed(sequence, seen) {
            Verdict::Accept => {
                asking.progressed = true;
                asking.lost |= self.numbers.last.is_none() && sequence > 0;
                self.take_replayed(kept);
            }
            Verdict::Gap { .. } if asking.progressed || asking.verified && asking.tries < HOLE_TRIES => asking.broken = true,
            Verdict::Gap { from } => {
                (asking.progressed, asking.lost) = (true, true);
                self.counts.gaps += 1;
                self.lose(now, from..sequence);
                self.take_replayed(kept);
            }
            Verdict::Duplicate => {
                self.counts.duplicates += 1;
                self.numbers.came_replayed(sequence);
            }
            Verdict::Restart(restart) => self.begin_replayed_life(now, restart),
        }
    }

    /// The answers ended.
    pub(super) fn replay_ended(&mut self, now: Duration, ticket: u64, end: ReplayEnd) {
        self.heard_at = now;
        let Some(asking) = self.asking.take_if(|asking| asking.ticket == ticket) else { return };
        let complete = end == ReplayEnd::Complete && !asking.broken;
        if complete && asking.last.is_some() && !asking.knows_last && self.has_replayed {
            // A publisher that keeps batches keeps its last one: one that has no longer got ours never had it.
            return self.begin_replayed_life(now, Restart::LastForgotten);
        }
        self.answers_nothing |= complete && asking.last.is_some() && !asking.knows_last;
        // Only an answer that was whole proves that the publisher has no more than that.
        self.relearns |= asking.lost && !complete;
        if !complete && (asking.progressed || asking.broken) && asking.tries < RELAY_REPLAY_TRIES_MAX {
            return self.ask(now, asking.tries + 1);
        }
        self.answered = complete;
        self.shown_end = complete && asking.shows_end();
        self.retry_at = now + RELAY_RETRY_EVERY;
        if complete {
            self.confirmed_at = Some(now);
            // Doubt that a whole answer leaves is one that nothing will lift: what could be compared is kept nowhere any more.
            if (std::mem::take(&mut self.relearns) || self.doubted.is_some()) && self.can_relearn() {
                self.begin_life(Restart::Relearned);
                self.unproven = true;
                return self.ask(now, 0);
            }
        }
        // What brought something may bring more; what did not will not.
        self.take_waiting(now, if asking.progressed { asking.tries.max(1) } else { RELAY_REPLAY_TRIES_MAX });
        // Who has told nothing tells nothing when it is asked again at once.
        if complete && asking.heard > 0 && !self.shown_end && self.asking.is_none() && asking.end_checks < END_CHECKS {
            self.ask_for_the_end(now, asking.end_checks + 1);
        }
    }

    /// Asks the replay socket once more, while nothing is known of the rank.
    pub(super) fn prime(&mut self, now: Duration) {
        if self.numbers.last.is_none() && self.asking.is_none() && self.connections > 0 {
            self.ask(now, 0);
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Duration> {
        let quiet_at = self.heard_at + QUIET_MAX;
        let wants = self.numbers.last.is_none() || self.doubted.is_some() || self.relearns;
        match &self.asking {
            Some(asking) => Some(asking.deadline()),
            None if !self.options.replays || self.connections == 0 => None,
            None if wants && !self.answered => Some(self.retry_at.min(quiet_at)),
            None => Some(self.given_up_due().map_or(quiet_at, |due| due.min(quiet_at))),
        }
    }

    /// When to ask once more for what the publisher left out, if what was lost can be had with it.
    fn given_up_due(&self) -> Option<Duration> {
        self.given_up.due().filter(|_| self.connected && self.can_relearn())
    }

    pub(super) fn handle_timeout(&mut self, now: Duration) {
        if self.next_timeout().is_none_or(|due| now < due) {
            return;
        }
        match self.asking {
            Some(asking) => self.replay_ended(now, asking.ticket, ReplayEnd::Incomplete),
            // First: it is what puts its own due off, and asks for no less than the others.
            None if self.given_up_due().is_some_and(|due| due <= now) => self.ask_for_given_up(now),
            None if self.doubted.is_some() || self.relearns || self.answers_nothing => self.ask(now, 0),
            None => self.ask_for_the_end(now, 0),
        }
    }

    /// The state as of now, to be told; shared with whoever still reads one from which the window leads here. Nothing if too many
    /// others are held on to.
    pub(super) fn cut(&mut self) -> Option<Arc<Cut>> {
        let through = self.numbers.last?;
        self.cuts.retain(|cut| cut.strong_count() > 0);
        let oldest = self.history.oldest()?;
        let reaches = |cut: &Cut| cut.standing().incarnation == self.incarnation && cut.standing().through + 1 >= oldest;
        if let Some(cut) = self.cuts.iter().filter_map(Weak::upgrade).find(|cut| reaches(cut)) {
            return Some(cut);
        }
        if self.cuts.len() >= RELAY_CUTS_MAX {
            return None;
        }
        let (unknown_before, lost) = self.missing();
        let (rank, incarnation, timestamp_s) = (self.number, self.incarnation, self.timestamp_s);
        let doubted = self.doubted.is_some();
        let standing = Standing { rank, incarnation, through, timestamp_s, unknown_before, lost, doubted };
        let cut = Arc::new(Cut::take(&mut self.live, standing, self.options.chunk_blocks));
        self.cuts.push(Arc::downgrade(&cut));
        Some(cut)
    }

    /// Asks from below the last number. Without a replay socket there is nothing to ask.
    fn ask(&mut self, now: Duration, tries: u32) {
        if !self.options.replays {
            return;
        }
        self.tickets += 1;
        self.counts.asked += 1;
        let ticket = self.tickets;
        let last = self.numbers.last;
        self.asking = Some(Asking::new(ticket, tries, last, now));
        let from = if self.answers_nothing { 0 } else { compare_from(self.doubted.or(last)) };
        self.request = Some(ReplayRequest { rank: self.number, ticket, from });
    }

    /// Asks what follows the last number, and nothing else.
    fn ask_for_the_end(&mut self, now: Duration, end_checks: u32) {
        self.ask(now, 0);
        if let (Some(asking), Some(request)) = (&mut self.asking, &mut self.request) {
            asking.end_checks = end_checks;
            request.from = self.numbers.last.unwrap_or(0).max(request.from);
        }
    }

    fn ask_for_given_up(&mut self, now: Duration) {
        let from = self.given_up.ask(now);
        self.ask(now, 0);
        if let (Some(request), Some(from)) = (&mut self.request, from) {
            request.from = from.min(request.from);
        }
    }

    /// Judges a message of the live socket. What is missing before it was asked for `tries` times.
    fn take_live(&mut self, now: Duration, kept: Kept, tries: u32) {
        let seen = self.history.seen(&kept);
        let Some(kept) = self.prove(now, kept, seen, tries) else { return };
        let sequence = kept.sequence;
        let at_last = self.numbers.last == Some(sequence) && seen != Seen::Same;
        let begins_with_clear = at_last && begins_with_clear(&kept.decode());
        match self.numbers.live(Incoming { sequence, seen, begins_with_clear }) {
            // Joined late, or nobody had said anything when the replay socket was asked: what came before it may still be had.
            Verdict::Accept if self.numbers.last.is_none() && sequence > 0 && self.options.replays && tries == 0 => {
                self.put_back(kept);
                self.ask(now, 1);
            }
            Verdict::Accept => self.accept_live(kept),
            Verdict::Gap { .. } if self.options.replays && tries < RELAY_REPLAY_TRIES_MAX => {
                self.counts.gaps += u64::from(tries == 0);
                self.put_back(kept);
                self.ask(now, tries + 1);
            }
            Verdict::Gap { from } => {
                self.counts.gaps += u64::from(tries == 0);
                self.lose(now, from..sequence);
                self.relearns = self.options.replays && !self.answered;
                self.accept_live(kept);
            }
            Verdict::Duplicate => {
                self.counts.duplicates += 1;
                self.numbers.came_live(sequence);
                self.shown_end |= self.numbers.last == Some(sequence);
                if seen == Seen::Unknown && self.first.is_some_and(|first| sequence < first) {
                    // Older than all that was replayed: it was long on its way, or another life has begun.
                    self.doubted = self.doubted.or(self.numbers.last);
                    self.ask(now, 0);
                }
            }
            Verdict::Restart(restart) => {
                self.begin_life(restart);
                // A replay socket that contradicts the live one twice is another publisher's: the live one is believed.
                if self.options.replays && tries == 0 {
                    self.put_back(kept);
                    self.ask(now, 0);
                } else {
                    self.accept_live(kept);
                }
            }
        }
    }

    /// Passes a message of the live socket on once the socket is known to bring the life that a replay has begun. Before it does, it
    /// brings what the former life sent: the replay socket is asked whether it knows the message.
    fn prove(&mut self, now: Duration, kept: Kept, seen: Seen, tries: u32) -> Option<Kept> {
        self.unproven &= seen != Seen::Same;
        if !self.unproven {
            return Some(kept);
        }
        if self.options.replays && tries == 0 {
            self.put_back(kept);
            self.ask(now, 1);
            return None;
        }
        if self.answered {
            self.counts.outlived += 1;
            return None;
        }
        // Nobody says whose it is: what is held cannot be joined with what comes.
        if self.numbers.last.is_some() {
            self.begin_life(Restart::TooMuchLost);
        }
        self.unproven = false;
        Some(kept)
    }

    /// Judges what waited, until it is gone or something is missing again. What was asked for the first of it was so `tries` times;
    /// for the others nothing was.
    fn take_waiting(&mut self, now: Duration, tries: u32) {
        let stuck = self.stuck.take();
        while self.asking.is_none()
            && let Some(kept) = self.waiting.pop_front()
        {
            self.waiting_bytes -= kept.payload().len();
            let tries = if stuck == Some(kept.sequence) { tries } else { 0 };
            self.take_live(now, kept, tries);
        }
    }

    fn accept_live(&mut self, kept: Kept) {
        self.counts.live += 1;
        self.numbers.came_live(kept.sequence);
        self.shown_end = true;
        self.take(kept);
    }

    fn take_replayed(&mut self, kept: Kept) {
        self.counts.replayed += 1;
        self.unproven |= self.numbers.last.is_none();
        self.numbers.came_replayed(kept.sequence);
        self.take(kept);
    }

    /// Takes in the next batch.
    fn take(&mut self, kept: Kept) {
        let batch = kept.decode();
        if self.first.is_none() {
            (self.first, self.unknown_before) = (Some(kept.sequence), kept.sequence);
            self.relearns = kept.sequence > 0 && self.options.replays && !self.answered && self.asking.is_none();
        }
        if batch.clears() {
            if let Some(last) = self.doubted {
                let from = self.doubtful.map_or(last + 1, |(from, _)| from.min(last + 1));
                self.doubtful = Some((from, kept.sequence));
            }
            // Whatever was not seen before it is gone.
            (self.unknown_before, self.lost, self.doubted, self.relearns) = (0, 0, None, false);
            (self.damaged, self.given_up) = (0, GivenUp::default());
        }
        self.damaged += u64::from(batch.is_damaged());
        self.timestamp_s = batch.timestamp_s;
        self.live.apply(&batch);
        if let Some(check) = &mut self.hash_check {
            check.observe(&batch, self.live.normalizer().scheme().map(|scheme| scheme.block_tokens.get()));
        }
        self.history.push(kept);
    }

    /// Batches are lost. If they are so many that what is held is worth nothing, a new life begins without it.
    fn lose(&mut self, now: Duration, run: Range<u64>) {
        let missed = run.end - run.start;
        self.given_up.note(now, run);
        self.counts.lost = self.counts.lost.saturating_add(missed);
        self.lost = self.lost.saturating_add(missed);
        if missed > GAP_KEPT_MAX {
            self.begin_life(Restart::TooMuchLost);
        }
    }

    /// Another life of the publisher: what the former one held is gone.
    fn begin_life(&mut self, restart: Restart) {
        self.counts.restarts[restart as usize] += 1;
        self.incarnation = self.incarnation.next();
        self.numbers = Numbers::default();
        self.history.clear();
        self.live = Live::new(self.options.copies, self.options.live_blocks_max);
        if let Some(check) = &mut self.hash_check {
            check.restart();
        }
        (self.first, self.unknown_before, self.lost, self.damaged) = (None, 0, 0, 0);
        (self.has_replayed, self.answers_nothing, self.confirmed_at) = (false, false, None);
        (self.doubted, self.doubtful, self.unproven, self.relearns) = (None, None, false, false);
        self.given_up = GivenUp::default();
        // What was answered was another life's.
        (self.answered, self.shown_end) = (false, false);
    }

    /// What was replayed is another life. What waits is the former one's, or comes again with the next answers.
    fn begin_replayed_life(&mut self, now: Duration, restart: Restart) {
        self.drop_waiting();
        self.begin_life(restart);
        self.unproven = true;
        self.ask(now, 0);
    }

    /// Whether the publisher is likely to keep all that it ever sent.
    fn can_relearn(&self) -> bool {
        let keeps_all = self.numbers.last.is_some_and(|last| last < HISTORY_BATCHES as u64);
        keeps_all && (self.unknown_before > 0 || self.lost > 0 || self.doubted.is_some())
    }

    /// What waits when a connection ends may be a former life's by the time it is judged. If it is not, it is replayed.
    fn drop_waiting(&mut self) {
        self.counts.outlived += self.waiting.len() as u64;
        (self.waiting, self.waiting_bytes, self.stuck) = (VecDeque::new(), 0, None);
    }

    fn put_back(&mut self, kept: Kept) {
        self.stuck = Some(kept.sequence);
        self.waiting_bytes += kept.payload().len();
        self.waiting.push_front(kept);
    }
}

/// How often in a row the replay socket is asked for the end: behind a busy publisher's last batch there is always another, and the live
/// socket shows it.
const END_CHECKS: u32 = 2;

/// How often what follows a remembered number is asked for when the answers leave it out: a publisher that lost it leaves it out
/// again.
const HOLE_TRIES: u32 = 2;

/// Whether a new cache announces itself.
fn begins_with_clear(batch: &Batch) -> bool {
    matches!(batch.events.first(), Some(Event::Cleared(clear)) if clear.ownership.is_none())
}
