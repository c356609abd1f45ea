//! Which engine speaks, and what its wire cannot say: recognised from the stream itself.
//!
//! An index is exact only as far as the wire tells everything that makes two blocks different. Where it does not, the
//! stream carries a [`Caveat`], and requests that it concerns are not called exact. Nothing is dropped for it.

use std::collections::BTreeSet;
use std::fmt;

use crate::engine_hash::sglang;
use crate::normalize::shows_salt;
use crate::{Event, Layout, Stored, Tokens};

/// The engine whose event layout a stream has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// vLLM 0.9 and later.
    Vllm,
    /// SGLang 0.4.6 and later.
    Sglang,
    /// TokenSpeed.
    TokenSpeed,
    /// TensorRT-LLM's own JSON, or Dynamo's publisher in front of it.
    TensorRtLlm,
}

/// Something that the wire does not say, or says in a way that cannot be indexed exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Caveat {
    /// No store has come yet whose layout and hashes tell the engine.
    NotRecognised,
    /// SGLang before 0.5.6: names are hashes of a page alone, the same at every depth, and parents are missing or wrong.
    PositionFreeNames,
    /// SGLang 0.5.6 to 0.5.8, which one wire cannot tell apart: 0.5.6 forgets the blocks of a node that it splits.
    ForgetsOnSplit,
    /// The release has no field for a salt, or has shown none yet and may have none.
    SaltNotShown,
    /// The release has no field for the name of a LoRA or of another namespace, or has shown none yet and may have none.
    NamespaceNotShown,
    /// Several cache groups, and no word of what each keeps; or a word that is not known here.
    GroupsWithoutKinds,
    /// Stores of another block size, or of other windows, than the first of the stream or of their group: they could not be
    /// placed, or the blocks between their names count as not held.
    MixedSchemes,
    /// An EAGLE drafter over a hybrid model: which groups it looks ahead in is not announced, and vLLM drops a block in those only.
    DraftGroupsNotShown,
    /// SGLang's stores tell which component's cache (a sliding window's, a recurrent state's) they fill; all count as full
    /// attention here, and the engine may reuse less.
    ComponentsNotScored,
}

/// What a caveat puts in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Every request.
    Stream,
    /// Requests with a salt, and those that share content with one.
    Salted,
    /// Requests with a LoRA or another namespace, and those that share content with one.
    Namespaced,
}

impl Caveat {
    /// What it puts in doubt.
    pub const fn scope(self) -> Scope {
        match self {
            Self::SaltNotShown => Scope::Salted,
            Self::NamespaceNotShown => Scope::Namespaced,
            _ => Scope::Stream,
        }
    }

    /// The caveat's name in metrics and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotRecognised => "not_recognised",
            Self::PositionFreeNames => "position_free_names",
            Self::ForgetsOnSplit => "forgets_on_split",
            Self::SaltNotShown => "salt_not_shown",
            Self::NamespaceNotShown => "namespace_not_shown",
            Self::GroupsWithoutKinds => "groups_without_kinds",
            Self::MixedSchemes => "mixed_schemes",
            Self::DraftGroupsNotShown => "draft_groups_not_shown",
            Self::ComponentsNotScored => "components_not_scored",
        }
    }
}

impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Dialect {
    /// The engine's name in metrics and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::TokenSpeed => "tokenspeed",
            Self::TensorRtLlm => "tensorrt-llm",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the stores of a stream have shown so far.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "four things that were seen or not, each by itself")]
pub(crate) struct Evidence {
    dialect: Option<Dialect>,
    layout: Layout,
    /// A page at a root had `CPython`'s hash of its tokens alone for a name.
    position_free_names: bool,
    salt_shown: bool,
    lora_shown: bool,
    /// A store named a component other than full attention.
    components_shown: bool,
    /// The store by which the engine was recognised, cut to its first block.
    sample: Option<Box<Stored>>,
}

impl Evidence {
    /// Takes in what one event shows. Cheap once the stream is recognised.
    pub(crate) fn observe(&mut self, event: &Event) {
        let Event::Stored(store) = event else { return };
        self.salt_shown |= store.cache_salt.is_some();
        self.lora_shown |= store.lora_name.is_some();
        self.components_shown |= store.components.iter().any(|component| component != "full");
        if self.dialect.is_none() && !store.tokens.is_empty() {
            self.layout = store.layout;
            self.dialect = self.recognise(store);
            self.sample = self.dialect.map(|_| Box::new(first_block(store)));
        }
    }

