//! Events and lookups in few words. Blocks have four tokens.

use kv_events::{Batch, EngineHash, Event, Prediction, Predictor, Removed, Stored, Stream, StreamOptions, Tokens};
use kv_index::{Index, Namespace, ReferenceIndex, ReferenceWorker};

pub(crate) const BLOCK: u32 = 4;

/// `blocks` blocks of tokens that no other `start` shares.
pub(crate) fn tokens(start: u32, blocks: u32) -> Vec<u32> {
    (start * 1_000..start * 1_000 + blocks * BLOCK).collect()
}

pub(crate) fn hashes(names: &[u64]) -> Vec<EngineHash> {
    names.iter().copied().map(EngineHash::from).collect()
}

pub(crate) fn store(names: &[u64], parent: Option<u64>, tokens: Vec<u32>) -> Stored {
    Stored {
        hashes: hashes(names),
        parent: parent.map(EngineHash::from),
        tokens: Tokens::Ids(tokens),
        block_size: BLOCK,
        group: Some(0),
        kind: Some("full_attention".into()),
        medium: Some("GPU".into()),
        ..Stored::default()
    }
}

pub(crate) fn removal(names: &[u64]) -> Removed {
    Removed { hashes: hashes(names), medium: Some("GPU".into()), group: Some(0), ..Removed::default() }
}

/// A store that names blocks on the host without their tokens.
pub(crate) fn host_placeholder(names: &[u64]) -> Stored {
    Stored { hashes: hashes(names), medium: Some("CPU".into()), ..Stored::default() }
}

pub(crate) fn batch(events: impl IntoIterator<Item = Event>) -> Batch {
    Batch { events: events.into_iter().collect(), ..Batch::default() }
}

/// A stream over an index of its own.
pub(crate) struct Rank {
    pub(crate) index: ReferenceIndex,
    pub(crate) stream: Stream<ReferenceWorker>,
}

impl Rank {
    pub(crate) fn new(options: StreamOptions) -> Self {
        let index = ReferenceIndex::new();
        let stream = Stream::new(index.add_worker().unwrap(), options);
        Self { index, stream }
    }

    pub(crate) fn apply(&mut self, events: impl IntoIterator<Item = Event>) {
        self.stream.apply(&batch(events));
    }

    pub(crate) fn predict_in(&self, namespace: Namespace<'_>, prompt: &[u32]) -> Prediction {
        let profile = self.stream.profile();
        let mut request = Vec::new();
        profile.scheme.expect("a store came").hash_prompt(namespace, prompt, &mut request);
        Predictor::new().predict(&self.index, self.stream.worker(), profile, &request, prompt.len())
    }

    /// Blocks that will be reused of `prompt` and one token more.
    pub(crate) fn reused(&self, prompt: &[u32]) -> u32 {
        let mut prompt = prompt.to_vec();
        prompt.push(7);
        self.predict_in(Namespace::default(), &prompt).blocks
    }
}

impl Default for Rank {
    fn default() -> Self {
        Self::new(StreamOptions::default())
    }
}
