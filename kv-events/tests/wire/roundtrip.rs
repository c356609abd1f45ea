//! Events that we encode in every layout and decode again.

use kv_events::wire::decode_batch;
use kv_events::{Cleared, EngineHash, Event, ExtraKey, Layout, Losses, Removed, Stored, Tokens};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rmp::encode::{
    write_array_len, write_bin, write_f64, write_map_len, write_nil, write_sint, write_str, write_u8, write_u64, write_uint,
};

type Out = Vec<u8>;

/// A field that writes itself.
type Field<'a> = Box<dyn Fn(&mut Out) + 'a>;

proptest! {
    #[test]
    fn arrays_of_any_length_come_back(events in vec(event(), 0..4), rank in option::of(any::<u32>()), slots in 5usize..=14) {
        let events: Vec<_> = events.into_iter().map(|event| cut_to(event, slots)).collect();
        let batch = decode_batch(&encode(&events, rank, &|event| array_event(event, slots)));
        prop_assert_eq!(&batch.losses, &Losses::default());
        prop_assert_eq!((batch.events, batch.rank, batch.timestamp_s.to_bits()), (events, rank, TIMESTAMP_S.to_bits()));
    }

    #[test]
    fn maps_with_keys_in_any_order_come_back(events in vec(event(), 0..4), rank in option::of(any::<u32>()), turn in 0usize..20) {
        let batch = decode_batch(&encode(&events, rank, &|event| map_event(event, turn)));
        prop_assert_eq!(&batch.losses, &Losses::default());
        prop_assert_eq!((batch.events, batch.rank), (events, rank));
    }
}

fn encode(events: &[Event], rank: Option<u32>, one: &dyn Fn(&Event) -> Out) -> Out {
    let mut out = Vec::new();
    write_array_len(&mut out, 3).expect("memory");
    write_f64(&mut out, TIMESTAMP_S).expect("memory");
    write_array_len(&mut out, length(events)).expect("memory");
    out.extend(events.iter().flat_map(one));
    write_optional(&mut out, rank, |out, rank| uint(out, rank.into()));
    out
}

/// The event as a layout of so many slots can say it.
fn cut_to(event: Event, slots: usize) -> Event {
    let Event::Stored(mut stored) = event else { return event };
    stored.layout = Layout::Array(u8::try_from(slots).expect("few slots"));
    (stored.cache_salt, stored.lookahead, stored.components) = (None, None, Vec::new());
    let empty = Stored::default();
    if slots <= 5 {
        stored.lora_id = empty.lora_id;
    }
    if slots <= 6 {
        stored.medium = None;
    }
    if slots <= 7 {
        stored.lora_name = None;
    }
    if slots <= 8 {
        stored.extra_keys = None;
    }
    if slots <= 9 {
        stored.group = None;
    }
    if slots <= 10 {
        stored.kind = None;
    }
    if slots <= 11 {
        stored.window = None;
    }
    if slots <= 12 {
        stored.locality = None;
    }
    if slots <= 13 {
        stored.ownership = None;
    }
    Event::Stored(stored)
}

fn array_event(event: &Event, slots: usize) -> Out {
    let all = fields(event);
    let named: Vec<_> = all.iter().filter(|(name, _)| !MAP_ONLY.contains(name)).collect();
    let len = if matches!(event, Event::Stored(_)) { slots } else { named.len() };
    let mut out = Vec::new();
    write_array_len(&mut out, u32::try_from(len).expect("few slots")).expect("memory");
    named.iter().take(len).for_each(|(_, field)| field(&mut out));
    out
}

/// The fields from the `turn`-th on, then those before it, with an unknown key in front.
fn map_event(event: &Event, turn: usize) -> Out {
    let mut all = fields(event);
    let turn = turn % all.len();
    all.rotate_left(turn);
    let mut out = Vec::new();
    write_map_len(&mut out, length(&all) + 1).expect("memory");
    text(&mut out, "session_id");
    text(&mut out, "s-1");
    for (name, field) in &all {
        text(&mut out, name);
        field(&mut out);
    }
    out
}

