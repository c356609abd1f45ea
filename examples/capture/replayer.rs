//! The engine's side of a recording, as a router sees it: a cursor and a stream for each rank, over one index.

use std::collections::{BTreeMap, BTreeSet};

use kv_events::wire::{decode_batch, frame, trtllm};
use kv_events::{Batch, Cursor, Event, Losses, Prediction, Predictor, Stream, StreamOptions, Verdict};
use kv_index::{ContentHash, Index, Namespace, ReferenceIndex, Scheme, Worker, WorkersExhausted};

use super::file::{Message, MessageKind};

/// Applies messages and answers what each rank would reuse.
pub struct Replayer<I: Index = ReferenceIndex> {
    index: I,
    ranks: BTreeMap<u16, Rank<I::Worker>>,
    /// The lowest port of a replay socket.
    replay_base: u16,
    /// What could not be placed in a drain of JSON events.
    drained: Losses,
    predictor: Predictor,
    hashes: Vec<ContentHash>,
    /// Events of each kind: stored, removed, cleared.
    pub events: [u64; 3],
    /// Messages whose frames are not those of a publisher.
    pub odd_frames: u64,
}

/// One rank, by its port.
#[derive(Debug)]
pub struct Rank<W> {
    /// Where it is in its publisher's sequence.
    pub cursor: Cursor,
    /// Its state.
    pub stream: Stream<W>,
    /// The lowest sequence that the recording holds; nothing before it can be known.
    pub first_sequence: u64,
    /// Batches that came again.
    pub stale: u64,
}

impl Replayer {
    /// Nothing applied yet to an index of its own; the messages' ports are the ranks.
    ///
    /// # Errors
    /// When the index takes no more workers.
    pub fn new(messages: &[Message], options: StreamOptions) -> Result<Self, WorkersExhausted> {
        Self::over(ReferenceIndex::new(), messages, options)
    }
}

impl<I: Index> Replayer<I> {
    /// The same over `index`, which is empty.
    ///
    /// # Errors
    /// When the index takes no more workers.
    pub fn over(index: I, messages: &[Message], options: StreamOptions) -> Result<Self, WorkersExhausted> {
        let ports = |live: bool| {
            messages.iter().filter(move |message| (message.kind == MessageKind::Live) == live).map(|message| message.port)
        };
        let replay_base = ports(false).min().unwrap_or(0);
        let ports: BTreeSet<u16> = if ports(true).next().is_some() { ports(true).collect() } else { ports(false).collect() };
        let rank = |port| {
            let stream = Stream::new(index.add_worker()?, options);
            Ok((port, Rank { cursor: Cursor::new(), stream, first_sequence: u64::MAX, stale: 0 }))
        };
        let ranks = ports.into_iter().map(rank).collect::<Result<_, WorkersExhausted>>()?;
        let mut replayer = Self {
            index,
            ranks,
            replay_base,
            drained: Losses::default(),
            predictor: Predictor::new(),
            hashes: Vec::new(),
            events: [0; 3],
            odd_frames: 0,
        };
        for (message, (sequence, _)) in messages.iter().filter_map(|message| Some((message, decode(message)?))) {
            if let Some(rank) = replayer.rank_of(message) {
                rank.first_sequence = rank.first_sequence.min(sequence);
            }
        }
        Ok(replayer)
    }

    /// The index.
    pub fn index(&self) -> &I {
        &self.index
    }

    /// The ranks, by port.
    pub fn ranks(&self) -> impl Iterator<Item = (u16, &Rank<I::Worker>)> {
        self.ranks.iter().map(|(&port, rank)| (port, rank))
    }

    /// The rank whose live messages come on `port`.
    pub fn rank(&self, port: u16) -> Option<&Rank<I::Worker>> {
        self.ranks.get(&port)
    }

    /// Blocks that all ranks hold, over all their views.
    pub fn blocks(&self) -> u64 {
        let held = |rank: &Rank<I::Worker>| {
            let views = rank.stream.profile().groups.iter().map(|group| group.any);
            views.map(|view| self.index.digest(rank.stream.worker(), view).count).sum::<u64>()
        };
        self.ranks.values().map(held).sum()
    }

    /// All losses.
    pub fn losses(&self) -> Losses {
        let mut all = self.drained.clone();
        self.ranks.values().for_each(|rank| all.merge(&rank.stream.counts().losses));
        all
    }

    /// Applies the JSON events of one drain of a TensorRT-LLM engine, as one more rank.
    ///
    /// # Errors
    /// When the index takes no more workers.
    pub fn apply_drain(&mut self, text: &str, options: StreamOptions) -> Result<(), WorkersExhausted> {
        let drain = trtllm::decode_json(text.as_bytes());
        self.drained.merge(&drain.losses);
        let mut stream = Stream::new(self.index.add_worker()?, options);
        let mut cursor = Cursor::new();
        for update in drain.updates {
            cursor.admit_replayed(update.event_id, update.batch.clears());
            stream.apply(&update.batch);
            update.batch.events.iter().for_each(|event| self.events[kind_of(event)] += 1);
        }
        self.ranks.insert(0, Rank { cursor, stream, first_sequence: 0, stale: 0 });
        Ok(())
    }

