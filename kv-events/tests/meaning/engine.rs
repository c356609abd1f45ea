//! A model of a vLLM-like engine that copies blocks, moves them between tiers and evicts any of them at any time: after every
//! batch the index holds exactly what the engine does.

use std::collections::{BTreeMap, BTreeSet};

use kv_events::{Event, Removed, Stored, StreamOptions};
use kv_index::testing::holdings;
use kv_index::{Index, View};
use proptest::prelude::*;

use crate::build::{BLOCK, Rank, batch, removal, store};

/// Copies of each block on the device and on the host, by its path: a path of small numbers, each a block's tokens.
#[derive(Default)]
struct Engine {
    copies: BTreeMap<Vec<u8>, [u32; 2]>,
}

const MEDIA: [&str; 2] = ["GPU", "CPU"];

#[derive(Clone, Debug)]
enum Step {
    /// Computes a path; blocks that are held are stored again as copies if `again`.
    Serve {
        path: Vec<u8>,
        tier: usize,
        again: bool,
    },
    /// Drops one copy of the `nth` block.
    Evict {
        nth: usize,
        tier: usize,
    },
    Clear,
}

impl Engine {
    fn step(&mut self, step: &Step) -> Vec<Event> {
        match step {
            Step::Serve { path, tier, again } => self.serve(path, *tier, *again),
            Step::Evict { nth, tier } => self.evict(*nth, *tier).into_iter().collect(),
            Step::Clear => {
                self.copies.clear();
                vec![Event::Cleared(kv_events::Cleared::default())]
            }
        }
    }

    /// One store for each run of blocks that must be computed, under the block before it.
    fn serve(&mut self, path: &[u8], tier: usize, again: bool) -> Vec<Event> {
        let held = (1..=path.len()).take_while(|&len| self.copies.contains_key(&path[..len])).count();
        let from = if again { held.saturating_sub(1) } else { held };
        if from == path.len() {
            return Vec::new();
        }
        (from + 1..=path.len()).for_each(|len| self.copies.entry(path[..len].to_vec()).or_default()[tier] += 1);
        let names: Vec<u64> = (from + 1..=path.len()).map(|len| name(&path[..len])).collect();
        let parent = (from > 0).then(|| name(&path[..from]));
        let medium = Some(MEDIA[tier].into());
        vec![Stored { medium, ..store(&names, parent, path[from..].iter().flat_map(|&block| tokens(block)).collect()) }.into()]
    }

    fn evict(&mut self, nth: usize, tier: usize) -> Option<Event> {
        let path = self.copies.keys().nth(nth.checked_rem(self.copies.len())?)?.clone();
        let copies = self.copies.get_mut(&path)?;
        copies[tier] = copies[tier].checked_sub(1)?;
        if *copies == [0, 0] {
            self.copies.remove(&path);
        }
        Some(Removed { medium: Some(MEDIA[tier].into()), ..removal(&[name(&path)]) }.into())
    }

    fn names(&self) -> BTreeSet<u64> {
        self.copies.keys().map(|path| name(path)).collect()
    }

    fn reusable(&self, path: &[u8]) -> usize {
        (1..=path.len()).take_while(|&len| self.copies.contains_key(&path[..len])).count()
    }
}

/// Chained, as an engine's hash is.
fn name(path: &[u8]) -> u64 {
    path.iter().fold(1, |name, &block| name * 31 + u64::from(block) + 1)
}

fn tokens(block: u8) -> impl Iterator<Item = u32> {
    (0..BLOCK).map(move |token| u32::from(block) * BLOCK + token)
}

fn any_step() -> impl Strategy<Value = Step> {
    let path = proptest::collection::vec(0u8..3, 1..6);
    prop_oneof![
        8 => (path, 0usize..2, any::<bool>()).prop_map(|(path, tier, again)| Step::Serve { path, tier, again }),
        8 => (0usize..100, 0usize..2).prop_map(|(nth, tier)| Step::Evict { nth, tier }),
        1 => Just(Step::Clear),
    ]
}

/// What the worker holds in one view, by name.
fn held(rank: &Rank, view: View) -> BTreeSet<u64> {
    let all = holdings(&rank.index, rank.stream.worker()).into_iter();
    all.filter(|held| held.view == view).map(|held| held.name.0).collect()
}

proptest! {
    #[test]
    fn the_index_holds_what_the_engine_holds(
        steps in proptest::collection::vec((any_step(), any::<bool>()), 1..80),
        probe in proptest::collection::vec(0u8..3, 1..6),
        device_views: bool,
    ) {
        let mut rank = Rank::new(StreamOptions { device_views, ..StreamOptions::default() });
        let (mut engine, mut pending) = (Engine::default(), Vec::new());
        for (step, publish) in steps {
            pending.extend(engine.step(&step));
            if !publish {
                continue;
            }
            rank.stream.apply(&batch(std::mem::take(&mut pending)));
            prop_assert_eq!(held(&rank, View::MAIN), engine.names());
            prop_assert_eq!(rank.index.digest(rank.stream.worker(), View::MAIN).count, engine.copies.len() as u64);
            if let Some(device) = rank.stream.profile().groups.first().and_then(|group| group.device) {
                let on_device = engine.copies.iter().filter(|(_, copies)| copies[0] > 0);
                prop_assert_eq!(held(&rank, device), on_device.map(|(path, _)| name(path)).collect());
            }
            if rank.stream.profile().scheme.is_some() {
                let prompt: Vec<u32> = probe.iter().flat_map(|&block| tokens(block)).collect();
                prop_assert_eq!(rank.reused(&prompt) as usize, engine.reusable(&probe));
            }
        }
        let copied = engine.copies.values().filter(|copies| **copies != [1, 0]).count();
        if pending.is_empty() {
            prop_assert_eq!(rank.stream.counted_copies(), copied, "one device copy costs no entry");
        }
        prop_assert_eq!(rank.stream.counts().losses.total(), 0);
    }

    /// What was published before the first batch that came hides blocks, and never leaves one that is gone.
    #[test]
    fn a_stream_that_joined_late_holds_nothing_that_the_engine_does_not(
        steps in proptest::collection::vec(any_step(), 1..80),
        joined in 0usize..20,
    ) {
        let (mut engine, mut rank, mut complete) = (Engine::default(), Rank::default(), joined == 0);
        for (number, step) in steps.iter().enumerate() {
            let events = engine.step(step);
            if number < joined {
                continue;
            }
            complete |= matches!(step, Step::Clear);
            rank.stream.apply(&batch(events));
            let held = held(&rank, View::MAIN);
            prop_assert!(held.is_subset(&engine.names()), "{held:?} of {:?}", engine.names());
            prop_assert!(!complete || (held == engine.names() && rank.stream.waiting_blocks() == 0), "{held:?}");
        }
    }
}
