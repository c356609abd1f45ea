//! Copies, tiers, orphans and views on their way into the index.

use std::collections::BTreeSet;

use kv_events::admission::Findings;
use kv_events::limits::ORPHAN_BLOCKS_MAX;
use kv_events::profile::GroupViews;
use kv_events::{Caveat, Cleared, CopyRule, Event, Loss, Removed, Stored, Stream, StreamOptions, Tier};
use kv_index::{ChainIndex, ChainOptions, Index, View};

use crate::build::{Rank, batch, host_placeholder, removal, store, tokens};

// R3, #7.
#[test]
fn a_block_that_was_stored_twice_needs_two_removals() {
    let mut rank = Rank::default();
    rank.apply([store(&[1, 2], None, tokens(1, 2)).into()]);
    rank.apply([store(&[2], Some(1), tokens(1, 2)[4..].to_vec()).into()]);
    rank.apply([removal(&[2]).into()]);
    assert_eq!(rank.reused(&tokens(1, 2)), 2);
    rank.apply([removal(&[2]).into()]);
    assert_eq!(rank.reused(&tokens(1, 2)), 1);
    let counts = rank.stream.counts();
    assert_eq!((counts.stored, counts.stored_again, counts.removed_copies, counts.removed), (2, 1, 1, 1));
}

// D26, P14.
#[test]
fn a_duplicated_removal_never_reaches_another_copy_count() {
    let mut rank = Rank::default();
    rank.apply([store(&[1], None, tokens(1, 1)).into(), removal(&[1]).into(), removal(&[1]).into()]);
    assert_eq!(rank.stream.counts().losses.count(Loss::UnknownBlock), 1);
    rank.apply([store(&[1], None, tokens(1, 1)).into()]);
    assert_eq!(rank.reused(&tokens(1, 1)), 1);
}

#[test]
fn an_engine_that_announces_again_is_told_by_an_option() {
    let mut rank = Rank::new(StreamOptions { copies: CopyRule::Reannounced, ..StreamOptions::default() });
    rank.apply([store(&[1], None, tokens(1, 1)).into(), store(&[1], None, tokens(1, 1)).into(), removal(&[1]).into()]);
    assert_eq!(rank.reused(&tokens(1, 1)), 0);
}

// P4, #21.
#[test]
fn a_host_copy_known_by_name_keeps_the_block_when_the_device_drops_it() {
    let mut rank = Rank::default();
    rank.apply([store(&[1], None, tokens(1, 1)).into(), host_placeholder(&[1, 77]).into(), removal(&[1]).into()]);
    assert_eq!(rank.reused(&tokens(1, 1)), 1);
    assert_eq!(rank.stream.counts().losses.count(Loss::Placeholder), 1, "nobody holds 77");
    // vLLM's removals name the group, its placeholders do not.
    rank.apply([Removed { medium: Some("cpu".into()), ..removal(&[1]) }.into()]);
    assert_eq!(rank.reused(&tokens(1, 1)), 0);
}

#[test]
fn a_prompt_half_on_the_device_and_half_on_the_host_is_held_whole() {
    let mut rank = Rank::new(StreamOptions { device_views: true, ..StreamOptions::default() });
    let prompt = tokens(1, 4);
    rank.apply([store(&[1, 2], None, prompt[..8].to_vec()).into()]);
    rank.apply([Stored { medium: Some("CPU_PINNED".into()), ..store(&[3, 4], Some(2), prompt[8..].to_vec()) }.into()]);
    assert_eq!(rank.reused(&prompt), 4);
    let device = rank.stream.profile().groups[0].device.unwrap();
    let mut request = Vec::new();
    rank.stream.profile().scheme.unwrap().hash_prompt(kv_index::Namespace::default(), &prompt, &mut request);
    assert_eq!(rank.index.depth(rank.stream.worker(), device, &request), 2);
    // Demotion: the host's copy comes, the device's goes.
    rank.apply([
        Stored { medium: Some("CPU_PINNED".into()), ..store(&[1], None, prompt[..4].to_vec()) }.into(),
        removal(&[1]).into(),
    ]);
    assert_eq!(rank.index.depth(rank.stream.worker(), device, &request), 0);
    assert_eq!(rank.reused(&prompt), 4);
}

