//! The order of the tests, the reasons for losses, and what becomes of a store.

use std::num::NonZeroU32;
use std::sync::Arc;

use kv_events::namespace::Namespaces;
use kv_events::normalize::{Change, Normalized, Normalizer};
use kv_events::{Cleared, Event, ExtraKey, Layout, Loss, Removed, Stored, Tiers, Tokens};
use kv_index::{Block, BlockName, Item, Namespace, Scheme};

use crate::build::{BLOCK, Rank, batch, hashes, host_placeholder, removal, store, tokens};

fn normalize(events: impl IntoIterator<Item = Event>) -> Normalized {
    let known: Event = store(&[90], None, tokens(90, 1)).into();
    let mut normalizer = Normalizer::new(Tiers::SERVED, None);
    normalizer.normalize(&batch([known]), &Namespaces::default());
    normalizer.normalize(&batch(events), &Namespaces::default())
}

fn losses(event: impl Into<Event>) -> Vec<(Loss, u64)> {
    let normalized = normalize([event.into()]);
    assert_eq!(normalized.changes, []);
    normalized.losses.iter().collect()
}

fn blocks(events: impl IntoIterator<Item = Event>) -> Vec<Vec<Block>> {
    let changes = normalize(events).changes;
    changes.into_iter().filter_map(|change| if let Change::Store { blocks, .. } = change { Some(blocks) } else { None }).collect()
}

fn scheme() -> Scheme {
    Scheme::plain(NonZeroU32::new(BLOCK).unwrap())
}

fn content(tokens: &[u32]) -> kv_index::ContentHash {
    scheme().hash_block(Namespace::default().seed(), tokens, &[])
}

#[test]
fn each_reason_for_a_loss_is_counted_as_itself() {
    let plain = || store(&[1], None, tokens(1, 1));
    let medium = |word: &str| Stored { medium: Some(word.into()), ..plain() };
    assert_eq!(losses(Stored { ownership: Some("KVCR".into()), ..plain() }), [(Loss::UnsupportedOwnership, 1)]);
    assert_eq!(losses(Stored { locality: Some("REMOTE".into()), ..plain() }), [(Loss::NonLocalLocality, 1)]);
    assert_eq!(losses(Stored { locality: Some("brand_new".into()), ..plain() }), [(Loss::NonLocalLocality, 1)]);
    assert_eq!(losses(medium("SOMETHING_NEW")), [(Loss::UnknownMedium, 1)]);
    assert_eq!(losses(medium("STORAGE")), [(Loss::UnservedTier, 1)]);
    let kind = |word: &str| Stored { group: Some(7), kind: Some(word.into()), ..plain() };
    assert_eq!(losses(kind("cross_attention")), [(Loss::UnscoredGroup, 1)]);
    assert_eq!(losses(kind("brand_new")), [(Loss::UnscoredGroup, 1)]);
    assert_eq!(losses(Stored { hashes: vec![], ..plain() }), [(Loss::Placeholder, 1)]);
    assert_eq!(losses(Stored { block_size: 0, ..plain() }), [(Loss::UnalignedBlocks, 1)]);
    assert_eq!(losses(Stored { block_size: 3, ..plain() }), [(Loss::UnalignedBlocks, 1)]);
    assert_eq!(losses(store(&[1, 2], None, tokens(1, 1))), [(Loss::UnalignedBlocks, 1)]);
    assert_eq!(losses(store(&[1, 2], None, tokens(1, 3)[..10].to_vec())), [(Loss::UnalignedBlocks, 1)]);
    assert_eq!(losses(store(&[1], None, tokens(1, 1)[..3].to_vec())), [(Loss::UnalignedBlocks, 1)]);
    assert_eq!(losses(store(&[1, 1], None, tokens(1, 2))), [(Loss::SelfReferencingHashes, 1)]);
    assert_eq!(losses(store(&[1, 5], Some(5), tokens(1, 2))), [(Loss::SelfReferencingHashes, 1)]);
    let kvcr = Some("kvcr".to_owned());
    assert_eq!(losses(Removed { ownership: kvcr.clone(), ..removal(&[1]) }), [(Loss::UnsupportedOwnership, 1)]);
    assert_eq!(losses(Removed { locality: Some("REMOTE".into()), ..removal(&[1]) }), [(Loss::NonLocalLocality, 1)]);
    assert_eq!(losses(Removed { medium: Some("DISK".into()), ..removal(&[1]) }), [(Loss::UnservedTier, 1)]);
    assert_eq!(losses(Event::Cleared(Cleared { ownership: kvcr })), [(Loss::UnsupportedOwnership, 1)]);
    assert_eq!(losses(Removed { group: Some(9), ..removal(&[1]) }), [(Loss::UnknownBlock, 1)]);
}