    /// Applies one message, if it is a batch and new.
    pub fn apply(&mut self, message: &Message) {
        let Some((sequence, batch)) = decode(message) else {
            self.odd_frames += u64::from(message.kind == MessageKind::Live);
            return;
        };
        let Some(rank) = self.rank_of(message) else { return };
        let applied = rank.admit(message.kind, sequence, &batch);
        if applied {
            batch.events.iter().for_each(|event| self.events[kind_of(event)] += 1);
        }
    }

    /// The rank that a message belongs to: the replay sockets' ports are as far apart as the live ones.
    fn rank_of(&mut self, message: &Message) -> Option<&mut Rank<I::Worker>> {
        let port = self.live_port(message)?;
        self.ranks.get_mut(&port)
    }

    /// The port of the live messages of the rank that a message belongs to.
    pub fn live_port(&self, message: &Message) -> Option<u16> {
        match message.kind {
            MessageKind::Live => Some(message.port),
            _ => self.ranks.keys().next()?.checked_add(message.port.checked_sub(self.replay_base)?),
        }
    }

    /// What the rank behind `port` would reuse of a prompt.
    pub fn predict(&mut self, port: u16, namespace: Namespace<'_>, prompt: &[u32]) -> Prediction {
        let Some((stream, scheme)) = self.ranks.get(&port).and_then(Rank::with_scheme) else { return Prediction::default() };
        scheme.hash_prompt(namespace, prompt, &mut self.hashes);
        self.predictor.predict(&self.index, stream.worker(), stream.profile(), &self.hashes, prompt.len())
    }

    /// How many tokens of a prompt are held from its start, the last token included.
    pub fn held_tokens(&mut self, port: u16, namespace: Namespace<'_>, prompt: &[u32]) -> u64 {
        let Some((stream, scheme)) = self.ranks.get(&port).and_then(Rank::with_scheme) else { return 0 };
        scheme.hash_prompt(namespace, prompt, &mut self.hashes);
        let blocks = self.index.depth(stream.worker(), kv_index::View::MAIN, &self.hashes);
        u64::from(blocks) * u64::from(scheme.block_tokens.get())
    }
}

impl<W: Worker> Rank<W> {
    /// Whether the engine published before the first batch that the recording holds.
    pub fn joined_late(&self) -> bool {
        self.cursor.unknown_before() > 0 || (self.cursor.last().is_none() && self.first_sequence > 0)
    }

    /// The stream, once it has shown how to cut a prompt.
    fn with_scheme(&self) -> Option<(&Stream<W>, Scheme)> {
        Some((&self.stream, self.stream.profile().scheme?))
    }

    fn admit(&mut self, kind: MessageKind, sequence: u64, batch: &Batch) -> bool {
        let clears = batch.clears();
        let mut admit = || {
            if kind == MessageKind::Live {
                self.cursor.admit_live(sequence, clears)
            } else {
                self.cursor.admit_replayed(sequence, clears)
            }
        };
        // A recording holds no answers to the questions that a router would ask now, so the second verdict settles it.
        let verdict = match admit() {
            Verdict::Replay { .. } => admit(),
            Verdict::Restart => {
                self.stream.restart();
                admit()
            }
            verdict => verdict,
        };
        match verdict {
            Verdict::Stale => {
                self.stale += 1;
                return false;
            }
            Verdict::ApplyAfterLoss { clear: true, .. } => self.stream.clear(),
            _ => {}
        }
        self.stream.apply(batch);
        true
    }
}

/// The sequence and the batch of a message that has them.
pub fn decode(message: &Message) -> Option<(u64, Batch)> {
    let message = match message.kind {
        MessageKind::Live => frame::live(&message.frames).ok()?,
        MessageKind::ReplayRequest => return None,
        MessageKind::ReplayedToDealer => batch_of(frame::replayed_to_dealer(&message.frames))?,
        MessageKind::ReplayedToReq => batch_of(frame::replayed_to_req(&message.frames))?,
    };
    Some((message.sequence, decode_batch(message.payload)))
}

fn batch_of(answer: Result<frame::ReplayAnswer<'_>, frame::FrameError>) -> Option<frame::Message<'_>> {
    match answer.ok()? {
        frame::ReplayAnswer::Batch(message) => Some(message),
        frame::ReplayAnswer::End => None,
    }
}

fn kind_of(event: &Event) -> usize {
    match event {
        Event::Stored(_) => 0,
        Event::Removed(_) => 1,
        Event::Cleared(_) => 2,
    }
}
