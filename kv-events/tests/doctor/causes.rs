//! One scene for each cause, and one for none.

use std::num::NonZeroU32;
use std::time::Duration;

use kv_events::doctor::Cause;
use kv_events::engine_hash::vllm::{Algorithm, DEFAULT_SEED};
use kv_events::limits::{EVIDENCE_MIN, SILENCE_MIN};
use kv_events::{EngineHash, Event, Hashing, Stored, StreamOptions, Tokens};

use crate::scene::{BLOCK, Prompt, Scene};

#[expect(clippy::cast_possible_truncation, reason = "a small number")]
const ENOUGH: u32 = EVIDENCE_MIN as u32;

fn checking() -> StreamOptions {
    let hashing = Hashing::vllm(Algorithm::Sha256Cbor, DEFAULT_SEED).unwrap();
    StreamOptions { hashing: Some(hashing), ..StreamOptions::default() }
}

fn stored(prompt: &Prompt) -> Event {
    prompt.stored().into()
}

/// An engine that does everything right, under load: prompts come twice, and the first time nothing is cached.
fn serve(scene: &mut Scene, families: u32) {
    for family in 0..families {
        let prompt = Prompt::new(family, 3);
        scene.answer(&prompt, 0);
        scene.hear(&[stored(&prompt)]);
        scene.answer(&prompt, u64::from(2 * BLOCK));
        if family % 4 == 3 {
            scene.hear(&[prompt.removed().into()]);
        }
    }
}

#[test]
fn an_engine_that_is_well_has_nothing() {
    let mut scene = Scene::new(checking());
    serve(&mut scene, 40);
    scene.now = Duration::from_secs(10_000);
    scene.pool_blocks = Some(1000);
    assert_eq!(scene.causes(), []);
}

/// P48, D13: an engine that never publishes is not just one with a low hit rate.
#[test]
fn never_heard() {
    let mut scene = Scene::new(StreamOptions::default());
    (0..ENOUGH - 1).for_each(|family| scene.answer(&Prompt::new(family, 3), 0));
    assert_eq!(scene.causes(), []);
    scene.answer(&Prompt::new(0, 3), 8);
    assert_eq!(scene.causes(), [Cause::NeverHeard]);
}

#[test]
fn fell_silent() {
    let mut scene = Scene::new(StreamOptions::default());
    serve(&mut scene, 8);
    assert_eq!(scene.causes(), []);
    (100..100 + ENOUGH).for_each(|family| scene.answer(&Prompt::new(family, 3), 0));
    assert_eq!(scene.causes(), [], "it may be about to announce them");
    scene.now += SILENCE_MIN;
    assert_eq!(scene.causes(), [Cause::FellSilent]);
    scene.hear(&[stored(&Prompt::new(100, 3))]);
    assert_eq!(scene.causes(), []);
    scene.now += 10 * SILENCE_MIN;
    (0..ENOUGH).for_each(|_| scene.answer(&Prompt::new(100, 3), 12));
    assert_eq!(scene.causes(), [], "who has everything cached has nothing to announce");
}

/// P15: events of an unknown form are not just an empty index.
#[test]
fn unreadable() {
    let mut scene = Scene::new(StreamOptions::default());
    (0..ENOUGH).for_each(|_| scene.hear_bytes(b"\x93\xca\0\0\0\0\x91\x92\xaaBlockMoved\x01\x00"));
    assert_eq!(scene.causes(), [Cause::Unreadable]);
    let mut scene = Scene::new(StreamOptions::default());
    serve(&mut scene, 80);
    (0..ENOUGH).for_each(|_| scene.hear_bytes(b"\x93\xca\0\0\0\0\x91\x92\xaaBlockMoved\x01\x00"));
    assert_eq!(scene.causes(), [], "a few among many are a newer release's");
}

/// P22: another PYTHONHASHSEED.
#[test]
fn hashing_differs() {
    let mut scene = Scene::new(checking());
    (0..3).for_each(|family| scene.hear(&[Prompt::new(family, 3).stored_by("0").into()]));
    assert_eq!(scene.causes(), [Cause::HashingDiffers]);
}

#[test]
fn roots_differ() {
    let mut scene = Scene::new(checking());
    serve(&mut scene, 8);
    let hidden = Stored { extra_keys: None, ..Prompt::new(50, 3).salted("tenant").stored() };
    scene.hear(&[hidden.into()]);
    assert_eq!(scene.causes(), [Cause::RootsDiffer]);
}

#[test]
fn chains_differ() {
    let mut scene = Scene::new(checking());
    let mut told = Prompt::new(50, 3).stored();
    let Tokens::Ids(tokens) = &mut told.tokens else { unreachable!() };
    tokens[5] += 1;
    scene.hear(&[told.into()]);
    assert_eq!(scene.causes(), [Cause::ChainsDiffer]);
}

/// P13: a router that starts late is told of children only.
#[test]
fn parents_unknown() {
    let mut scene = Scene::new(checking());
    let (prompt, long) = (Prompt::new(1, 12), Prompt::new(1, 12).stored());
    let child = Stored {
        hashes: long.hashes[3..].to_vec(),
        parent: Some(long.hashes[2].clone()),
        tokens: Tokens::Ids(prompt.tokens[3 * BLOCK as usize..].to_vec()),
        ..long.clone()
    };
    scene.hear(&[stored(&Prompt::new(2, 3))]);
    scene.miss();
    scene.hear(&[child.into()]);
    assert_eq!(scene.causes(), [Cause::ParentsUnknown]);
    scene.hear(&[long.into()]);
    assert_eq!(scene.causes(), [], "the parent came");
}