#[test]
fn tests_come_in_the_order_of_the_rules() {
    let all_wrong =
        Stored { ownership: Some("kvcr".into()), locality: Some("REMOTE".into()), hashes: vec![], ..Stored::default() };
    assert_eq!(losses(all_wrong.clone()), [(Loss::UnsupportedOwnership, 1)]);
    assert_eq!(losses(Stored { ownership: None, ..all_wrong }), [(Loss::NonLocalLocality, 1)]);
}

// #22.
#[test]
fn a_store_that_lists_less_than_it_spans_names_its_last_blocks() {
    let tokens = tokens(1, 3);
    let steps = [Block::step(content(&tokens[..4])), Block::step(content(&tokens[4..8]))];
    let named = Block::named(BlockName(1), content(&tokens[8..]));
    assert_eq!(blocks([store(&[1], None, tokens.clone()).into()]), [[steps[0], steps[1], named]]);
}

#[test]
fn a_window_group_is_placed_by_the_full_group_of_its_batch() {
    let window = |names: &[u64]| Stored {
        group: Some(1),
        kind: Some("sliding_window".into()),
        window: Some(8),
        ..store(names, None, tokens(1, 4))
    };
    let full: Event = store(&[1, 2, 3, 4], None, tokens(1, 4)).into();
    let names = |events: [Event; 2]| blocks(events)[0].iter().map(|block| block.name.map(|name| name.0)).collect::<Vec<_>>();
    // Before the full group's store, as vLLM sends them, and with blocks that are not the last.
    assert_eq!(names([window(&[2, 3]).into(), full.clone()]), [None, Some(2), Some(3)]);
    assert_eq!(names([window(&[1, 4]).into(), full.clone()]), [Some(1), None, None, Some(4)]);
    // A hash that the full group does not list, or lists in another order: the tail.
    assert_eq!(names([window(&[2, 9]).into(), full.clone()]), [None, None, Some(2), Some(9)]);
    assert_eq!(names([window(&[3, 2]).into(), full]), [None, None, Some(3), Some(2)]);
}

#[test]
fn without_a_full_group_each_window_group_lists_its_last_blocks() {
    let window = |group, names: &[u64]| Stored {
        group: Some(group),
        kind: Some("sliding_window".into()),
        window: Some(8),
        ..store(names, None, tokens(1, 4))
    };
    let stores = blocks([window(1, &[3]).into(), window(2, &[3, 4]).into()]);
    let names: Vec<Vec<_>> =
        stores.iter().map(|blocks| blocks.iter().map(|block| block.name.map(|name| name.0)).collect()).collect();
    assert_eq!(names, [[None, None, None, Some(3)], [None, None, Some(3), Some(4)]]);
}

#[test]
fn a_window_group_takes_the_salt_that_only_the_full_group_shows() {
    let salted =
        Stored { extra_keys: Some(vec![vec![ExtraKey::Text("a".into())], vec![]]), ..store(&[1, 2], None, tokens(1, 2)) };
    let window =
        Stored { group: Some(1), kind: Some("sliding_window".into()), window: Some(8), ..store(&[2], None, tokens(1, 2)) };
    let changes = blocks([window.into(), salted.into()]);
    assert_eq!(changes[0][1], changes[1][1]);
    assert_ne!(changes[0][1].content, content(&tokens(1, 2)[4..]));
}

#[test]
fn of_two_ranges_of_equal_tokens_a_window_group_belongs_to_the_one_that_lists_its_names() {
    let full = |names: &[u64], salt: &str| Stored {
        extra_keys: Some(vec![vec![ExtraKey::Text(salt.into())], vec![]]),
        ..store(names, None, tokens(1, 2))
    };
    let window = |name: u64| Stored {
        group: Some(1),
        kind: Some("sliding_window".into()),
        window: Some(8),
        ..store(&[name], None, tokens(1, 2))
    };
    let stores = blocks([window(12).into(), window(22).into(), full(&[11, 12], "a").into(), full(&[21, 22], "b").into()]);
    assert_eq!((stores[0][1], stores[1][1]), (stores[2][1], stores[3][1]));
    assert_ne!(stores[0][1].content, stores[1][1].content);
}

