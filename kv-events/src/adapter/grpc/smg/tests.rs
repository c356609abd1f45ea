//! A reader of the SMG family, played: it believes everything that it is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::convert::Converter;
use super::counts::{SmgCounts, Unsaid};
use crate::adapter::grpc::proto::smg_family::smg::grpc::common as proto;
use crate::adapter::grpc::{News, Update};
use crate::{Batch, Cleared, EngineHash, Event, ExtraKey, Incarnation, Removed, Stored, Tokens};

fn published(sequence: u64, events: Vec<Event>) -> Update {
    let news = News::Published { missed: 0, batch: Batch { events, ..Batch::default() } };
    Update { rank: 0, incarnation: Incarnation::first(1), sequence, doubted: false, load: None, news }
}

fn chunk(rank: u32, index: u64, count: u64, events: Vec<Event>) -> Update {
    let batch = Batch { events, ..Batch::default() };
    let news = News::Chunk { index, count, total: 0, unknown_before: 0, lost: 0, batch };
    Update { rank, incarnation: Incarnation::first(1), sequence: 9, doubted: false, load: None, news }
}

fn store(parent: Option<u64>, names: &[u64]) -> Stored {
    Stored {
        hashes: names.iter().copied().map(EngineHash::from).collect(),
        parent: parent.map(EngineHash::from),
        tokens: Tokens::Ids(names.iter().flat_map(|name| [u32::try_from(*name).unwrap(), 0]).collect()),
        block_size: 2,
        ..Stored::default()
    }
}

fn removed(names: &[u64]) -> Event {
    Removed { hashes: names.iter().copied().map(EngineHash::from).collect(), ..Removed::default() }.into()
}

fn clear() -> Event {
    Event::Cleared(Cleared::default())
}

/// A converter, its counts, and what it said last.
struct Scene {
    converter: Converter,
    counts: Arc<SmgCounts>,
    sequence: u64,
}

impl Scene {
    fn new() -> Self {
        let counts = Arc::<SmgCounts>::default();
        Self { converter: Converter::new(counts.clone()), counts, sequence: 0 }
    }

    /// The events of one batch, in a few letters: `+5/1,2` stores 1 and 2 below 5, `-1` removes, `x` clears.
    fn tell(&mut self, events: Vec<Event>) -> String {
        self.sequence += 1;
        words(&self.converter.convert(published(self.sequence, events)).unwrap())
    }

    fn refuses(&mut self, reason: Unsaid, event: impl Into<Event>) {
        let before = self.counts.count(reason);
        assert_eq!((self.tell(vec![event.into()]).as_str(), self.counts.count(reason)), ("", before + 1), "{reason}");
    }
}