    /// A store that shows all of this again to whoever has seen nothing, once the engine is recognised. Where only the hash of a
    /// page tells the engine, it lists that page.
    pub(crate) fn sample(&self) -> Option<Stored> {
        let mut sample = (**self.sample.as_ref()?).clone();
        sample.cache_salt = self.salt_shown.then(String::new).filter(|_| self.tells_salt(&sample));
        sample.lora_name = self.lora_shown.then(String::new);
        sample.components = self.components_shown.then(|| "swa".into()).into_iter().collect();
        Some(sample)
    }

    /// Whether the engine stays the same when a salt is shown beside `sample`.
    fn tells_salt(&self, sample: &Stored) -> bool {
        let salted = Stored { cache_salt: Some(String::new()), ..sample.clone() };
        Self::default().recognise(&salted) == self.dialect
    }

    pub(crate) fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// What the wire leaves open.
    pub(crate) fn caveats(&self) -> BTreeSet<Caveat> {
        match self.dialect {
            None => BTreeSet::from([Caveat::NotRecognised]),
            Some(Dialect::Vllm) => self.vllm(),
            Some(Dialect::Sglang) => self.sglang(),
            Some(Dialect::TokenSpeed) => BTreeSet::from([Caveat::SaltNotShown, Caveat::NamespaceNotShown]),
            Some(Dialect::TensorRtLlm) => BTreeSet::new(),
        }
    }

    fn recognise(&mut self, store: &Stored) -> Option<Dialect> {
        match store.layout {
            Layout::Json => Some(Dialect::TensorRtLlm),
            Layout::Array(..=5) => Some(Dialect::TokenSpeed),
            Layout::Map if store.group.is_some() => Some(Dialect::Vllm),
            Layout::Map if store.medium.is_none() => Some(Dialect::TensorRtLlm),
            Layout::Map => Some(Dialect::Sglang),
            Layout::Array(_) if store.cache_salt.is_some() || !store.components.is_empty() => Some(Dialect::Sglang),
            Layout::Array(6 | 7) => self.recognise_by_hash(store),
            Layout::Array(_) => Some(Dialect::Vllm),
        }
    }

    /// Old vLLM and old SGLang have the same slots; the hash of a page at a root tells them apart.
    fn recognise_by_hash(&mut self, store: &Stored) -> Option<Dialect> {
        let Tokens::Ids(tokens) = &store.tokens else { return Some(Dialect::Sglang) };
        let name = store.hashes.first()?.name().0;
        let page = tokens.get(..tokens.len() / store.hashes.len())?;
        self.position_free_names = name == sglang::legacy_page(page);
        if self.position_free_names || name == sglang::Chain::root(None).next(page).event_word() {
            return Some(Dialect::Sglang);
        }
        // A page inside a prompt proves nothing about a chained hash.
        store.parent.is_none().then_some(Dialect::Vllm)
    }

    fn vllm(&self) -> BTreeSet<Caveat> {
        let mut caveats = BTreeSet::new();
        if !shows_salt(self.layout) {
            caveats.insert(Caveat::SaltNotShown);
        }
        // The adapter's name came with the eighth slot.
        if matches!(self.layout, Layout::Array(..=7)) {
            caveats.insert(Caveat::NamespaceNotShown);
        }
        caveats
    }

    fn sglang(&self) -> BTreeSet<Caveat> {
        let mut caveats = BTreeSet::new();
        if self.position_free_names {
            caveats.insert(Caveat::PositionFreeNames);
        } else if self.layout == Layout::Array(6) {
            caveats.insert(Caveat::ForgetsOnSplit);
        }
        // 0.5.18 shows a salt, in arrays where there is one; 0.5.22 shows the LoRA, in maps where there is one.
        if self.layout != Layout::Map && !self.salt_shown {
            caveats.insert(Caveat::SaltNotShown);
        }
        if !self.lora_shown {
            caveats.insert(Caveat::NamespaceNotShown);
        }
        if self.components_shown {
            caveats.insert(Caveat::ComponentsNotScored);
        }
        caveats
    }
}

