//! The table of predicted placements, shared.

use std::time::Duration;

use super::keys::Key;
use super::placements::Placements;
use super::{Predicted, PrefixKeys};
use crate::sync::{Arc, Mutex};

/// Who is expected to hold which prefixes. Cheap to clone; every call takes one lock for some hundred nanoseconds. One table for all workers that cut prompts alike.
#[derive(Clone, Debug, Default)]
pub struct Predictions(Arc<Mutex<Placements>>);

/// One request's predicted placement. Dropped before its prompt was computed, it is withdrawn.
#[derive(Debug)]
#[must_use = "a placement that is dropped is withdrawn"]
pub struct Placed {
    predictions: Predictions,
    number: u64,
    worker: u32,
    keys: Box<[Key]>,
    pending: bool,
}

impl Predictions {
    /// Nobody is expected to hold anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, and a prediction of which nothing is heard holds for `ttl` instead of [`PREDICTION_TTL`](crate::limits::PREDICTION_TTL).
    pub fn lasting(ttl: Duration) -> Self {
        Self(Arc::new(Mutex::new(Placements::lasting(ttl))))
    }

    /// A prompt goes to `worker`, which will hold all of it.
    pub fn place(&self, now: Duration, worker: u32, keys: &PrefixKeys) -> Placed {
        let number = self.0.lock().place_prompt(now, worker, keys.keys(), &keys.remembered().into());
        Placed { predictions: self.clone(), number, worker, keys: keys.keys().into(), pending: true }
    }

    /// Who is expected to hold the beginning of a prompt: each worker once, with its longest prefix, the longest first. What was in
    /// `found` is gone.
    pub fn find(&self, now: Duration, keys: &PrefixKeys, found: &mut Vec<Predicted>) {
        self.0.lock().find(now, keys.keys(), found);
    }

    /// Like [`find`](Self::find), and compares what it found with the prompt that was placed there: all blocks that both share count, up to
    /// [`PREDICTION_BLOCKS_MAX`](crate::limits::PREDICTION_BLOCKS_MAX). A sibling whose prefix is cut off at half looks as if it had as
    /// much to compute elsewhere, so who weighs costs should ask this.
    pub fn find_shared(&self, now: Duration, keys: &PrefixKeys, found: &mut Vec<Predicted>) {
        self.0.lock().find_shared(now, keys, found);
    }

    /// The index shows the first `blocks` of a prompt at `worker`, so nothing has to be predicted of them. To be called where a
    /// prediction is not longer than what the index says: then what the worker evicts is not predicted any longer either.
    pub fn confirm(&self, worker: u32, keys: &PrefixKeys, blocks: u32) {
        self.0.lock().confirm(worker, keys.keys(), blocks);
    }

    /// The worker has left, or has lost its cache.
    pub fn forget(&self, worker: u32) {
        self.0.lock().forget(worker);
    }

    /// How many prefixes are predicted, expired ones among them.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Placed {
    /// The first token came, so the prompt is computed and the events that say so are on their way. Later calls do nothing.
    pub fn first_token(&mut self, now: Duration) {
        if std::mem::take(&mut self.pending) {
            self.predictions.0.lock().settle(now, self.number, self.worker, &self.keys);
        }
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        if self.pending {
            self.predictions.0.lock().withdraw(self.number, self.worker, &self.keys);
        }
    }
}