#[test]
fn a_child_takes_the_salt_of_the_full_group_whatever_group_came_last() {
    let mut rank = Rank::default();
    let prompt = tokens(1, 3);
    let salted =
        Stored { extra_keys: Some(vec![vec![ExtraKey::Text("a".into())], vec![]]), ..store(&[1, 2], None, prompt[..8].to_vec()) };
    let window = Stored {
        group: Some(1),
        kind: Some("sliding_window".into()),
        window: Some(4),
        ..store(&[2], None, prompt[..8].to_vec())
    };
    let child = |group, kind: &str| Stored {
        group: Some(group),
        kind: Some(kind.into()),
        window: Some(4),
        ..store(&[3], Some(2), prompt[8..].to_vec())
    };
    rank.apply([salted.into(), window.into(), child(0, "full_attention").into(), child(1, "sliding_window").into()]);
    let mut longer = prompt.clone();
    longer.push(7);
    assert_eq!(rank.predict_in(Namespace { lora: None, salt: Some("a") }, &longer).blocks, 3);
}

#[test]
fn a_coarse_group_takes_its_places_from_a_finer_one() {
    // The image is told to the block that it lies in, which a coarse block does not name.
    let image = ExtraKey::Item { id: "img".into(), offset: 1 };
    let full = Stored { extra_keys: Some(vec![vec![image.clone()], vec![]]), ..store(&[1, 2], None, tokens(1, 2)) };
    let state = Stored {
        group: Some(2),
        kind: Some("mamba".into()),
        block_size: 2 * BLOCK,
        extra_keys: Some(vec![vec![image]]),
        ..store(&[2], None, tokens(1, 2))
    };
    let stores = blocks([state.into(), full.into()]);
    assert_eq!(
        stores[0].iter().map(|block| block.content).collect::<Vec<_>>(),
        stores[1].iter().map(|block| block.content).collect::<Vec<_>>()
    );
    assert_eq!(stores[0].iter().map(|block| block.name).collect::<Vec<_>>(), [None, Some(BlockName(2))]);
}

#[test]
fn placing_a_batch_of_sparse_stores_takes_one_step_for_each() {
    // Each searched for among all others, these would be 10^10 comparisons, and the test would not end.
    let full = (0..100_000).map(|name| Event::from(store(&[2 * name, 2 * name + 1], None, tokens(1, 2))));
    let sparse = (0..100_000).map(|name| Event::from(store(&[1_000_000 + name], None, tokens(2, 2))));
    assert_eq!(normalize(full.chain(sparse)).changes.len(), 200_000);
}

#[test]
fn a_coarse_block_is_its_fine_steps_the_last_of_them_named() {
    let state =
        Stored { group: Some(2), kind: Some("mamba".into()), block_size: 2 * BLOCK, ..store(&[8, 9], None, tokens(1, 4)) };
    let names: Vec<_> = blocks([state.into()])[0].iter().map(|block| block.name.map(|name| name.0)).collect();
    assert_eq!(names, [None, Some(8), None, Some(9)]);
}

#[test]
fn a_partial_last_block_is_left_out_and_counted() {
    let mut short = tokens(1, 3);
    short.truncate(10);
    let normalized = normalize([store(&[1, 2, 3], None, short).into()]);
    assert_eq!(normalized.losses.count(Loss::UnalignedBlocks), 1);
    let Change::Store { blocks, .. } = &normalized.changes[0] else { panic!("two whole blocks are stored") };
    assert_eq!(blocks.iter().map(|block| block.name).collect::<Vec<_>>(), [Some(BlockName(1)), Some(BlockName(2))]);
}

#[test]
fn bigrams_are_hashed_in_the_windows_that_a_request_is_hashed_in() {
    let prompt: Vec<u32> = (1..=9).collect();
    let pairs: Vec<[u32; 2]> = prompt.windows(2).map(|pair| [pair[0], pair[1]]).collect();
    let mut rank = Rank::default();
    rank.apply([Stored { tokens: Tokens::Bigrams(pairs), kind: None, group: None, ..store(&[1, 2], None, vec![]) }.into()]);
    assert_eq!(rank.stream.profile().scheme, Some(Scheme { lookahead_tokens: 1, ..scheme() }));
    assert_eq!(rank.reused(&prompt), 2);
    // The fifth token is part of the first block: folding pairs to first elements would find one block here.
    assert_eq!(rank.reused(&[1, 2, 3, 4, 99, 6, 7, 8, 9]), 0);
}