/// D20: block sizes that differ under one name.
#[test]
fn blocks_differ() {
    let mut scene = Scene::new(StreamOptions::default());
    serve(&mut scene, 2);
    let other = Prompt::new(50, 3);
    let six = Stored { block_size: 6, hashes: other.stored().hashes[..2].to_vec(), ..other.stored() };
    scene.hear(&[six.into()]);
    assert_eq!(scene.causes(), [Cause::BlocksDiffer]);
}

/// D20: a block size in the settings that is not the engine's.
#[test]
fn request_blocks_differ() {
    let fixed = StreamOptions { block_tokens: NonZeroU32::new(6), ..StreamOptions::default() };
    let mut scene = Scene::new(fixed);
    (0..ENOUGH).for_each(|family| scene.hear(&[stored(&Prompt::new(family, 3))]));
    assert_eq!(scene.causes(), [Cause::RequestBlocksDiffer]);
}

#[test]
fn removals_missing_by_the_size_of_the_pool() {
    let mut scene = Scene::new(StreamOptions::default());
    scene.pool_blocks = Some(30);
    (0..10).for_each(|family| scene.hear(&[stored(&Prompt::new(family, 3))]));
    assert_eq!(scene.causes(), []);
    scene.hear(&[stored(&Prompt::new(10, 3))]);
    assert_eq!(scene.causes(), [Cause::RemovalsMissing]);
}

#[test]
fn removals_missing_by_what_is_predicted_in_vain() {
    let mut scene = Scene::new(StreamOptions::default());
    (0..ENOUGH).for_each(|family| scene.hear(&[stored(&Prompt::new(family, 3))]));
    (0..ENOUGH / 2).for_each(|family| scene.answer(&Prompt::new(family, 3), u64::from(2 * BLOCK)));
    assert_eq!(scene.causes(), []);
    (ENOUGH / 2..ENOUGH).for_each(|family| scene.answer(&Prompt::new(family, 3), 0));
    assert_eq!(scene.causes(), [Cause::RemovalsMissing], "half of it was evicted, and nobody said so");
    scene.hear(&[Prompt::new(0, 3).removed().into()]);
    assert_eq!(scene.causes(), [], "this engine does say what it removes");
}

/// P23: a salt that only the requests show. An array of seven slots has no place for one.
#[test]
fn salt_not_shown() {
    let mut scene = Scene::new(StreamOptions::default());
    let old = b"\x93\xca\0\0\0\0\x91\x97\xabBlockStored\x91\x07\xc0\x94\x01\x02\x03\x04\x04\xc0\xa3GPU\x00";
    scene.hear_bytes(old);
    scene.answer(&Prompt::new(1, 3), 0);
    assert_eq!(scene.causes(), []);
    scene.answer(&Prompt::new(1, 3).salted("tenant"), 0);
    assert_eq!(scene.causes(), [Cause::SaltNotShown]);
}

#[test]
fn salt_not_sent() {
    let mut scene = Scene::new(checking());
    for family in 0..ENOUGH {
        scene.hear(&[stored(&Prompt::new(family, 3).salted("proxy"))]);
        scene.answer(&Prompt::new(family, 3), 0);
    }
    assert_eq!(scene.causes(), [Cause::SaltNotSent]);
    scene.answer(&Prompt::new(0, 3).salted("proxy"), 8);
    assert_eq!(scene.causes(), [], "requests have it too");
}

/// P24, P46: the router's tokens are not the engine's.
#[test]
fn tokens_differ() {
    let mut scene = Scene::new(checking());
    for family in 0..ENOUGH {
        let engine = Prompt::new(family, 3);
        let router = Prompt { tokens: engine.tokens[1..].to_vec(), salt: None };
        scene.hear(&[stored(&engine)]);
        scene.answer(&router, u64::from(2 * BLOCK));
    }
    assert_eq!(scene.causes(), [Cause::TokensDiffer]);
}

/// P48: a hit rate of 0 with no error anywhere.
#[test]
fn nothing_reused() {
    let mut scene = Scene::new(checking());
    for family in 0..ENOUGH {
        scene.hear(&[stored(&Prompt::new(family, 3))]);
        scene.answer(&Prompt::new(family, 3), 0);
    }
    assert_eq!(scene.causes(), [Cause::NothingReused]);
}

#[test]
fn nothing_shared() {
    let mut scene = Scene::new(checking());
    for family in 0..8 * ENOUGH {
        assert_eq!(scene.causes(), []);
        scene.answer(&Prompt::new(family, 3), 0);
        scene.hear(&[stored(&Prompt::new(family, 3))]);
    }
    assert_eq!(scene.causes(), [Cause::NothingShared]);
}

#[test]
fn several_causes_are_told_the_gravest_first() {
    let mut scene = Scene::new(checking());
    for family in 0..ENOUGH {
        scene.hear(&[Prompt::new(family, 3).stored_by("0").into()]);
        let orphan =
            Stored { parent: Some(EngineHash::Word(u64::MAX - u64::from(family))), ..Prompt::new(100 + family, 3).stored() };
        scene.hear(&[orphan.into()]);
    }
    assert_eq!(scene.causes(), [Cause::HashingDiffers, Cause::ParentsUnknown]);
}