fn fields(event: &Event) -> Vec<(&'static str, Field<'_>)> {
    match event {
        Event::Stored(stored) => stored_fields(stored),
        Event::Removed(removed) => vec![
            ("type", Box::new(|out| text(out, "BlockRemoved"))),
            ("block_hashes", Box::new(|out| list(out, &removed.hashes, hash))),
            ("medium", Box::new(|out| optional_text(out, removed.medium.as_ref()))),
            ("group_idx", Box::new(|out| write_optional(out, removed.group, |out, group| uint(out, group.into())))),
            ("locality", Box::new(|out| optional_text(out, removed.locality.as_ref()))),
            ("ownership", Box::new(|out| optional_text(out, removed.ownership.as_ref()))),
        ],
        Event::Cleared(cleared) => vec![
            ("type", Box::new(|out| text(out, "AllBlocksCleared"))),
            ("ownership", Box::new(|out| optional_text(out, cleared.ownership.as_ref()))),
        ],
    }
}

/// In the order of the array's slots; the last three have none.
fn stored_fields(stored: &Stored) -> Vec<(&'static str, Field<'_>)> {
    vec![
        ("type", Box::new(|out| text(out, "BlockStored"))),
        ("block_hashes", Box::new(|out| list(out, &stored.hashes, hash))),
        ("parent_block_hash", Box::new(|out| write_optional(out, stored.parent.as_ref(), hash))),
        ("token_ids", Box::new(|out| tokens(out, &stored.tokens))),
        ("block_size", Box::new(|out| uint(out, stored.block_size.into()))),
        ("lora_id", Box::new(|out| write_optional(out, stored.lora_id, sint))),
        ("medium", Box::new(|out| optional_text(out, stored.medium.as_ref()))),
        ("lora_name", Box::new(|out| optional_text(out, stored.lora_name.as_ref()))),
        (
            "extra_keys",
            Box::new(|out| {
                write_optional(out, stored.extra_keys.as_ref(), |out, blocks| list_of_lists(out, blocks, extra_key));
            }),
        ),
        ("group_idx", Box::new(|out| write_optional(out, stored.group, |out, group| uint(out, group.into())))),
        ("kv_cache_spec_kind", Box::new(|out| optional_text(out, stored.kind.as_ref()))),
        (
            "kv_cache_spec_sliding_window",
            Box::new(|out| write_optional(out, stored.window, |out, window| uint(out, window.into()))),
        ),
        ("locality", Box::new(|out| optional_text(out, stored.locality.as_ref()))),
        ("ownership", Box::new(|out| optional_text(out, stored.ownership.as_ref()))),
        ("cache_salt", Box::new(|out| optional_text(out, stored.cache_salt.as_ref()))),
        (
            "lookahead_token_ids",
            Box::new(|out| {
                write_optional(out, stored.lookahead.as_ref(), |out, blocks| list_of_lists(out, blocks, id));
            }),
        ),
        ("component_types", Box::new(|out| list(out, &stored.components, |out, label| text(out, label)))),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => stored().prop_map(Event::from),
        2 => (vec(engine_hash(), 0..4), word(), option::of(any::<u32>()), word(), word())
            .prop_map(|(hashes, medium, group, locality, ownership)| Event::Removed(Removed { hashes, medium, group, locality, ownership })),
        1 => word().prop_map(|ownership| Event::Cleared(Cleared { ownership })),
    ]
}

fn stored() -> impl Strategy<Value = Stored> {
    let blocks = (vec(engine_hash(), 0..5), option::of(engine_hash()), event_tokens(), any::<u32>());
    let names = (option::of(any::<i64>()), word(), word(), option::of(vec(vec(key(), 0..3), 0..3)));
    let places = (word(), option::of(any::<u32>()), word(), option::of(any::<u32>()), word(), word());
    let rest = (option::of(vec(vec(any::<u32>(), 0..3), 0..3)), vec("[a-z]{1,5}", 0..3));
    (blocks, names, places, rest).prop_map(|(blocks, names, places, rest)| {
        let (hashes, parent, tokens, block_size) = blocks;
        let (lora_id, lora_name, cache_salt, extra_keys) = names;
        let (medium, group, kind, window, locality, ownership) = places;
        let (lookahead, components) = rest;
        let layout = Layout::Map;
        Stored {
            hashes,
            parent,
            tokens,
            block_size,
            lora_id,
            lora_name,
            cache_salt,
            extra_keys,
            medium,
            group,
            kind,
            window,
            locality,
            ownership,
            lookahead,
            components,
            layout,
        }
    })
}