#[test]
fn the_device_view_follows_the_devices_copies_only() {
    let mut rank = Rank::new(StreamOptions { device_views: true, ..StreamOptions::default() });
    let on = |medium: &str, names: &[u64]| Stored { medium: Some(medium.into()), ..store(names, None, tokens(1, 1)) };
    let off = |medium: &str| Removed { medium: Some(medium.into()), ..removal(&[1]) };
    rank.apply([on("GPU", &[1]).into(), on("CPU", &[1]).into(), on("GPU", &[1]).into()]);
    let device = rank.stream.profile().groups[0].device.unwrap();
    let held = |rank: &Rank| [View::MAIN, device].map(|view| rank.index.digest(rank.stream.worker(), view).count);
    rank.apply([off("CPU").into()]);
    assert_eq!(held(&rank), [1, 1], "the host's copy went");
    rank.apply([off("GPU").into()]);
    assert_eq!(held(&rank), [1, 1], "one of the device's two copies went");
    rank.apply([off("GPU").into()]);
    assert_eq!(held(&rank), [0, 0]);
}

#[test]
fn stores_that_waited_for_one_parent_apply_in_the_order_in_which_they_came() {
    let mut rank = Rank::default();
    rank.apply([store(&[2], Some(1), tokens(2, 1)).into(), store(&[2], Some(1), tokens(3, 1)).into()]);
    rank.apply([store(&[1], None, tokens(1, 1)).into()]);
    let reused = |second| rank.reused(&[tokens(1, 1), tokens(second, 1)].concat());
    assert_eq!((reused(2), reused(3)), (1, 2), "the latest store of a name wins");
    assert_eq!(rank.stream.counts().waited, 2);
}

#[test]
fn a_store_that_waits_too_long_is_counted() {
    let mut rank = Rank::default();
    let waiting = |name: u64| Event::from(store(&[name], Some(u64::MAX), tokens(1, 1)));
    rank.apply((0..=ORPHAN_BLOCKS_MAX as u64).map(waiting));
    assert_eq!(rank.stream.counts().losses.count(Loss::OrphanExpired), 1);
    assert_eq!(rank.stream.waiting_blocks(), ORPHAN_BLOCKS_MAX + 1, "and the stream says so until it is cleared");
}

#[test]
fn a_second_main_group_has_a_view_of_its_own() {
    let mut rank = Rank::default();
    let second = Stored { group: Some(1), kind: Some("mla_attention".into()), ..store(&[1], None, tokens(1, 1)) };
    rank.apply([store(&[1, 2], None, tokens(1, 2)).into(), second.into()]);
    let views: Vec<View> = rank.stream.profile().groups.iter().map(|group| group.any).collect();
    assert_eq!(views, [View::MAIN, View(1)]);
    assert_eq!(rank.reused(&tokens(1, 2)), 1, "both must hold it");
}

#[test]
fn a_device_copy_known_by_name_only_is_counted_and_not_scored_on_the_device() {
    let mut rank = Rank::new(StreamOptions { device_views: true, ..StreamOptions::default() });
    let on_host = |names: &[u64], tokens| Stored { medium: Some("CPU".into()), ..store(names, None, tokens) };
    rank.apply([on_host(&[1], tokens(1, 1)).into(), store(&[2], None, tokens(2, 1)).into()]);
    rank.apply([Stored { medium: Some("GPU".into()), ..host_placeholder(&[1, 2]) }.into()]);
    assert_eq!((rank.stream.counts().announced, rank.stream.counts().losses.count(Loss::Placeholder)), (2, 1));
    rank.apply([Removed { medium: Some("CPU".into()), ..removal(&[1]) }.into()]);
    assert_eq!(rank.reused(&tokens(1, 1)), 1, "the copy on the device is left");
    rank.apply([removal(&[1]).into(), removal(&[2]).into()]);
    assert_eq!((rank.reused(&tokens(1, 1)), rank.reused(&tokens(2, 1))), (0, 1));
    let device = rank.stream.profile().groups[0].device.unwrap();
    assert_eq!(rank.index.digest(rank.stream.worker(), device).count, 1, "the second copy of block 2");
}

