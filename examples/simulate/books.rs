//! What a gateway expects before events say so: a placement makes its worker a holder of the prompt, for a while.
//!
//! A prompt is remembered under its prefixes of 1, 2, 4, ... blocks and under all of it, with its blocks: a sibling finds it by the
//! longest of those that they share, and then counts what they really share.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// Placements of the last moments.
#[derive(Debug, Default)]
pub(super) struct Books {
    placed: HashMap<u64, Placement>,
}

#[derive(Debug, Clone)]
struct Placement {
    at: Duration,
    worker: u32,
    names: Rc<[u64]>,
}

impl Books {
    /// Notes that a prompt of these blocks went to `worker`.
    pub(super) fn note(&mut self, now: Duration, names: &[u64], worker: u32) {
        let placement = Placement { at: now, worker, names: names.into() };
        for depth in depths(names.len()) {
            self.placed.insert(names[depth - 1], placement.clone());
        }
        if self.placed.len() > PLACED_MAX {
            self.placed.retain(|_, placement| now < placement.at + TTL);
        }
    }

    /// The deepest prefix of a prompt that went somewhere a moment ago: where it went, and its blocks.
    pub(super) fn expected(&self, now: Duration, names: &[u64]) -> Option<(u32, usize)> {
        let placement = depths(names.len()).filter_map(|depth| self.placed.get(&names[depth - 1])).last()?;
        let shared = placement.names.iter().zip(names).take_while(|(left, right)| left == right).count();
        (now < placement.at + TTL).then_some((placement.worker, shared))
    }
}

/// 1, 2, 4, ..., and all.
fn depths(blocks: usize) -> impl Iterator<Item = usize> {
    (0..).map(|power| 1 << power).take_while(move |depth| *depth < blocks).chain((blocks > 0).then_some(blocks))
}

const TTL: Duration = Duration::from_secs(2);
const PLACED_MAX: usize = 65_536;
