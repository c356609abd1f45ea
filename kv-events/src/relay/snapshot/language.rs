//! How an engine says things, as far as its stream has shown it: so that a snapshot says them the same way.

use kv_index::Scheme;

use crate::dialect::Evidence;
use crate::event::Cleared;
use crate::normalize::{GroupId, GroupTable, Normalizer};
use crate::tier::Tier;
use crate::{EngineHash, Event, Layout, Removed, Stored, Tokens};

/// What was learned of an engine's wire.
#[derive(Clone, Debug)]
pub(super) struct Language {
    scheme: Option<Scheme>,
    groups: GroupTable,
    sample: Option<Stored>,
    misfits: bool,
}

impl Language {
    pub(super) fn of(normalizer: &Normalizer, evidence: &Evidence) -> Self {
        Self {
            scheme: normalizer.scheme(),
            groups: normalizer.group_table().clone(),
            sample: evidence.sample(),
            misfits: normalizer.misfits() > 0,
        }
    }

    pub(super) fn scheme(&self) -> Option<Scheme> {
        self.scheme
    }

    /// Units in a block of `group`.
    pub(super) fn block_units(&self, group: GroupId) -> usize {
        let block = self.groups.group(group).block_tokens.get();
        match self.scheme.map(|scheme| scheme.block_tokens.get()) {
            Some(unit) if block.is_multiple_of(unit) => (block / unit) as usize,
            _ => 1,
        }
    }

    /// Whether a store without tokens, which has no kind either, can mean `group`.
    pub(super) fn can_announce(&self, group: GroupId) -> bool {
        self.groups.resolve(self.groups.naming(group).wire) == Some(group)
    }

    /// A store of `group` on `tier` that lists nothing.
    pub(super) fn store(&self, group: GroupId, tier: Tier) -> Stored {
        let naming = self.groups.naming(group);
        Stored {
            block_size: self.groups.group(group).block_tokens.get(),
            medium: self.medium(tier),
            group: naming.wire,
            kind: naming.kind.map(Into::into),
            window: naming.window,
            layout: self.layout(),
            ..Stored::default()
        }
    }

    /// `row` as a store's tokens and lookahead. `ends` are where its listed blocks end.
    pub(super) fn tokens(&self, row: &[u32], ends: impl Iterator<Item = usize>) -> (Tokens, Option<Vec<Vec<u32>>>) {
        let lookahead = self.scheme.map_or(0, |scheme| scheme.lookahead_tokens as usize);
        if lookahead == 1 && self.says_bigrams() {
            return (Tokens::Bigrams(row.windows(2).map(|two| [two[0], two[1]]).collect()), None);
        }
        let own = row.len() - lookahead;
        let behind = (lookahead > 0).then(|| ends.map(|end| row[end..end + lookahead].to_vec()).collect());
        (Tokens::Ids(row[..own].to_vec()), behind)
    }

    /// How many of the groups must be heard of in a batch of their own: those met before the first that keeps whole prompts, where
    /// it was one of them that taught how the stream cuts tokens into units. A reader takes the first that keeps whole prompts
    /// from its first batch, if it has one.
    fn heard_first(&self) -> usize {
        let mut groups = self.groups.iter().map(|(_, group)| group);
        let unit = self.scheme.map(|scheme| scheme.block_tokens);
        let at = groups.position(|group| group.kind.is_main());
        at.filter(|&at| self.groups.iter().nth(at).map(|(_, group)| group.block_tokens) != unit).unwrap_or(0)
    }

    /// Whether the prologue takes two batches.
    pub(super) fn is_long(&self) -> bool {
        self.heard_first() > 0
    }

    /// What a reader must hear before the first block, so that it reads the rest as one does who heard everything: a clear; the
    /// groups, in the order in which they were met, each in a store that lists nothing; and what leaves something open. In one batch,
    /// or in two of which the second is [`prologue_end`](Self::prologue_end).
    pub(super) fn prologue(&self) -> Vec<Event> {
        let mut events = vec![Event::Cleared(Cleared::default())];
        if self.is_long() {
            events.extend(self.teachers().take(self.heard_first()).map(Event::from));
        } else {
            events.extend(self.prologue_end());
        }
        events
    }

    /// A store of each group that lists nothing.
    fn teachers(&self) -> impl Iterator<Item = Stored> + '_ {
        self.groups.iter().map(|(group, _)| self.teacher(self.store(group, Tier::Device)))
    }

    /// `store` with a token to be learned from, and whatever else the engine has shown.
    fn teacher(&self, store: Stored) -> Stored {
        let row = vec![0; self.scheme.map_or(1, |scheme| 1 + scheme.lookahead_tokens as usize)];
        let (tokens, lookahead) = self.tokens(&row, std::iter::once(1));
        let shown = self.sample.clone().unwrap_or_default();
        let Stored { lora_name, cache_salt, components, .. } = shown;
        Stored { tokens, lora_name, cache_salt, lookahead, components, ..store }
    }

    /// The groups that were not heard of, and the rest.
    pub(super) fn prologue_end(&self) -> Vec<Event> {
        let mut events: Vec<Event> = self.teachers().skip(self.heard_first()).map(Event::from).collect();
        let main = self.teachers().next().unwrap_or_else(|| self.teacher(Stored { block_size: 1, ..Stored::default() }));
        if self.groups.has_unscored() {
            events.push(Stored { group: None, kind: Some(UNSCORED.into()), ..main.clone() }.into());
        }
        if let (true, Some(scheme)) = (self.misfits, self.scheme) {
            // A store whose windows are one token longer than the scheme's has no place in it.
            let lookahead = Some(vec![vec![0; scheme.lookahead_tokens as usize + 1]]);
            events.push(Stored { hashes: vec![EngineHash::Word(0)], tokens: Tokens::Ids(vec![0]), lookahead, ..main }.into());
        }
        if let Some(sample) = &self.sample
            && !sample.hashes.is_empty()
        {
            // Only a page's hash tells the engine: the page comes and goes.
            events.push(sample.clone().into());
            let (hashes, medium, group) = (sample.hashes.clone(), sample.medium.clone(), sample.group);
            events.push(Removed { hashes, medium, group, ..Removed::default() }.into());
        }
        events
    }

    fn says_bigrams(&self) -> bool {
        self.sample.as_ref().is_none_or(|sample| matches!(sample.tokens, Tokens::Bigrams(_)))
    }

    fn layout(&self) -> Layout {
        self.sample.as_ref().map_or(Layout::Map, |sample| sample.layout)
    }

    /// An engine that names no medium has one tier only, and is known by it.
    fn medium(&self, tier: Tier) -> Option<String> {
        let word = match tier {
            Tier::Device if self.sample.as_ref().is_some_and(|sample| sample.medium.is_none()) => return None,
            Tier::Device => "GPU",
            Tier::Host => "CPU",
            Tier::Disk => "DISK",
            Tier::External => "EXTERNAL",
        };
        Some(word.into())
    }
}

/// A kind that no release has.
const UNSCORED: &str = "unscored";