#[test]
fn pairs_that_do_not_overlap_are_no_windows() {
    let mut rank = Rank::default();
    let pairs = Tokens::Bigrams(vec![[1, 2], [2, 3], [9, 4], [4, 5]]);
    rank.apply([Stored { tokens: pairs, kind: None, group: None, ..store(&[1], None, vec![]) }.into()]);
    assert_eq!((rank.reused(&[1, 2, 9, 4, 5]), rank.stream.counts().losses.count(Loss::UnalignedBlocks)), (0, 1));
}

#[test]
fn lookahead_tokens_are_part_of_a_blocks_content() {
    let lookahead = Some(vec![vec![5], vec![9]]);
    let mut rank = Rank::default();
    rank.apply([Stored { lookahead, ..store(&[1, 2], None, (1..=8).collect()) }.into()]);
    assert_eq!(rank.reused(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), 2);
    assert_eq!(rank.reused(&[1, 2, 3, 4, 5, 6, 7, 8, 10]), 1);
}

#[test]
fn images_make_a_block_different_and_embeddings_unreachable() {
    let keyed = |key| Stored { extra_keys: Some(vec![vec![key]]), ..store(&[1], None, tokens(1, 1)) };
    let image = keyed(ExtraKey::Item { id: "img".into(), offset: -2 });
    let item = Item::Multimodal { id: "img", offset: -2 };
    assert_eq!(blocks([image.into()])[0][0].content, scheme().hash_block(Namespace::default().seed(), &tokens(1, 1), &[item]));
    assert_ne!(blocks([keyed(ExtraKey::Bytes(vec![1])).into()])[0][0].content, content(&tokens(1, 1)));
}

#[test]
fn salt_and_lora_pass_from_parent_to_child_and_not_beyond_a_clear() {
    let mut rank = Rank::default();
    let prompt = tokens(1, 4);
    let keys = Some(vec![vec![ExtraKey::Text("ad1".into()), ExtraKey::Text("tenant".into())]]);
    let first = Stored { extra_keys: keys, lora_name: Some("ad1".into()), ..store(&[1], None, prompt[..4].to_vec()) };
    let child = |name, parent, block: usize| store(&[name], Some(parent), prompt[block * 4..block * 4 + 4].to_vec());
    // In one batch, and in the next.
    rank.apply([first.into(), child(2, 1, 1).into()]);
    rank.apply([child(3, 2, 2).into()]);
    let salted = Namespace { lora: Some("ad1"), salt: Some("tenant") };
    assert_eq!(rank.predict_in(salted, &prompt).blocks, 3);
    assert_eq!(rank.predict_in(Namespace { salt: None, ..salted }, &prompt).blocks, 0);
    rank.apply([Event::Cleared(Cleared::default()), store(&[1], None, prompt[..4].to_vec()).into(), child(2, 1, 1).into()]);
    assert_eq!((rank.predict_in(salted, &prompt).blocks, rank.reused(&prompt)), (0, 2));
}

#[test]
fn a_salt_stands_at_a_prompts_first_block_only() {
    let mut rank = Rank::default();
    let keys = |texts: [&str; 2]| Some(texts.iter().map(|text| vec![ExtraKey::Text((*text).into())]).collect());
    rank.apply([Stored { extra_keys: keys(["a", "b"]), ..store(&[1, 2], None, tokens(1, 2)) }.into()]);
    let mut longer = tokens(1, 2);
    longer.push(7);
    let salted = Namespace { lora: None, salt: Some("a") };
    assert_eq!(rank.predict_in(salted, &longer).blocks, 1, "what the second block's text is, no request can say");
    let empty = normalize([Stored { extra_keys: keys(["", "b"]), ..store(&[1, 2], None, tokens(1, 2)) }.into()]);
    assert!(matches!(&empty.changes[..], [Change::Store { namespace: None, .. }]), "an empty salt is none");
}

#[test]
fn a_block_that_is_stored_again_without_a_salt_has_none_to_pass_on() {
    let salted = |name| Stored { cache_salt: Some("a".into()), ..store(&[name], None, tokens(1, 1)) };
    let (base, child) = (|name| store(&[name], None, tokens(1, 1)), |parent| store(&[9], Some(parent), tokens(2, 1)));
    let prompt = [tokens(1, 1), tokens(2, 1)].concat();
    let mut rank = Rank::default();
    rank.apply([salted(1).into(), base(1).into(), child(1).into()]);
    assert_eq!(rank.reused(&prompt), 2, "within a batch");
    let mut rank = Rank::default();
    rank.apply([salted(1).into()]);
    rank.apply([base(1).into()]);
    rank.apply([child(1).into()]);
    assert_eq!(rank.reused(&prompt), 2, "over batches");
}

