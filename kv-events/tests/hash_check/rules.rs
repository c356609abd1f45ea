//! What is called matched, mismatched and unverifiable, block by block.

use kv_events::engine_hash::vllm::{Algorithm, Block, DEFAULT_SEED, Digest, ExtraKey as Key, KeyForm};
use kv_events::{Batch, EngineHash, Event, ExtraKey, HashCheck, HashCounts, Hashing, Stored, Tokens};

const CBOR: Algorithm = Algorithm::Sha256Cbor;

fn cbor() -> Hashing {
    Hashing::vllm(CBOR, DEFAULT_SEED).unwrap()
}

fn root() -> Digest {
    CBOR.root(DEFAULT_SEED).unwrap()
}

/// A store of blocks of four tokens that an engine would call so.
fn store(parent: Option<Digest>, tokens: &[u32], digests: &[Digest]) -> Stored {
    Stored {
        hashes: digests.iter().map(|digest| EngineHash::Word(digest.event_word())).collect(),
        parent: parent.map(|parent| EngineHash::Word(parent.event_word())),
        tokens: Tokens::Ids(tokens.to_vec()),
        block_size: 4,
        ..Stored::default()
    }
}

/// The digests of `tokens` behind `parent`.
fn chain(parent: Digest, tokens: &[u32]) -> Vec<Digest> {
    let step = |parent: &mut Digest, page: &[u32]| {
        *parent = CBOR.block(parent, &Block::of(page)).unwrap();
        Some(*parent)
    };
    tokens.chunks(4).scan(parent, step).collect()
}

fn observe(check: &mut HashCheck, store: Stored) -> (u64, u64, u64) {
    let before = *check.counts();
    check.observe(&Batch { events: vec![Event::from(store)], ..Batch::default() }, None);
    let HashCounts { matched, mismatched, unverifiable, .. } = *check.counts();
    (matched - before.matched, mismatched - before.mismatched, unverifiable - before.unverifiable)
}