fn words(batch: &proto::KvEventBatch) -> String {
    use proto::kv_cache_event::Data;
    let list = |names: Vec<i64>| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let word = |event: &proto::KvCacheEvent| match event.data.as_ref().unwrap() {
        Data::Stored(store) => {
            let parent = store.parent_block_hash.map(|parent| format!("{parent}/")).unwrap_or_default();
            format!("+{parent}{}", list(store.blocks.iter().map(|block| block.block_hash).collect()))
        }
        Data::Removed(removed) => format!("-{}", list(removed.block_hashes.clone())),
        Data::Cleared(_) => "x".to_owned(),
    };
    batch.events.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_can_be_said_is_said_with_every_field() {
    let mut scene = Scene::new();
    let host = Stored { medium: Some("CPU".into()), lora_id: Some(3), lora_name: Some("ad".into()), ..store(None, &[7, 8]) };
    let host = Stored { extra_keys: Some(vec![vec![ExtraKey::Text("ad".into())]; 2]), ..host };
    let batch = Batch {
        timestamp_s: 1.5,
        rank: None,
        events: vec![host.into(), store(Some(7), &[u64::from(u32::MAX)]).into()],
        ..Batch::default()
    };
    let update = Update { rank: 3, ..published(41, Vec::new()) };
    let message = scene.converter.convert(Update { news: News::Published { missed: 0, batch }, ..update }).unwrap();
    assert_eq!((message.sequence_number, message.timestamp, message.dp_rank), (41, 1.5, Some(3)));
    assert_eq!((words(&message).as_str(), message.events[0].event_id, message.events[1].event_id), ("+7,8 +7/4294967295", 1, 2));
    let Some(proto::kv_cache_event::Data::Stored(stored)) = &message.events[0].data else { panic!("a store") };
    let block = &stored.blocks[1];
    assert_eq!((&block.token_ids[..], block.block_size, block.lora_id, block.cache_level), (&[8, 0][..], 2, Some(3), Some(1)));
    assert_eq!(scene.counts.all(), [0; Unsaid::ALL.len()]);
}

#[test]
fn names_keep_their_64_bits_whatever_their_sign() {
    let mut scene = Scene::new();
    let negative = Stored { hashes: vec![EngineHash::from(-5_i64)], ..store(None, &[1]) };
    assert_eq!(scene.tell(vec![negative.into()]), "+-5");
}

/// What the wire cannot say is left out, for its reason.
#[test]
fn every_reason_has_its_case() {
    let mut scene = Scene::new();
    let plain = || store(None, &[1]);
    scene.refuses(Unsaid::Ownership, Stored { ownership: Some("kvcr".into()), ..plain() });
    scene.refuses(Unsaid::Ownership, Event::Cleared(Cleared { ownership: Some("kvcr".into()) }));
    scene.refuses(Unsaid::Locality, Stored { locality: Some("REMOTE".into()), ..plain() });
    scene.refuses(Unsaid::Medium, Stored { medium: Some("TAPE".into()), ..plain() });
    scene.refuses(Unsaid::Group, Stored { kind: Some("sliding_window".into()), group: Some(1), ..plain() });
    scene.refuses(Unsaid::Group, Stored { group: Some(1), ..plain() });
    scene.refuses(Unsaid::Placeholder, Stored { tokens: Tokens::default(), ..plain() });
    scene.refuses(Unsaid::Unaligned, Stored { block_size: 3, ..plain() });
    scene.refuses(Unsaid::Unaligned, Stored { block_size: u32::MAX, ..plain() });
    scene.refuses(Unsaid::SelfReferencing, store(Some(1), &[1]));
    scene.refuses(Unsaid::SelfReferencing, store(None, &[1, 1]));
    scene.refuses(Unsaid::Namespaced, Stored { cache_salt: Some("s".into()), ..plain() });
    scene.refuses(Unsaid::Namespaced, Stored { extra_keys: Some(vec![vec![ExtraKey::Text("s".into())]]), ..plain() });
    scene.refuses(Unsaid::Namespaced, Stored { lora_name: Some("ad".into()), ..plain() });
    scene.refuses(Unsaid::UnknownParent, store(Some(5), &[1]));
    scene.refuses(Unsaid::Removal, removed(&[1]));
    assert_eq!(scene.tell(vec![Stored { cache_salt: Some(String::new()), ..plain() }.into()]), "+1", "an empty salt is none");
}

/// A child leaves out what its parent said: it must not come out as a prompt's first block in no namespace.
#[test]
fn what_hangs_below_the_unsaid_is_unsaid() {
    let mut scene = Scene::new();
    scene.refuses(Unsaid::Namespaced, Stored { cache_salt: Some("s".into()), ..store(None, &[1]) });
    scene.refuses(Unsaid::UnknownParent, store(Some(1), &[2]));
    scene.refuses(Unsaid::UnknownParent, store(Some(2), &[3]));
}

/// P14: of two copies, one is removed; the reader hears of the last one's removal only, whether or not it heard of both.
#[test]
fn a_removal_is_told_when_the_untold_copies_are_gone() {
    let mut scene = Scene::new();
    let announced = || Event::from(Stored { tokens: Tokens::default(), block_size: 0, ..store(None, &[1]) });
    assert_eq!(scene.tell(vec![store(None, &[1]).into(), store(None, &[1]).into(), announced()]), "+1 +1");
    assert_eq!((0..4).map(|_| scene.tell(vec![removed(&[1])])).collect::<Vec<_>>(), ["", "-1", "-1", ""]);
}

/// Amendment 3: a window group's removals would take the full group's blocks away. It may be heard of before.
#[test]
fn groups_that_are_not_main_attention_are_known_before_any_event_of_their_batch() {
    let mut scene = Scene::new();
    let window = Stored { kind: Some("sliding_window".into()), group: Some(1), ..store(None, &[1]) };
    let main = Stored { kind: Some("full_attention".into()), group: Some(0), ..store(None, &[1]) };
    let removal = |group| Event::from(Removed { group: Some(group), hashes: vec![EngineHash::Word(1)], ..Removed::default() });
    assert_eq!(scene.tell(vec![removal(1), window.into(), main.into(), removal(1)]), "+1");
    assert_eq!((scene.tell(vec![clear()]), scene.tell(vec![removal(1)])), ("x".to_owned(), String::new()), "kept over a clear");
    assert_eq!(scene.counts.count(Unsaid::Group), 4);
}

#[test]
fn chunks_count_up_to_the_batch_that_they_reach_and_later_ranks_clear_nothing() {
    let mut scene = Scene::new();
    let mut convert = |update| scene.converter.convert(update).map(|batch| (batch.sequence_number, words(&batch)));
    assert_eq!(convert(chunk(0, 0, 2, vec![clear(), store(None, &[1]).into()])), Some((8, "x +1".into())));
    assert_eq!(convert(chunk(0, 1, 2, vec![store(Some(1), &[2]).into()])), Some((9, "+1/2".into())));
    assert_eq!(convert(chunk(1, 0, 1, vec![clear(), store(None, &[1]).into()])), Some((9, "+1".into())));
    assert_eq!(convert(chunk(1, 0, u64::MAX, Vec::new())), Some((0, String::new())), "no chunk of ours, and no panic");
    assert_eq!(convert(Update { news: News::Heartbeat { vouched: true }, ..published(9, Vec::new()) }), None);
}

#[derive(Clone, Debug)]
struct Step {
    kind: u8,
    name: u64,
    parent: Option<u64>,
    salted: bool,
    host: bool,
}

fn step() -> impl Strategy<Value = Step> {
    (0u8..12, 0u64..6, option::of(0u64..6), any::<bool>(), any::<bool>()).prop_map(|(kind, name, parent, salted, host)| Step {
        kind,
        name,
        parent,
        salted: salted && kind % 3 == 0,
        host,
    })
}

impl Step {
    fn event(&self) -> Event {
        let medium = self.host.then(|| "CPU".to_owned());
        match self.kind {
            0..6 => {
                let salt = self.salted.then(|| "s".to_owned());
                Stored { medium, cache_salt: salt, ..store(self.parent, &[self.name]) }.into()
            }
            6 => Stored { medium, tokens: Tokens::default(), ..store(None, &[self.name]) }.into(),
            7 => clear(),
            _ => Removed { hashes: vec![EngineHash::Word(self.name)], medium, ..Removed::default() }.into(),
        }
    }
}

type Copies = BTreeMap<(i64, bool), i64>;

/// What a copy-counting engine holds.
fn engine(copies: &mut Copies, step: &Step) {
    let key = (step.name.cast_signed(), step.host);
    match step.kind {
        7 => copies.clear(),
        0..7 => *copies.entry(key).or_default() += 1,
        _ => {
            if let Some(count) = copies.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    copies.remove(&key);
                }
            }
        }
    }
}

