//! Updates of any content.

use kv_events::adapter::grpc::{News, Update};
use kv_events::relay::{LoadCore, LoadSample};
use kv_events::{Batch, Cleared, EngineHash, Event, ExtraKey, Incarnation, Layout, Loss, Losses, Removed, Stored, Tokens};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub(crate) fn update() -> impl Strategy<Value = Update> {
    let incarnation = (any::<u64>(), any::<u64>()).prop_map(|(watcher, life)| Incarnation { watcher, life });
    let at = (any::<u32>(), incarnation, 0..u64::MAX, option::of(load()));
    (at, any::<bool>(), news()).prop_map(|((rank, incarnation, sequence, load), doubted, news)| Update {
        rank,
        incarnation,
        sequence,
        doubted,
        load,
        news,
    })
}

fn news() -> impl Strategy<Value = News> {
    let chunk = (any::<[u64; 5]>(), batch()).prop_map(|([index, count, total, unknown_before, lost], batch)| News::Chunk {
        index,
        count,
        total,
        unknown_before,
        lost,
        batch,
    });
    prop_oneof![
        4 => (any::<u64>(), batch()).prop_map(|(missed, batch)| News::Published { missed, batch }),
        4 => chunk,
        1 => any::<bool>().prop_map(|vouched| News::Heartbeat { vouched }),
    ]
}

fn load() -> impl Strategy<Value = LoadSample> {
    let core = (any::<[u32; 2]>(), any::<[u64; 2]>(), 0.0..1.0, 0.0..1e6);
    let telemetry = option::of(vec(("[a-z_]{1,12}", -1e9..1e9), 0..4));
    (core, telemetry, any::<u64>()).prop_map(|((counts, tokens, kv_usage, tokens_per_s), telemetry, sample)| LoadSample {
        core: LoadCore {
            running: counts[0],
            waiting: counts[1],
            queued_tokens: tokens[0],
            window_tokens: tokens[1],
            kv_usage,
            tokens_per_s,
        },
        telemetry: telemetry.map(|all| all.into_iter().map(|(name, value)| (name.into(), value)).collect()),
        sample,
    })
}

fn batch() -> impl Strategy<Value = Batch> {
    let losses = vec((0..Loss::ALL.len(), 1u64..1000), 0..3).prop_map(|all| {
        let mut losses = Losses::default();
        all.into_iter().for_each(|(at, count)| losses.add_many(Loss::ALL[at], count));
        losses
    });
    (-1e12..1e12, option::of(any::<u32>()), vec(event(), 0..5), losses).prop_map(|(timestamp_s, rank, events, losses)| Batch {
        timestamp_s,
        rank,
        events,
        losses,
    })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => stored().prop_map(Event::from),
        2 => (vec(hash(), 0..5), word(), option::of(any::<u32>()), word(), word()).prop_map(
            |(hashes, medium, group, locality, ownership)| Removed { hashes, medium, group, locality, ownership }.into()
        ),
        1 => word().prop_map(|ownership| Event::Cleared(Cleared { ownership })),
    ]
}

fn stored() -> impl Strategy<Value = Stored> {
    let blocks = (vec(hash(), 0..6), option::of(hash()), tokens(), any::<u32>(), layout());
    let names = (option::of(any::<i64>()), word(), word(), option::of(vec(vec(key(), 0..3), 0..3)));
    let places = (word(), option::of(any::<u32>()), word(), option::of(any::<u32>()), word(), word());
    let rest = (option::of(vec(vec(any::<u32>(), 0..3), 0..3)), vec("[a-z]{1,5}", 0..3));
    (blocks, names, places, rest).prop_map(|(blocks, names, places, (lookahead, components))| {
        let (hashes, parent, tokens, block_size, layout) = blocks;
        let (lora_id, lora_name, cache_salt, extra_keys) = names;
        let (medium, group, kind, window, locality, ownership) = places;
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

fn layout() -> impl Strategy<Value = Layout> {
    prop_oneof![Just(Layout::Map), Just(Layout::Json), any::<u8>().prop_map(Layout::Array)]
}

fn hash() -> impl Strategy<Value = EngineHash> {
    prop_oneof![any::<u64>().prop_map(EngineHash::Word), vec(any::<u8>(), 0..65).prop_map(|all| EngineHash::Digest(all.into()))]
}

fn tokens() -> impl Strategy<Value = Tokens> {
    let ids = vec(any::<u32>(), 0..20).prop_map(Tokens::Ids);
    prop_oneof![ids, vec(any::<[u32; 2]>(), 0..20).prop_map(Tokens::Bigrams)]
}

fn key() -> impl Strategy<Value = ExtraKey> {
    prop_oneof![
        "\\PC{0,20}".prop_map(ExtraKey::Text),
        ("[0-9a-f]{8}", any::<i64>()).prop_map(|(id, offset)| ExtraKey::Item { id, offset }),
        vec(any::<u8>(), 0..40).prop_map(ExtraKey::Bytes),
        vec(any::<u8>(), 0..40).prop_map(ExtraKey::Unknown),
    ]
}

fn word() -> impl Strategy<Value = Option<String>> {
    option::of("\\PC{0,30}")
}
