//! Complaints that no other test is about.

use std::time::Duration;

use kv_events::relay::{Next, Options, Relay};
use kv_events::{Event, Loss, Stored, Stream, StreamOptions};
use kv_index::{Index, Namespace, ReferenceIndex};

use crate::build::{Rank, removal, store, tokens};
use crate::encode::payload;

/// R4: a hole that is healed by storing its block alone leaves nothing missing behind it.
#[test]
fn a_hole_is_healed_by_its_own_block() {
    let mut rank = Rank::new(StreamOptions::default());
    let prompt = tokens(1, 5);
    rank.apply([store(&[1, 2, 3, 4], None, prompt[..16].to_vec()).into()]);
    let depth = |rank: &Rank| rank.predict_in(Namespace::default(), &prompt).tokens;
    assert_eq!(depth(&rank), 16);
    rank.apply([removal(&[2]).into()]);
    assert_eq!(depth(&rank), 4);
    rank.apply([store(&[2], Some(1), prompt[4..8].to_vec()).into()]);
    assert_eq!(depth(&rank), 16);
}

/// R6: no name is taken apart, whatever characters it has: neither here nor on its way through a relay.
#[test]
fn a_name_with_separators_is_one_name() {
    let engine = |lora: &str, salt: &str, name, start| Stored {
        lora_name: Some(lora.into()),
        cache_salt: Some(salt.into()),
        group: None,
        kind: None,
        ..store(&[name], None, tokens(start, 1))
    };
    let now = Duration::ZERO;
    let mut relay = Relay::new(now, 1, Options { replays: false, history_batches: 1, ..Options::default() });
    let names = [("m:8b", "default", 1, 1), ("m", "8b:default", 2, 1), ("m:8b:default", "", 3, 1), ("a/b@c", "\"d\"", 4, 2)];
    for (number, (lora, salt, name, start)) in (0..).zip(names) {
        relay.handle_live(now, 0, number, &payload(1.0, &[engine(lora, salt, name, start).into()]));
    }
    let reader = relay.subscribe(now, &[]).unwrap();
    let index = ReferenceIndex::new();
    let mut stream = Stream::new(index.add_worker().unwrap(), StreamOptions::default());
    let Next::Snapshot(snapshot) = relay.poll(now, reader) else { panic!("the window has let the first batches go") };
    snapshot.for_each(|chunk| stream.apply(&chunk.batch));
    let rank = Rank { index, stream };
    for (lora, salt, _, start) in names {
        let held = |lora, salt| {
            let prompt = [tokens(start, 1), vec![0]].concat();
            rank.predict_in(Namespace { lora: Some(lora), salt: Some(salt) }, &prompt).tokens
        };
        assert_eq!((held(lora, salt), held("m:8b:default", "default"), held("8b", "m")), (4, 0, 0), "{lora} {salt}");
    }
}

/// D16: a store that names itself, or its parent, as its own block is counted and does no harm.
#[test]
fn a_store_that_refers_to_itself_does_no_harm() {
    let mut rank = Rank::new(StreamOptions::default());
    let prompt = tokens(1, 3);
    rank.apply([store(&[1], None, prompt[..4].to_vec()).into()]);
    let circles: [Event; 3] = [
        store(&[1], Some(1), prompt[..4].to_vec()).into(),
        store(&[2, 2], Some(1), prompt[4..12].to_vec()).into(),
        store(&[2, 1], Some(1), prompt[4..12].to_vec()).into(),
    ];
    rank.apply(circles);
    rank.apply([store(&[2], Some(1), prompt[4..8].to_vec()).into()]);
    assert_eq!(rank.predict_in(Namespace::default(), &prompt).tokens, 8, "and what comes after is stored");
    assert_eq!(rank.stream.counts().losses.count(Loss::SelfReferencingHashes), 3);
}

/// D19: what waits for a parent is counted in blocks, not in events.
#[test]
fn blocks_and_not_events_are_counted_while_they_wait() {
    let mut rank = Rank::new(StreamOptions::default());
    rank.apply([store(&[2, 3, 4], Some(1), tokens(1, 3)).into(), store(&[6], Some(5), tokens(2, 1)).into()]);
    assert_eq!((rank.stream.counts().waited, rank.stream.findings().waiting_blocks), (4, 4));
}

/// P33: a removal that names a block which is not there removes the others.
#[test]
fn an_absent_block_does_not_stop_a_removal() {
    let mut rank = Rank::new(StreamOptions::default());
    let prompt = tokens(1, 4);
    rank.apply([store(&[1, 2, 3], None, prompt[..12].to_vec()).into(), removal(&[3, 99, 2]).into()]);
    assert_eq!(rank.predict_in(Namespace::default(), &prompt).tokens, 4);
    let counts = rank.stream.counts();
    assert_eq!((counts.removed, counts.losses.count(Loss::UnknownBlock)), (2, 1));
}