/// What the reader makes of it. Whatever would make it guess is an error.
fn reader(copies: &mut Copies, event: &proto::KvCacheEvent) -> Result<(), TestCaseError> {
    use proto::kv_cache_event::Data;
    match event.data.as_ref().unwrap() {
        Data::Cleared(_) => copies.clear(),
        Data::Stored(store) => {
            let known = |name: i64| copies.keys().any(|key| key.0 == name);
            prop_assert!(store.parent_block_hash.is_none_or(known), "a parent that the reader does not hold");
            for block in &store.blocks {
                *copies.entry((block.block_hash, block.cache_level == Some(1))).or_default() += 1;
            }
        }
        Data::Removed(removed) => {
            for name in &removed.block_hashes {
                let key = (*name, removed.cache_level == Some(1));
                let count = copies.get_mut(&key);
                prop_assert!(count.is_some(), "a removal of what the reader does not hold");
                let count = count.unwrap();
                *count -= 1;
                if *count == 0 {
                    copies.remove(&key);
                }
            }
        }
    }
    Ok(())
}

proptest! {
    /// The reader never holds what the engine does not, never has to guess, and lacks a told block only when its copies are gone.
    #[test]
    fn a_reader_is_told_nothing_that_is_not_so(steps in vec(step(), 0..60)) {
        let (mut scene, mut held, mut believed) = (Scene::new(), Copies::new(), Copies::new());
        for step in &steps {
            scene.sequence += 1;
            let message = scene.converter.convert(published(scene.sequence, vec![step.event()])).unwrap();
            prop_assert_eq!(message.sequence_number, scene.sequence);
            let before = believed.clone();
            engine(&mut held, step);
            message.events.iter().try_for_each(|event| reader(&mut believed, event))?;
            prop_assert!(believed.keys().all(|key| held.contains_key(key)), "{:?} of {:?}", believed, held);
            let dropped = before.keys().filter(|key| !believed.contains_key(*key));
            for key in dropped {
                prop_assert!(!held.contains_key(key), "{:?} is held, and was taken from the reader", key);
            }
        }
    }
}