#[test]
fn a_name_that_moves_starts_with_one_copy() {
    let mut rank = Rank::default();
    rank.apply([store(&[1], None, tokens(1, 1)).into(), store(&[1], None, tokens(1, 1)).into()]);
    rank.apply([store(&[1], None, tokens(2, 1)).into()]);
    assert_eq!((rank.reused(&tokens(1, 1)), rank.reused(&tokens(2, 1)), rank.stream.counts().moved), (0, 1, 1));
    rank.apply([removal(&[1]).into()]);
    assert_eq!(rank.reused(&tokens(2, 1)), 0);
}

// P13.
#[test]
fn orphans_wait_for_their_parent_and_are_never_rooted() {
    let mut rank = Rank::default();
    let prompt = tokens(1, 4);
    rank.apply([store(&[4], Some(3), prompt[12..].to_vec()).into(), store(&[2, 3], Some(1), prompt[4..12].to_vec()).into()]);
    assert_eq!((rank.stream.waiting_blocks(), rank.reused(&prompt[4..])), (3, 0));
    assert_eq!(rank.stream.findings(), Findings { waiting_blocks: 3, ..Findings::default() }, "and the stream says so");
    rank.apply([store(&[1], None, prompt[..4].to_vec()).into()]);
    assert_eq!((rank.stream.findings(), rank.reused(&prompt)), (Findings::default(), 4));
}

#[test]
fn an_orphan_that_the_engine_removed_does_not_come_back() {
    let mut rank = Rank::default();
    let prompt = tokens(1, 3);
    rank.apply([store(&[2, 3], Some(1), prompt[4..].to_vec()).into(), removal(&[3]).into()]);
    rank.apply([store(&[1], None, prompt[..4].to_vec()).into()]);
    assert_eq!(rank.reused(&prompt), 2);
    rank.apply([store(&[9], Some(8), tokens(9, 1)).into(), Event::Cleared(Cleared::default())]);
    assert_eq!(rank.stream.waiting_blocks(), 0);
}

// P27, #19.
#[test]
fn one_bad_event_costs_nothing_else_of_its_batch() {
    let mut rank = Rank::default();
    rank.apply([store(&[1], None, tokens(1, 1)).into(), store(&[2, 2], Some(1), tokens(2, 2)).into(), removal(&[1]).into()]);
    assert_eq!((rank.reused(&tokens(1, 1)), rank.stream.counts().losses.total()), (0, 1));
}

#[test]
fn groups_are_held_apart_under_equal_names() {
    let mut rank = Rank::default();
    let window =
        Stored { group: Some(1), kind: Some("sliding_window".into()), window: Some(8), ..store(&[1, 2], None, tokens(1, 2)) };
    rank.apply([window.into(), store(&[1, 2], None, tokens(1, 2)).into()]);
    assert_eq!(rank.reused(&tokens(1, 2)), 2);
    rank.apply([Removed { group: Some(1), ..removal(&[2]) }.into()]);
    let digest = |view| rank.index.digest(rank.stream.worker(), view).count;
    assert_eq!((digest(View::MAIN), digest(View(1))), (2, 1));
    assert_eq!(rank.reused(&tokens(1, 2)), 1, "the window of two blocks lost one; one block back to the start is enough");
}

#[test]
fn several_groups_without_kinds_are_labelled() {
    let mut rank = Rank::default();
    let kindless = |group| Stored { group: Some(group), kind: None, ..store(&[1], None, tokens(1, 1)) };
    rank.apply([kindless(0).into()]);
    assert!(!rank.stream.profile().caveats.contains(&Caveat::GroupsWithoutKinds));
    rank.apply([kindless(1).into()]);
    assert!(rank.stream.profile().caveats.contains(&Caveat::GroupsWithoutKinds));
}

#[test]
fn another_block_size_is_labelled_and_left_out() {
    let mut rank = Rank::default();
    rank.apply([
        store(&[1], None, tokens(1, 1)).into(),
        Stored { block_size: 2, ..store(&[2, 3], Some(1), tokens(2, 1)) }.into(),
    ]);
    assert!(rank.stream.profile().caveats.contains(&Caveat::MixedSchemes));
    assert_eq!(rank.stream.counts().losses.count(Loss::UnalignedBlocks), 1);
}

