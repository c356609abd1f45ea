//! Messages that no relay of ours sends. One bad event costs that event.

use kv_events::adapter::grpc::limits::UPDATE_BYTES_MAX;
use kv_events::adapter::grpc::proto::kv_events as proto;
use kv_events::adapter::grpc::{MessageError, News, Update};
use kv_events::limits::EVENTS_MAX;
use kv_events::{Batch, EngineHash, Event, Incarnation, Loss, Removed, Stored, Tokens};
use prost::Message;
use prost::bytes::Bytes;

fn published(events: Vec<Event>) -> Update {
    let news = News::Published { missed: 0, batch: Batch { events, ..Batch::default() } };
    Update { rank: 0, incarnation: Incarnation::first(1), sequence: 3, doubted: false, load: None, news }
}

fn removal(name: u64) -> Event {
    Removed { hashes: vec![name.into()], ..Removed::default() }.into()
}

/// The batch of a message whose events are these bytes.
fn read(events: Vec<Bytes>) -> Batch {
    let batch = proto::Batch { events, ..proto::Batch::default() };
    let kind = proto::update::Kind::Published(proto::Published { batch: Some(batch), missed: 0 });
    let message = proto::Update { kind: Some(kind), ..(&published(Vec::new())).into() };
    let message = proto::Update::decode(message.encode_to_vec().as_slice()).unwrap();
    match Update::try_from(message).unwrap().news {
        News::Published { batch, .. } => batch,
        other => panic!("{other:?}"),
    }
}

fn bytes(event: proto::event::Kind) -> Bytes {
    proto::Event { kind: Some(event) }.encode_to_vec().into()
}

fn hashes(words: Vec<u64>) -> proto::Hashes {
    proto::Hashes { words, digests: Vec::new() }
}

/// P27, defect 19: one event that cannot be read costs neither its batch nor the removals in it.
#[test]
fn a_bad_event_costs_itself_only() {
    let good =
        || bytes(proto::event::Kind::Removed(proto::Removed { hashes: Some(hashes(vec![7])), ..proto::Removed::default() }));
    let store = || proto::Stored { hashes: Some(hashes(vec![1])), tokens: vec![1, 2], block_size: 2, ..proto::Stored::default() };
    let stored = |store: proto::Stored| bytes(proto::event::Kind::Stored(store));
    let digest = |at, len| proto::Hashes { words: vec![1], digests: vec![proto::Digest { at, value: vec![0; len] }] };
    let bad = [
        (Bytes::from_static(b"\xff\xff\xff"), Loss::Malformed),
        (Bytes::new(), Loss::UnknownType),
        (stored(proto::Stored { hashes: None, ..store() }), Loss::Malformed),
        (stored(proto::Stored { parent: Some(hashes(vec![])), ..store() }), Loss::Malformed),
        (stored(proto::Stored { parent: Some(hashes(vec![1, 2])), ..store() }), Loss::Malformed),
        (stored(proto::Stored { bigrams: true, tokens: vec![1, 2, 3], ..store() }), Loss::Malformed),
        (stored(proto::Stored { layout: 300, ..store() }), Loss::Malformed),
        (stored(proto::Stored { medium: Some("m".repeat(5000)), ..store() }), Loss::Malformed),
        (stored(proto::Stored { components: vec!["m".repeat(5000)], ..store() }), Loss::Malformed),
        (stored(proto::Stored { hashes: Some(digest(2, 8)), ..store() }), Loss::Malformed),
        (stored(proto::Stored { hashes: Some(digest(u32::MAX, 8)), ..store() }), Loss::Malformed),
        (stored(proto::Stored { hashes: Some(digest(0, 65)), ..store() }), Loss::Malformed),
        (bytes(proto::event::Kind::Removed(proto::Removed::default())), Loss::Malformed),
    ];
    for (at, (event, loss)) in bad.into_iter().enumerate() {
        let batch = read(vec![good(), event, good()]);
        assert_eq!((batch.events, batch.losses.count(loss), batch.losses.total()), (vec![removal(7); 2], 1, 1), "case {at}");
    }
}

#[test]
fn more_events_than_any_batch_has_are_counted() {
    let clear = bytes(proto::event::Kind::Cleared(proto::Cleared::default()));
    let batch = read(vec![clear; EVENTS_MAX + 2]);
    assert_eq!((batch.events.len(), batch.losses.count(Loss::OverLimit)), (EVENTS_MAX, 2));
}

#[test]
fn messages_without_their_head_are_refused() {
    let whole = || proto::Update::from(&published(Vec::new()));
    let refused = |message| Update::try_from(message).unwrap_err();
    assert_eq!(refused(proto::Update { kind: None, ..whole() }), MessageError::Absent("kind"));
    assert_eq!(refused(proto::Update { incarnation: None, ..whole() }), MessageError::Absent("incarnation"));
    assert_eq!(refused(proto::Update { sequence: u64::MAX, ..whole() }), MessageError::Sequence);
    let empty = proto::update::Kind::Chunk(proto::Chunk::default());
    assert_eq!(refused(proto::Update { kind: Some(empty), ..whole() }), MessageError::Absent("batch"));
}

/// Names of one byte in msgpack have eight here. What does not fit goes out empty, and its reader knows.
#[test]
fn a_batch_that_is_too_long_as_a_message_is_told_as_a_loss() {
    let hashes = vec![EngineHash::Word(1); UPDATE_BYTES_MAX / 8];
    let update = published(vec![Stored { hashes, tokens: Tokens::Ids(vec![1]), ..Stored::default() }.into()]);
    let message = proto::Update::from(&update);
    assert!(message.encoded_len() < 200);
    let News::Published { batch, .. } = Update::try_from(message).unwrap().news else { panic!("a batch") };
    assert_eq!((batch.events.len(), batch.losses.count(Loss::OverLimit)), (0, 1));
}