#[test]
fn what_is_gone_passes_no_salt_on() {
    let salted = Stored { cache_salt: Some("a".into()), ..store(&[1], None, tokens(1, 1)) };
    let orphan = store(&[2], Some(1), tokens(2, 1));
    let prompt = [tokens(1, 1), tokens(2, 1)].concat();
    for cleared in [false, true] {
        let mut rank = Rank::default();
        rank.apply([salted.clone().into()]);
        if cleared {
            rank.stream.clear();
        } else {
            rank.apply([removal(&[1]).into()]);
        }
        rank.apply([orphan.clone().into()]);
        rank.apply([store(&[1], None, tokens(1, 1)).into()]);
        assert_eq!(rank.reused(&prompt), 2, "cleared: {cleared}");
    }
}

#[test]
fn a_chain_in_one_namespace_keeps_it_once() {
    let salted = |name, parent, salt: Option<&str>| Stored {
        cache_salt: salt.map(Into::into),
        ..store(&[name], parent, tokens(u32::try_from(name).unwrap(), 1))
    };
    let said_again = salted(3, Some(2), Some("a"));
    let changes = normalize([salted(1, None, Some("a")).into(), salted(2, Some(1), None).into(), said_again.into()]).changes;
    let shared =
        changes.iter().filter_map(|change| if let Change::Store { namespace, .. } = change { namespace.as_ref() } else { None });
    assert_eq!(shared.clone().count(), 3);
    assert!(shared.clone().skip(1).all(|namespace| Arc::ptr_eq(namespace, shared.clone().next().unwrap())));
}

#[test]
fn a_lora_that_only_a_number_shows_is_matched_by_no_request() {
    let mut rank = Rank::default();
    rank.apply([Stored { lora_id: Some(3), layout: Layout::Array(7), ..store(&[1], None, tokens(1, 1)) }.into()]);
    assert_eq!(rank.reused(&tokens(1, 1)), 0);
}

#[test]
fn cpythons_hash_of_nothing_is_the_root() {
    let mut rank = Rank::default();
    let root = Some(5_740_354_900_026_072_187);
    rank.apply([Stored { group: None, kind: None, layout: Layout::Array(6), ..store(&[1], root, tokens(1, 1)) }.into()]);
    assert_eq!(rank.reused(&tokens(1, 1)), 1);
}

#[test]
fn stores_without_tokens_are_announced_by_name() {
    let changes = normalize([host_placeholder(&[5, 6]).into()]).changes;
    assert!(matches!(&changes[..], [Change::Announce { names, .. }] if *names == [BlockName(5), BlockName(6)]));
}

#[test]
fn the_groups_are_known_across_a_clear() {
    let mut normalizer = Normalizer::new(Tiers::SERVED, None);
    let window =
        Stored { group: Some(1), kind: Some("sliding_window".into()), window: Some(8), ..store(&[1], None, tokens(1, 1)) };
    let full = store(&[1], None, tokens(1, 1));
    normalizer.normalize(&batch([window.into(), full.into(), Event::Cleared(Cleared::default())]), &Namespaces::default());
    // A removal of the window group must not pass for one of the main group's.
    let removed = normalizer.normalize(&batch([Removed { group: Some(1), ..removal(&[1]) }.into()]), &Namespaces::default());
    let kinds: Vec<_> = normalizer.groups().collect();
    assert!(
        matches!(removed.changes[0], Change::Remove { group, .. } if kinds.iter().any(|known| known.0 == group && !known.1.kind.is_main()))
    );
}

#[test]
fn full_digests_and_their_last_words_are_one_block() {
    let digest = [vec![9u8; 24], 5u64.to_be_bytes().to_vec()].concat();
    let full = Stored { hashes: vec![kv_events::EngineHash::Digest(digest.into())], ..store(&[], None, tokens(1, 1)) };
    let mut rank = Rank::default();
    rank.apply([full.into(), Removed { hashes: hashes(&[5]), ..removal(&[]) }.into()]);
    assert_eq!(rank.stream.counts().removed, 1);
}