const TOKENS: [u32; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

/// The pins of the specification, section 12.
#[test]
fn the_pinned_hashes_match() {
    let words = |words: &[i64]| words.iter().map(|word| EngineHash::from(*word)).collect();
    let mut vllm = HashCheck::new(cbor());
    let hashes: Vec<EngineHash> = words(&[-8_885_242_862_429_187_823, -3_153_830_497_298_837_583]);
    assert_eq!(observe(&mut vllm, Stored { hashes, ..store(None, &TOKENS[..8], &[]) }), (2, 0, 0));
    let mut sglang = HashCheck::new(Hashing::Sglang);
    let hashes = words(&[-3_488_128_144_981_237_669, 5_674_439_469_042_975_057]);
    assert_eq!(observe(&mut sglang, Stored { hashes, ..store(None, &TOKENS[..8], &[]) }), (2, 0, 0));
    let hashes = words(&[3_718_046_898_735_569_995, 3_308_615_664_605_479_373]);
    let salted = Stored { hashes, cache_salt: Some("tenant-a".into()), ..store(None, &TOKENS[..8], &[]) };
    assert_eq!(observe(&mut sglang, salted.clone()), (2, 0, 0));
    let unsalted = Stored { cache_salt: None, ..salted };
    assert_eq!(observe(&mut sglang, unsalted), (0, 1, 1), "a salt that is not shown");
    let pairs = Tokens::Bigrams(vec![[1, 2], [2, 3], [3, 4], [4, 5]]);
    let bigrams = Stored { tokens: pairs, hashes: words(&[-638_950_109_823_820_341]), ..store(None, &[], &[]) };
    assert_eq!(observe(&mut sglang, bigrams.clone()), (1, 0, 0));
    assert_eq!(observe(&mut vllm, bigrams), (0, 0, 1), "vLLM sends none");
}

#[test]
fn a_mismatch_is_counted_where_something_differs_first() {
    let (mut check, blocks) = (HashCheck::new(cbor()), chain(root(), &TOKENS));
    let mut other = TOKENS;
    other[5] = 99;
    assert_eq!(observe(&mut check, store(None, &other, &blocks)), (1, 1, 1), "the second of three blocks");
    let first = check.counts().first.unwrap();
    assert_eq!((first.is_root, first.got, first.actual), (false, blocks[1].event_word(), None));
    assert_eq!(check.counts().mismatched_roots, 0);
    // Behind a block that is not what it is called, nothing is known.
    assert_eq!(observe(&mut check, store(Some(blocks[1]), &TOKENS[8..], &blocks[2..])), (0, 0, 1));
}

#[test]
fn stores_are_continued_from_what_was_stored_before() {
    let (mut check, blocks) = (HashCheck::new(cbor()), chain(root(), &TOKENS));
    assert_eq!(observe(&mut check, store(Some(blocks[0]), &TOKENS[4..8], &blocks[1..2])), (0, 0, 1), "an unknown parent");
    assert_eq!(observe(&mut check, store(None, &TOKENS[..8], &blocks[..2])), (2, 0, 0));
    assert_eq!(observe(&mut check, store(Some(blocks[1]), &TOKENS[8..], &blocks[2..])), (1, 0, 0));
    check.restart();
    assert_eq!(observe(&mut check, store(Some(blocks[1]), &TOKENS[8..], &blocks[2..])), (0, 0, 1), "another process'");
}

/// Defect 7: a digest is not lost with the first of two removals, nor with a repeated store: removals change nothing here.
// #7.
#[test]
fn further_copies_and_removals_change_nothing() {
    let (mut check, blocks) = (HashCheck::new(cbor()), chain(root(), &TOKENS));
    let first = || store(None, &TOKENS[..4], &blocks[..1]);
    assert_eq!((observe(&mut check, first()), observe(&mut check, first())), ((1, 0, 0), (1, 0, 0)));
    let removal = kv_events::Removed { hashes: first().hashes, ..kv_events::Removed::default() };
    check.observe(&Batch { events: vec![removal.into()], ..Batch::default() }, None);
    assert_eq!(observe(&mut check, store(Some(blocks[0]), &TOKENS[4..8], &blocks[1..2])), (1, 0, 0));
}

#[test]
fn an_event_with_whole_digests_needs_no_memory_of_its_parent() {
    let (mut check, blocks) = (HashCheck::new(cbor()), chain(root(), &TOKENS));
    let whole = |digest: &Digest| EngineHash::Digest(digest.as_bytes().into());
    let told = Stored { hashes: vec![whole(&blocks[2])], parent: Some(whole(&blocks[1])), ..store(None, &TOKENS[8..], &[]) };
    assert_eq!(observe(&mut check, told.clone()), (1, 0, 0));
    let mut bytes = blocks[2].as_bytes().to_vec();
    bytes[0] ^= 1;
    let other = Stored { hashes: vec![EngineHash::Digest(bytes.into())], ..told };
    assert_eq!(observe(&mut check, other), (0, 1, 0), "all of a digest counts, not only its last eight bytes");
}

/// Releases write keys in three ways, and events show none of it.
#[test]
fn the_form_of_keys_is_learned_from_a_block_that_has_some() {
    for form in [KeyForm::Tagged, KeyForm::IdAndOffset] {
        let mut check = HashCheck::new(cbor());
        let keyed = |key| CBOR.block(&root(), &Block { keys: &[key], form, ..Block::of(&TOKENS[..4]) }).unwrap();
        let with = |digest, key| Stored { extra_keys: Some(vec![vec![key]]), ..store(None, &TOKENS[..4], &[digest]) };
        let salted = with(keyed(Key::CacheSalt("s")), ExtraKey::Text("s".into()));
        assert_eq!(observe(&mut check, salted), (1, 0, 0), "{form:?}");
        let image = with(keyed(Key::Multimodal { id: "i", offset: -2 }), ExtraKey::Item { id: "i".into(), offset: -2 });
        assert_eq!(observe(&mut check, image.clone()), (1, 0, 0), "{form:?}");
        let moved = Stored { extra_keys: Some(vec![vec![ExtraKey::Item { id: "i".into(), offset: -1 }]]), ..image.clone() };
        assert_eq!(observe(&mut check, moved), (0, 1, 0));
        let unknown = Stored { extra_keys: Some(vec![vec![ExtraKey::Unknown(vec![5])]]), ..image };
        assert_eq!(observe(&mut check, unknown), (0, 0, 1), "a key of a shape that no release here has");
    }
}

#[test]
fn a_lora_matches_where_its_name_is_hashed_and_says_nothing_where_its_path_is() {
    let block = |path, form| {
        let keys = [Key::Lora { name: "ad", path }];
        CBOR.block(&root(), &Block { keys: &keys, form, ..Block::of(&TOKENS[..4]) }).unwrap()
    };
    let told = |digest| Stored { lora_name: Some("ad".into()), ..store(None, &TOKENS[..4], &[digest]) };
    assert_eq!(observe(&mut HashCheck::new(cbor()), told(block(None, KeyForm::IdAndOffset))), (1, 0, 0));
    assert_eq!(observe(&mut HashCheck::new(cbor()), told(block(Some("/a"), KeyForm::Tagged))), (0, 0, 1));
}

#[test]
fn blocks_of_a_window_group_are_found_at_the_end_of_what_they_span() {
    let (mut check, blocks) = (HashCheck::new(cbor()), chain(root(), &TOKENS));
    assert_eq!(observe(&mut check, store(None, &TOKENS, &blocks[1..])), (2, 0, 0));
    let mut check = HashCheck::new(cbor());
    assert_eq!(observe(&mut check, store(None, &TOKENS, &blocks[..1])), (0, 0, 1), "which one is listed is not said");
    let coarse = Stored { block_size: 8, ..store(None, &TOKENS[..8], &blocks[1..2]) };
    check.observe(&Batch { events: vec![coarse.into()], ..Batch::default() }, Some(4));
    assert_eq!(check.counts().matched, 1, "a longer block is called as the last of its parts");
}

#[test]
fn a_hash_covers_the_tokens_behind_its_block_where_the_engine_looks_ahead() {
    let lookahead = |at: usize| CBOR.block(&root(), &Block { lookahead: &TOKENS[at..=at], ..Block::of(&TOKENS[..4]) }).unwrap();
    let told = Stored { lookahead: Some(vec![vec![5]]), ..store(None, &TOKENS[..4], &[lookahead(4)]) };
    assert_eq!(observe(&mut HashCheck::new(cbor()), told.clone()), (1, 0, 0));
    assert_eq!(observe(&mut HashCheck::new(cbor()), Stored { lookahead: Some(vec![vec![6]]), ..told }), (0, 1, 0));
}

#[test]
fn what_makes_no_blocks_is_unverifiable_and_nothing_panics() {
    let blocks = chain(root(), &TOKENS);
    for hashing in [cbor(), Hashing::Sglang] {
        let mut check = HashCheck::new(hashing);
        let whole = || store(None, &TOKENS, &blocks);
        let placeholder = Stored { tokens: Tokens::default(), block_size: 0, ..whole() };
        assert_eq!(observe(&mut check, placeholder), (0, 0, 3));
        assert_eq!(observe(&mut check, Stored { block_size: u32::MAX, ..whole() }), (0, 0, 3));
        assert_eq!(observe(&mut check, Stored { block_size: 5, ..whole() }), (0, 0, 3));
        assert_eq!(observe(&mut check, Stored { tokens: Tokens::Ids(vec![1; 4]), ..whole() }), (0, 0, 3));
        assert_eq!(observe(&mut check, Stored { hashes: Vec::new(), ..whole() }), (0, 0, 0));
        let lookahead = Some(vec![Vec::new(), vec![1; 9]]);
        assert_eq!(
            observe(&mut check, Stored { lookahead, hashes: whole().hashes[..1].to_vec(), block_size: 12, ..whole() }).0,
            0
        );
    }
}