/// What of a store tells the engine.
fn first_block(store: &Stored) -> Stored {
    let by_hash = matches!(store.layout, Layout::Array(6 | 7)) && !store.hashes.is_empty();
    let (hashes, units) = if by_hash { (1, store.tokens.len() / store.hashes.len()) } else { (0, 1) };
    let tokens = match &store.tokens {
        Tokens::Ids(ids) => Tokens::Ids(ids[..units].to_vec()),
        Tokens::Bigrams(pairs) => Tokens::Bigrams(pairs[..units].to_vec()),
    };
    Stored {
        hashes: store.hashes[..hashes].to_vec(),
        parent: store.parent.clone(),
        tokens,
        block_size: store.block_size,
        medium: store.medium.clone(),
        group: store.group,
        kind: store.kind.clone(),
        window: store.window,
        layout: store.layout,
        ..Stored::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineHash;

    const PAGE: [u32; 4] = [1, 2, 3, 4];

    fn store(layout: Layout, name: u64) -> Stored {
        let (hashes, tokens) = (vec![EngineHash::Word(name)], Tokens::Ids(PAGE.to_vec()));
        Stored { hashes, tokens, block_size: 4, layout, medium: Some("GPU".into()), ..Stored::default() }
    }

    fn seen(store: Stored) -> (Option<Dialect>, Vec<Caveat>) {
        let mut evidence = Evidence::default();
        evidence.observe(&store.into());
        (evidence.dialect(), evidence.caveats().into_iter().collect())
    }

    fn chained() -> u64 {
        sglang::Chain::root(None).next(&PAGE).event_word()
    }

    #[test]
    fn the_hash_of_a_root_page_tells_old_sglang_from_old_vllm() {
        use Caveat::{ForgetsOnSplit, NamespaceNotShown, PositionFreeNames, SaltNotShown};
        let (array, sglang) = (Layout::Array(6), Some(Dialect::Sglang));
        assert_eq!(seen(store(array, 77)), (Some(Dialect::Vllm), vec![SaltNotShown, NamespaceNotShown]));
        assert_eq!(seen(store(array, chained())), (sglang, vec![ForgetsOnSplit, SaltNotShown, NamespaceNotShown]));
        let legacy = sglang::legacy_page(&PAGE);
        assert_eq!(seen(store(array, legacy)), (sglang, vec![PositionFreeNames, SaltNotShown, NamespaceNotShown]));
        assert_eq!(seen(store(Layout::Array(7), chained())), (sglang, vec![SaltNotShown, NamespaceNotShown]));
    }

    #[test]
    fn a_page_inside_a_prompt_proves_nothing() {
        let inner = Stored { parent: Some(EngineHash::Word(5)), ..store(Layout::Array(7), 77) };
        assert_eq!(seen(inner), (None, vec![Caveat::NotRecognised]));
    }

    #[test]
    fn maps_and_long_arrays_are_told_by_their_fields() {
        let grouped = Stored { group: Some(0), ..store(Layout::Map, 77) };
        assert_eq!(seen(grouped), (Some(Dialect::Vllm), vec![]));
        assert_eq!(seen(store(Layout::Map, chained())), (Some(Dialect::Sglang), vec![Caveat::NamespaceNotShown]));
        let dynamo = Stored { medium: None, ..store(Layout::Map, 77) };
        assert_eq!(seen(dynamo), (Some(Dialect::TensorRtLlm), vec![]));
        let salted = Stored { cache_salt: Some("a".into()), ..store(Layout::Array(8), 77) };
        assert_eq!(seen(salted).0, Some(Dialect::Sglang));
        assert_eq!(seen(store(Layout::Array(8), 77)), (Some(Dialect::Vllm), vec![Caveat::SaltNotShown]));
        assert_eq!(seen(store(Layout::Array(12), 77)), (Some(Dialect::Vllm), vec![]));
        assert_eq!(seen(store(Layout::Array(5), 77)).0, Some(Dialect::TokenSpeed));
    }

    #[test]
    fn the_first_root_page_of_several_in_one_store_tells_too() {
        let pages = Stored {
            hashes: vec![EngineHash::Word(chained()), EngineHash::Word(9)],
            tokens: Tokens::Ids((1..=8).collect()),
            ..store(Layout::Array(7), 0)
        };
        assert_eq!(seen(pages).0, Some(Dialect::Sglang));
    }

    #[test]
    fn an_engine_once_recognised_stays_recognised() {
        let mut evidence = Evidence::default();
        evidence.observe(&store(Layout::Array(7), chained()).into());
        evidence.observe(&store(Layout::Array(7), 77).into());
        assert_eq!(evidence.dialect(), Some(Dialect::Sglang));
    }

    #[test]
    fn a_caveat_goes_when_the_wire_shows_what_it_said_was_hidden() {
        use Caveat::{NamespaceNotShown, SaltNotShown};
        let sglang = Stored { cache_salt: Some("a".into()), ..store(Layout::Array(8), chained()) };
        assert_eq!(seen(sglang), (Some(Dialect::Sglang), vec![NamespaceNotShown]));
        let named = Stored { lora_name: Some("ad1".into()), ..store(Layout::Map, chained()) };
        assert_eq!(seen(named).1, []);
        assert_eq!(seen(store(Layout::Array(7), 77)), (Some(Dialect::Vllm), vec![SaltNotShown, NamespaceNotShown]));
        assert_eq!(seen(store(Layout::Array(5), 77)), (Some(Dialect::TokenSpeed), vec![SaltNotShown, NamespaceNotShown]));
    }

    #[test]
    fn components_that_are_not_scored_are_labelled() {
        let with = |components: &[&str]| Stored {
            components: components.iter().map(|&component| component.into()).collect(),
            ..store(Layout::Array(8), chained())
        };
        let caveats = vec![Caveat::SaltNotShown, Caveat::NamespaceNotShown];
        assert_eq!(seen(with(&["full"])), (Some(Dialect::Sglang), caveats.clone()));
        assert_eq!(seen(with(&["full", "swa"])).1, [caveats, vec![Caveat::ComponentsNotScored]].concat());
    }

    #[test]
    fn a_sample_shows_all_of_it_again() {
        let salted = |store: Stored| Stored { cache_salt: Some("a".into()), ..store };
        let pages = Stored {
            hashes: vec![EngineHash::Word(chained()), EngineHash::Word(9)],
            tokens: Tokens::Ids((1..=8).collect()),
            ..store(Layout::Array(7), 0)
        };
        let bigrams = Stored { tokens: Tokens::Bigrams(vec![[1, 2], [2, 3]]), ..store(Layout::Array(7), 5) };
        let streams = [
            vec![store(Layout::Array(6), 77)],
            vec![store(Layout::Array(6), chained()), salted(store(Layout::Array(6), 8))],
            vec![store(Layout::Array(6), sglang::legacy_page(&PAGE))],
            vec![pages],
            vec![bigrams],
            vec![salted(store(Layout::Array(8), 77)), Stored { lora_name: Some("ad".into()), ..store(Layout::Array(8), 8) }],
            vec![store(Layout::Array(12), 77), salted(store(Layout::Array(12), 8))],
            vec![Stored { group: Some(0), ..store(Layout::Map, 77) }],
            vec![Stored { medium: None, ..store(Layout::Map, 77) }],
            vec![store(Layout::Map, 7), Stored { components: vec!["swa".into()], ..store(Layout::Map, 8) }],
            vec![store(Layout::Array(5), 77)],
        ];
        for stores in streams {
            let (mut first, mut second) = (Evidence::default(), Evidence::default());
            stores.iter().cloned().for_each(|store| first.observe(&store.into()));
            second.observe(&first.sample().unwrap().into());
            assert_eq!((second.dialect(), second.caveats()), (first.dialect(), first.caveats()), "{stores:?}");
        }
        assert_eq!(Evidence::default().sample(), None);
    }

    #[test]
    fn every_caveat_has_a_scope_and_a_name_of_its_own() {
        use Caveat::*;
        let all = [
            NotRecognised,
            PositionFreeNames,
            ForgetsOnSplit,
            SaltNotShown,
            NamespaceNotShown,
            GroupsWithoutKinds,
            MixedSchemes,
            ComponentsNotScored,
        ];
        assert_eq!(all.iter().map(|caveat| caveat.as_str()).collect::<BTreeSet<_>>().len(), all.len());
        let some = all.map(Caveat::scope).into_iter().filter(|scope| *scope != Scope::Stream).collect::<Vec<_>>();
        assert_eq!(some, [Scope::Salted, Scope::Namespaced]);
    }
}
