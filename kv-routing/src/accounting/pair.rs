//! A request at two workers: one computes the prompt, the other the answer.

use std::time::Duration;

use super::{Dispatch, PrefixKeys, Site};
use crate::liveness::{Task, Vitals};

/// Both legs of a disaggregated request. Its drop ends what has not ended.
///
/// The decode leg is in flight from the start, but can show no progress before the prefill leg is done; until then its worker's
/// silence proves nothing. It is not predicted to hold the prompt: whether it keeps what it was handed, its events say.
#[derive(Debug)]
#[must_use = "a pair that is dropped has ended"]
pub struct Pair {
    prefill: Option<Dispatch>,
    decode: Dispatch,
    decoder: Vitals,
    streamed: bool,
}

impl Pair {
    /// A request is sent to two workers. `streamed` if the answer's chunks are seen.
    pub fn dispatch(now: Duration, legs: (&Site, &Site), prefill_tokens: u64, keys: &PrefixKeys, streamed: bool) -> Self {
        let (prefill, decode) = legs;
        Self {
            prefill: Some(prefill.dispatch(now, Task::prefill_leg(prefill_tokens), keys)),
            decode: decode.reserve(now, 0),
            decoder: decode.vitals.clone(),
            streamed,
        }
    }

    /// The prefill leg has answered. Later calls do nothing.
    pub fn prefilled(&mut self, now: Duration) {
        if let Some(prefill) = self.prefill.take() {
            prefill.complete(now);
            let task = if self.streamed { Task::streamed(0) } else { Task::whole(0) };
            self.decode.begin(self.decoder.begin(now, task));
        }
    }

    /// A chunk of the answer came: so the prompt is computed, whether or not that was said.
    pub fn chunk(&mut self, now: Duration) {
        self.prefilled(now);
        self.decode.chunk(now);
    }

    /// The answer is complete.
    pub fn complete(mut self, now: Duration) {
        self.prefilled(now);
        self.decode.complete(now);
    }

    /// One of the legs failed; the other is of no use then.
    pub fn fail(self) {
        if let Some(prefill) = self.prefill {
            prefill.fail();
        }
        self.decode.fail();
    }
}
