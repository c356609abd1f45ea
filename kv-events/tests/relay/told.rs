//! Whoever is told a state holds what a reader of every batch holds, and stays equal to it.

use std::time::Duration;

use kv_events::relay::{Next, Options, Relay};
use kv_events::{Cleared, EngineHash, Event, ExtraKey, Removed, Stored, Tier, Tiers, Tokens};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::encode::payload;
use crate::reader::{Known, drain};

const NOW: Duration = Duration::ZERO;
const BLOCK: u32 = 2;

/// A relay of one rank without a replay socket.
fn relay(history_batches: usize) -> Relay {
    let mut relay = Relay::new(NOW, 1, Options { replays: false, history_batches, ..Options::default() });
    relay.handle_connected(NOW, 0);
    relay
}

/// What an engine may send, and some that none does: names are few, so that they move, collide and wait.
#[derive(Clone, Debug)]
enum Step {
    Store {
        parent: Option<u64>,
        names: Vec<u64>,
        steps: usize,
        start: u32,
        group: usize,
        tier: usize,
        namespace: usize,
        image: bool,
    },
    Copy {
        names: Vec<u64>,
        group: usize,
        tier: usize,
    },
    Remove {
        names: Vec<u64>,
        group: usize,
        tier: usize,
    },
    Clear,
}

/// How the engine of one case speaks.
#[derive(Clone, Copy, Debug)]
struct Speech {
    grouped: bool,
    bigrams: bool,
    /// Units in a block of the last group.
    coarse: u32,
}

const MEDIA: [&str; 4] = ["GPU", "CPU", "DISK", "EXTERNAL"];
const KINDS: [(&str, Option<u32>); 3] = [("full_attention", None), ("sliding_window", Some(8)), ("mamba", None)];

fn any_step(tiers: usize) -> impl Strategy<Value = Step> {
    let names = || vec(0u64..14, 1..4);
    let store = (proptest::option::of(0u64..14), names(), 0usize..3, 0u32..3, 0usize..3, 0..tiers, 0usize..4, any::<bool>());
    prop_oneof![
        8 => store.prop_map(|(parent, names, steps, start, group, tier, namespace, image)| {
            Step::Store { parent, names, steps, start, group, tier, namespace, image }
        }),
        2 => (names(), 0usize..3, 0..tiers).prop_map(|(names, group, tier)| Step::Copy { names, group, tier }),
        6 => (names(), 0usize..3, 0..tiers).prop_map(|(names, group, tier)| Step::Remove { names, group, tier }),
        1 => Just(Step::Clear),
    ]
}

fn any_speech() -> impl Strategy<Value = Speech> {
    (any::<bool>(), any::<bool>(), 1u32..3).prop_map(|(grouped, bigrams, coarse)| Speech { grouped, bigrams, coarse })
}

impl Speech {
    fn event(self, step: &Step) -> Event {
        match step {
            Step::Store { .. } => self.store(step).into(),
            Step::Copy { names, group, tier } => {
                Stored { hashes: hashes(names), block_size: 0, ..self.shelf(*group, *tier) }.into()
            }
            Step::Remove { names, group, tier } => {
                let Stored { medium, group, .. } = self.shelf(*group, *tier);
                Removed { hashes: hashes(names), medium, group, ..Removed::default() }.into()
            }
            Step::Clear => Event::Cleared(Cleared::default()),
        }
    }

    fn shelf(self, group: usize, tier: usize) -> Stored {
        let medium = Some(MEDIA[tier].into());
        if !self.grouped {
            return Stored { medium, block_size: BLOCK, ..Stored::default() };
        }
        let block_size = if group == 2 { BLOCK * self.coarse } else { BLOCK };
        let (kind, window) = KINDS[group];
        Stored { medium, block_size, group: u32::try_from(group).ok(), kind: Some(kind.into()), window, ..Stored::default() }
    }

