//! A reader of a relay: a stream over an index of its own for every rank.

use std::collections::BTreeSet;
use std::time::Duration;

use kv_events::relay::{Next, Relay, SubscriberId};
use kv_events::{Batch, Caveat, Position, Profile, Stream, StreamOptions, Tiers};
use kv_index::testing::holdings;
use kv_index::{Digest, Index, ReferenceIndex, ReferenceWorker, View};

/// One rank as its reader knows it.
pub(crate) struct Known {
    index: ReferenceIndex,
    pub(crate) stream: Stream<ReferenceWorker>,
    pub(crate) position: Option<Position>,
    /// Batches, or parts of the state, that were said to be missing.
    pub(crate) missing: u64,
    /// The publisher's clock with the last batch.
    pub(crate) timestamp_s: f64,
}

/// All that two readers of one stream must agree on.
#[derive(Debug, PartialEq)]
pub(crate) struct State {
    /// But for the label of mixed schemes.
    profile: Profile,
    views: Vec<Digest>,
    /// Not how many blocks wait: a store that lost a name while it waited is told in two.
    waits: bool,
    counted_copies: usize,
}

impl Known {
    pub(crate) fn new(served: Tiers) -> Self {
        let index = ReferenceIndex::new();
        let options = StreamOptions { served, ..StreamOptions::default() };
        let stream = Stream::new(index.add_worker().unwrap(), options);
        Self { index, stream, position: None, missing: 0, timestamp_s: 0.0 }
    }

    pub(crate) fn apply(&mut self, batch: &Batch) {
        self.stream.apply(batch);
        self.timestamp_s = batch.timestamp_s;
    }

    /// Whether the stream is labelled as one of mixed schemes. A snapshot may add the label, where a coarse block stands at a place
    /// that can be told in units only; it must never lose it.
    pub(crate) fn is_mixed(&self) -> bool {
        self.stream.profile().caveats.contains(&Caveat::MixedSchemes)
    }

    /// What is held in the main view.
    pub(crate) fn names(&self) -> BTreeSet<u64> {
        let all = holdings(&self.index, self.stream.worker()).into_iter();
        all.filter(|held| held.view == View::MAIN).map(|held| held.name.0).collect()
    }

    pub(crate) fn state(&self) -> State {
        let views = (0..16).map(|view| self.index.digest(self.stream.worker(), View(view))).collect();
        let mut profile = (**self.stream.profile()).clone();
        profile.caveats.remove(&Caveat::MixedSchemes);
        State { profile, views, waits: self.stream.waiting_blocks() > 0, counted_copies: self.stream.counted_copies() }
    }
}

/// Takes in whatever the relay has for `subscriber` now; the last thing it said.
pub(crate) fn drain(relay: &mut Relay, now: Duration, subscriber: SubscriberId, ranks: &mut [Known]) -> Next {
    loop {
        match relay.poll(now, subscriber) {
            Next::Batch(relayed) => {
                let known = &mut ranks[relayed.rank as usize];
                match known.position {
                    Some(position) => {
                        assert_eq!(position.incarnation, relayed.incarnation, "a life is never mixed with another");
                        assert_eq!(relayed.batch.sequence, position.sequence + 1 + relayed.missed, "each once, in order");
                    }
                    None => known.missing += relayed.batch.sequence,
                }
                if relayed.batch.decode().clears() {
                    known.missing = 0;
                } else {
                    known.missing += relayed.missed;
                }
                known.apply(&relayed.batch.decode());
                known.position = Some(Position { incarnation: relayed.incarnation, sequence: relayed.batch.sequence });
            }
            Next::Snapshot(snapshot) => {
                let (incarnation, through) = (snapshot.incarnation(), snapshot.through());
                let known = &mut ranks[snapshot.rank() as usize];
                for chunk in *snapshot {
                    known.apply(&chunk.batch);
                    known.missing = chunk.unknown_before + chunk.lost;
                }
                known.position = Some(Position { incarnation, sequence: through });
            }
            Next::Heartbeat(_) => {}
            last => return last,
        }
    }
}
