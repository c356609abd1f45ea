//! What a lookup makes of a stream.

use kv_events::{Caveat, Predictor, Removed, Stored, StreamOptions};
use kv_index::{Namespace, Scheme};

use crate::build::{BLOCK, Rank, removal, store, tokens};

#[test]
fn the_last_token_is_always_computed() {
    let mut rank = Rank::default();
    rank.apply([store(&[1, 2], None, tokens(1, 2)).into()]);
    let tokens_of = |prompt: &[u32]| rank.predict_in(Namespace::default(), prompt).tokens;
    let prompt = tokens(1, 2);
    assert_eq!([tokens_of(&prompt), tokens_of(&prompt[..7]), tokens_of(&prompt[..4]), tokens_of(&[])], [4, 4, 0, 0]);
}

#[test]
fn an_engine_that_drops_its_last_block_is_told_by_an_option() {
    let mut rank = Rank::new(StreamOptions { drops_last_block: true, ..StreamOptions::default() });
    rank.apply([store(&[1, 2], None, tokens(1, 2)).into()]);
    assert_eq!((rank.reused(&tokens(1, 2)), rank.reused(&tokens(1, 1)), rank.reused(&tokens(2, 2))), (1, 0, 0));
    // In a hybrid model it drops one in some groups only, and no event says in which.
    let unclear = |rank: &Rank| rank.stream.profile().caveats.contains(&Caveat::DraftGroupsNotShown);
    assert!(!unclear(&rank));
    rank.apply([Stored { group: Some(1), kind: Some("mamba".into()), ..store(&[1], None, tokens(1, 1)) }.into()]);
    assert!(unclear(&rank));
}

#[test]
fn a_hybrid_model_reuses_what_all_groups_allow() {
    let grouped = |group, kind: &str, names: &[u64], blocks| Stored {
        group: Some(group),
        kind: Some(kind.into()),
        window: Some(2 * BLOCK + 1),
        ..store(names, None, tokens(1, blocks))
    };
    let mut rank = Rank::default();
    // The window's store of six blocks lists the last two; its state group saved the state behind block 4.
    let window = grouped(0, "sliding_window", &[5, 6], 6);
    let full = grouped(1, "full_attention", &[1, 2, 3, 4, 5, 6], 6);
    rank.apply([window.into(), full.into()]);
    assert_eq!((rank.reused(&tokens(1, 6)), rank.reused(&tokens(1, 4))), (6, 0));
    rank.apply([grouped(0, "sliding_window", &[3, 4], 4).into()]);
    assert_eq!((rank.reused(&tokens(1, 6)), rank.reused(&tokens(1, 4))), (6, 4));
    rank.apply([Removed { group: Some(0), ..removal(&[6]) }.into()]);
    assert_eq!(rank.reused(&tokens(1, 6)), 5);
    let state = Stored { block_size: 4 * BLOCK, ..grouped(2, "mamba", &[4], 4) };
    rank.apply([state.into()]);
    assert_eq!(rank.reused(&tokens(1, 6)), 4);
    rank.apply([Removed { group: Some(2), ..removal(&[4]) }.into()]);
    assert_eq!(rank.reused(&tokens(1, 6)), 0);
}

#[test]
fn a_request_that_was_cut_short_is_answered_as_far_as_it_goes() {
    let mut rank = Rank::default();
    rank.apply([store(&[1, 2], None, tokens(1, 2)).into()]);
    let (profile, mut request) = (rank.stream.profile().clone(), Vec::new());
    profile.scheme.unwrap().hash_prompt(Namespace::default(), &tokens(1, 2), &mut request);
    let blocks =
        |request: &[_], tokens| Predictor::new().predict(&rank.index, rank.stream.worker(), &profile, request, tokens).blocks;
    assert_eq!([blocks(&request[..1], 900), blocks(&[], 900), blocks(&request, 3)], [1, 0, 0]);
    // Blocks that were cut by another scheme are other content, however many there are.
    Scheme::plain(8.try_into().unwrap()).hash_prompt(Namespace::default(), &tokens(1, 2), &mut request);
    assert_eq!(blocks(&request, 9), 0);
}

#[test]
fn a_stream_of_one_window_group_needs_the_window_only() {
    let window = |window| Stored { kind: Some("sliding_window".into()), window, ..store(&[1, 2, 3, 4], None, tokens(1, 4)) };
    let mut rank = Rank::default();
    rank.apply([window(Some(2 * BLOCK + 1)).into(), removal(&[2]).into()]);
    assert_eq!((rank.reused(&tokens(1, 4)), rank.reused(&tokens(1, 3))), (4, 1));
    let mut rank = Rank::default();
    rank.apply([window(None).into(), removal(&[2]).into()]);
    assert_eq!(rank.reused(&tokens(1, 4)), 1, "a window of unknown length wants all of it");
}

#[test]
fn a_unit_may_be_finer_than_the_engines_blocks() {
    let mut rank = Rank::new(StreamOptions { block_tokens: Some(2.try_into().unwrap()), ..StreamOptions::default() });
    rank.apply([store(&[1, 2], None, tokens(1, 2)).into()]);
    assert_eq!((rank.reused(&tokens(1, 2)), rank.reused(&tokens(1, 2)[..6])), (4, 2), "whole blocks of the engine only");
    assert!(rank.stream.profile().caveats.is_empty());
}