    fn store(self, step: &Step) -> Stored {
        let Step::Store { parent, names, steps, start, group, tier, namespace, image } = step else {
            unreachable!("only stores")
        };
        let told = self.shelf(*group, *tier);
        let steps = if self.grouped { *steps } else { 0 };
        let count = u32::try_from(names.len() + steps).unwrap() * told.block_size;
        // Few contents, so that places meet; an image makes one of its own.
        let row: Vec<u32> = (0..=count).map(|token| (start + token / 3) % 4).collect();
        let tokens = if self.bigrams {
            Tokens::Bigrams(row.windows(2).map(|two| [two[0], two[1]]).collect())
        } else {
            Tokens::Ids(row[..count as usize].to_vec())
        };
        // A prompt says its namespace where it starts.
        let (lora_name, cache_salt) = match (parent, namespace) {
            (None, 1) => (Some("adapter".into()), None),
            (None, 2) => (None, Some("salt".into())),
            (None, 3) => (Some("adapter".into()), Some("salt".into())),
            _ => (None, None),
        };
        let key = ExtraKey::Item { id: "image".into(), offset: 1 };
        let extra_keys = image.then(|| names.iter().map(|name| if name % 2 == 0 { vec![key.clone()] } else { vec![] }).collect());
        let parent = parent.map(EngineHash::from);
        Stored { hashes: hashes(names), parent, tokens, lora_name, cache_salt, extra_keys, ..told }
    }
}

fn hashes(names: &[u64]) -> Vec<EngineHash> {
    names.iter().map(|&name| EngineHash::from(name + 100)).collect()
}

/// Publishes `steps`, has a reader subscribe at `joins`, and compares it with one that gets every batch, then and at the end.
fn a_reader_that_joins_is_equal(
    steps: &[(Step, bool)],
    joins: usize,
    speech: Speech,
    served: Tiers,
) -> Result<bool, TestCaseError> {
    let mut relay = relay(1);
    let (mut every, mut late) = (Known::new(served), Known::new(served));
    let (mut pending, mut subscriber, mut exact) = (Vec::new(), None, true);
    let mut sequence = 0;
    for (number, (step, publish)) in steps.iter().enumerate() {
        pending.push(speech.event(step));
        if *publish {
            let payload = payload(1.0 + f64::from(u32::try_from(sequence).unwrap()), &std::mem::take(&mut pending));
            relay.handle_live(NOW, 0, sequence, &payload);
            every.apply(&kv_events::wire::decode_batch(&payload));
            sequence += 1;
        }
        if number == joins && sequence > 1 {
            subscriber = Some(relay.subscribe(NOW, &[]).unwrap());
        }
        if let Some(subscriber) = subscriber {
            let last = drain(&mut relay, NOW, subscriber, std::slice::from_mut(&mut late));
            prop_assert!(matches!(last, Next::Wait { .. }), "{:?}", last);
            exact &= late.missing == 0;
            if exact {
                prop_assert_eq!(late.state(), every.state(), "after step {}", number);
                prop_assert!(late.is_mixed() || !every.is_mixed(), "after step {}", number);
            }
        }
    }
    Ok(exact && subscriber.is_some())
}

proptest! {
    // Covers defects 7, 19, 21, 22 of behaviour.md 10 from the relay's side: copies, tiers, windows, what is not understood.
    #[test]
    fn a_snapshot_is_what_every_batch_made(
        steps in vec((any_step(2), any::<bool>()), 4..60),
        joins in 2usize..40,
        speech in any_speech(),
    ) {
        a_reader_that_joins_is_equal(&steps, joins, speech, Tiers::SERVED)?;
    }

    #[test]
    fn a_snapshot_tells_slower_tiers_too(
        steps in vec((any_step(4), any::<bool>()), 4..60),
        joins in 2usize..40,
        speech in any_speech(),
    ) {
        a_reader_that_joins_is_equal(&steps, joins, speech, Tiers::of(&Tier::ALL))?;
    }
}