fn engine_hash() -> impl Strategy<Value = EngineHash> {
    prop_oneof![
        any::<u64>().prop_map(EngineHash::from),
        any::<i64>().prop_map(EngineHash::from),
        (0u64..300).prop_map(EngineHash::from),
        vec(any::<u8>(), 1..65).prop_map(|bytes| EngineHash::Digest(bytes.into())),
    ]
}

fn event_tokens() -> impl Strategy<Value = Tokens> {
    let ids = vec(prop_oneof![0u32..300, 0u32..200_000, any::<u32>()], 0..40);
    (ids, any::<bool>()).prop_map(|(ids, bigrams)| match ids.len() {
        2.. if bigrams => Tokens::Bigrams(ids.windows(2).map(|pair| [pair[0], pair[1]]).collect()),
        _ => Tokens::Ids(ids),
    })
}

fn key() -> impl Strategy<Value = ExtraKey> {
    prop_oneof![
        "\\PC{0,20}".prop_map(ExtraKey::Text),
        ("[0-9a-f]{8}", any::<i64>()).prop_map(|(id, offset)| ExtraKey::Item { id, offset }),
        vec(any::<u8>(), 0..40).prop_map(ExtraKey::Bytes),
        Just(ExtraKey::Unknown(vec![0x92, 0xc0, 0x07])),
    ]
}

fn word() -> impl Strategy<Value = Option<String>> {
    option::of("\\PC{0,40}")
}

/// Negative patterns as signed integers half of the time, as SGLang writes them, and unsigned as vLLM does.
fn hash(out: &mut Out, hash: &EngineHash) {
    match hash {
        EngineHash::Word(word) if word % 2 == 0 => sint(out, word.cast_signed()),
        EngineHash::Word(word) => uint(out, *word),
        EngineHash::Digest(bytes) => write_bin(out, bytes).expect("memory"),
    }
}

fn tokens(out: &mut Out, tokens: &Tokens) {
    match tokens {
        Tokens::Ids(ids) => list(out, ids, id),
        Tokens::Bigrams(pairs) => list(out, pairs, |out, pair| list(out, pair, id)),
    }
}

/// Some ids wider than they need be: a decoder may not depend on the shortest form.
fn id(out: &mut Out, id: &u32) {
    match id % 7 {
        0 => write_u64(out, (*id).into()).expect("memory"),
        1 if *id < 0x100 => write_u8(out, id.to_be_bytes()[3]).expect("memory"),
        _ => uint(out, (*id).into()),
    }
}

fn extra_key(out: &mut Out, key: &ExtraKey) {
    match key {
        ExtraKey::Text(key) => text(out, key),
        ExtraKey::Bytes(bytes) => write_bin(out, bytes).expect("memory"),
        ExtraKey::Unknown(value) => out.extend(value),
        ExtraKey::Item { id, offset } => {
            write_array_len(out, 2).expect("memory");
            text(out, id);
            sint(out, *offset);
        }
    }
}

fn list<T>(out: &mut Out, items: &[T], write: impl Fn(&mut Out, &T)) {
    write_array_len(out, length(items)).expect("memory");
    items.iter().for_each(|item| write(out, item));
}

fn list_of_lists<T>(out: &mut Out, lists: &[Vec<T>], write: impl Fn(&mut Out, &T)) {
    list(out, lists, |out, items| list(out, items, &write));
}

fn write_optional<T>(out: &mut Out, value: Option<T>, write: impl FnOnce(&mut Out, T)) {
    match value {
        Some(value) => write(out, value),
        None => write_nil(out).expect("memory"),
    }
}

fn optional_text(out: &mut Out, value: Option<&String>) {
    write_optional(out, value, |out, value| text(out, value));
}

fn text(out: &mut Out, value: &str) {
    write_str(out, value).expect("memory");
}

fn uint(out: &mut Out, value: u64) {
    write_uint(out, value).expect("memory");
}

fn sint(out: &mut Out, value: i64) {
    write_sint(out, value).expect("memory");
}

fn length<T>(items: &[T]) -> u32 {
    items.len().try_into().expect("few items")
}

const MAP_ONLY: [&str; 3] = ["cache_salt", "lookahead_token_ids", "component_types"];
const TIMESTAMP_S: f64 = 1.5;
