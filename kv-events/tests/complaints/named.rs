//! Complaints that no other test is about.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use kv_events::relay::{Next, Options, Relay};
use kv_events::{Event, Loss, Predictor, Stored, Stream, StreamOptions};
use kv_index::{ChainIndex, Digest, Index, Matches, Namespace, ReferenceIndex, View};

use crate::build::{Rank, batch, removal, store, tokens};
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

/// D18: a worker is removed while requests are under way that have found it, and are about to ask more of it or to let it go.
/// Nothing panics, the worker has nothing any more, its successor inherits nothing, and the others are as they were.
#[test]
fn a_worker_that_is_removed_during_a_request_takes_nothing_with_it() {
    let index = ChainIndex::new();
    let prompt = tokens(1, 5);
    let told = batch([store(&[1, 2, 3, 4], None, prompt[..16].to_vec()).into()]);
    let mut stays = Stream::new(index.add_worker().unwrap(), StreamOptions::default());
    stays.apply(&told);
    let (profile, mut request) = (stays.profile().clone(), Vec::new());
    profile.scheme.expect("a store came").hash_prompt(Namespace::default(), &prompt, &mut request);
    let (is_over, found_two) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut matches, mut predictor) = (Matches::new(), Predictor::new());
                while !is_over.load(Ordering::Relaxed) {
                    index.find(&request, &mut matches);
                    assert_eq!(matches.depth(stays.worker(), View::MAIN), 4, "who stays is found");
                    found_two.fetch_or(matches.into_iter().count() > 1, Ordering::Relaxed);
                    // By now the worker may be gone. A request goes on asking, and ends.
                    for row in &matches {
                        let blocks = predictor.predict(&index, row.worker, &profile, &request, prompt.len()).blocks;
                        assert!(blocks == 4 || row.worker != stays.worker() && blocks < 4, "{blocks}");
                        index.for_each_holding(row.worker, &mut |held| assert!((1..=4).contains(&held.name.0)));
                    }
                }
            });
        }
        for round in 0.. {
            let mut leaves = Stream::new(index.add_worker().unwrap(), StreamOptions::default());
            assert_eq!(index.digest(leaves.worker(), View::MAIN), Digest::default(), "it inherits nothing");
            leaves.apply(&told);
            thread::yield_now();
            let id = leaves.worker();
            drop(leaves);
            assert_eq!(index.digest(id, View::MAIN), Digest::default());
            if round > 300 && (found_two.load(Ordering::Relaxed) || round > 1_000_000) {
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(found_two.into_inner(), "requests met the worker that leaves");
    assert_eq!(index.digest(stays.worker(), View::MAIN).count, 4);
}