#[test]
fn a_restarted_engine_may_have_another_block_size_and_other_groups() {
    let mut rank = Rank::new(StreamOptions { device_views: true, ..StreamOptions::default() });
    let prompt = tokens(1, 4);
    let state = |names: &[u64]| Stored { group: Some(1), kind: Some("mamba".into()), ..store(names, None, prompt.clone()) };
    rank.apply([
        store(&[1, 2, 3, 4], None, prompt.clone()).into(),
        state(&[4]).into(),
        store(&[9], Some(8), tokens(9, 1)).into(),
    ]);
    let groups = rank.stream.profile().groups.clone();
    rank.stream.restart();
    assert_eq!(rank.stream.profile().caveats, [Caveat::NotRecognised].into());
    assert_eq!((rank.stream.waiting_blocks(), rank.index.digest(rank.stream.worker(), View::MAIN).count), (0, 0));
    assert!(rank.stream.profile().scheme.is_none() && rank.stream.profile().groups.is_empty());
    // Blocks of eight, and the state group first.
    rank.apply([
        Stored { block_size: 8, ..state(&[6]) }.into(),
        Stored { block_size: 8, ..store(&[5, 6], None, prompt.clone()) }.into(),
    ]);
    assert_eq!((rank.reused(&prompt), rank.stream.counts().losses.total()), (2, 0));
    let views = |groups: &[GroupViews]| groups.iter().flat_map(|group| [Some(group.any), group.device]).collect::<BTreeSet<_>>();
    let again = &rank.stream.profile().groups;
    assert_eq!(views(again), views(&groups), "the views are used again");
    assert_eq!(again.iter().map(|group| group.any == View::MAIN).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_group_of_mixed_block_sizes_is_labelled() {
    let mut rank = Rank::default();
    let prompt = tokens(1, 4);
    rank.apply([store(&[1, 2], None, prompt[..8].to_vec()).into()]);
    assert!(!rank.stream.profile().caveats.contains(&Caveat::MixedSchemes));
    // Twice the size fits the scheme, but only the second unit of the block gets a name.
    rank.apply([Stored { block_size: 8, ..store(&[4], Some(2), prompt[8..].to_vec()) }.into()]);
    assert_eq!(rank.reused(&prompt), 2);
    assert!(rank.stream.profile().caveats.contains(&Caveat::MixedSchemes));
}

#[test]
fn a_group_of_an_unknown_kind_is_labelled_and_left_out() {
    let mut rank = Rank::default();
    let other = Stored { group: Some(1), kind: Some("brand_new".into()), ..store(&[1], None, tokens(1, 1)) };
    rank.apply([store(&[1], None, tokens(1, 1)).into(), other.into()]);
    assert!(rank.stream.profile().caveats.contains(&Caveat::GroupsWithoutKinds), "it may bound what the engine reuses");
    assert_eq!((rank.stream.counts().stored, rank.stream.counts().losses.count(Loss::UnscoredGroup)), (1, 1));
}

#[test]
fn tiers_that_are_not_served_hold_nothing() {
    let mut rank = Rank::default();
    rank.apply([Stored { medium: Some("DISK".into()), ..store(&[1], None, tokens(1, 1)) }.into()]);
    assert_eq!((rank.reused(&tokens(1, 1)), rank.stream.counts().losses.count(Loss::UnservedTier)), (0, 1));
    let served = kv_events::Tiers::of(&[Tier::Device, Tier::Host, Tier::Disk]);
    let mut rank = Rank::new(StreamOptions { served, ..StreamOptions::default() });
    rank.apply([Stored { medium: Some("DISK".into()), ..store(&[1], None, tokens(1, 1)) }.into()]);
    assert_eq!(rank.reused(&tokens(1, 1)), 1);
}

#[test]
fn what_the_index_has_no_room_for_is_counted_until_the_stream_holds_nothing() {
    let index = ChainIndex::with_options(&ChainOptions { budget_bytes: Some(1), ..ChainOptions::default() });
    let mut stream = Stream::new(index.add_worker().unwrap(), StreamOptions::default());
    stream.apply(&batch([store(&[1, 2], None, tokens(1, 2)).into(), store(&[3], Some(2), tokens(3, 1)).into()]));
    let findings = Findings { waiting_blocks: 1, crowded_out: 1, refused: 0 };
    assert_eq!(stream.findings(), findings, "what follows a store without room waits for it");
    stream.apply(&batch([Event::Cleared(Cleared::default())]));
    assert_eq!((stream.crowded_out(), stream.counts().losses.count(Loss::OverBudget)), (0, 1));
}
