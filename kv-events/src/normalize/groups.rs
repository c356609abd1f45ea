//! The cache groups of one rank, learned from its stores.

use std::num::NonZeroU32;

use kv_index::reuse::{Group, GroupKind, KindWord, WindowRule};

use crate::Stored;

/// A group's number within its stream: dense, in the order in which groups were met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub u8);

/// What is known of the groups. Kept across clears: a clear empties a cache, it does not change a model. A restart may.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupTable {
    entries: Vec<Entry>,
    /// A store came for a group that is not scored though the engine reuses by it: of a kind not known here, or one too many.
    unscored: bool,
}

/// A group's name on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Naming {
    pub(crate) wire: Option<u32>,
    pub(crate) kind: Option<&'static str>,
    pub(crate) window: Option<u32>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// The group's number on the wire; none while the engine has named none.
    wire: Option<u32>,
    /// Whether the engine said the kind.
    said: bool,
    group: Group,
}

impl GroupTable {
    /// Learns the group of a store with tokens. Nothing for kinds that keep no reusable prefix, and beyond `max` groups.
    pub(crate) fn learn(&mut self, store: &Stored, max: usize) -> Option<GroupId> {
        let block_tokens = NonZeroU32::new(store.block_size)?;
        let Some(kind) = self.kind_of(store) else {
            self.unscored |= store.kind.as_deref().is_some_and(|word| !WITHOUT_PREFIX.contains(&word));
            return None;
        };
        let group = Group { kind, block_tokens };
        let Some(at) = self.find(store, kind) else {
            return self.add(Entry { wire: store.group, said: store.kind.is_some(), group }, max);
        };
        let known = &mut self.entries[at];
        known.wire = known.wire.or(store.group);
        if store.kind.is_some() && !known.said {
            (known.said, known.group) = (true, group);
        }
        Some(id(at))
    }

    /// The group of a store, as far as it was learned.
    pub(crate) fn group_of(&self, store: &Stored) -> Option<GroupId> {
        self.find(store, self.kind_of(store)?).map(id)
    }

    /// The group that a removal, or a store without tokens, names. Without a number it means the main one; a number that no
    /// store had is not known, unless the stream has no numbers at all.
    pub(crate) fn resolve(&self, wire: Option<u32>) -> Option<GroupId> {
        let numberless = self.entries.iter().all(|entry| entry.wire.is_none());
        let at = match wire {
            Some(_) => self.position(wire).or_else(|| if numberless { self.main() } else { None }),
            None => self.main().or_else(|| self.position(None)),
        };
        at.map(id)
    }

    /// How the engine would name the group in a store: its number, and its kind with the window where it said them.
    pub(crate) fn naming(&self, group: GroupId) -> Naming {
        let entry = &self.entries[usize::from(group.0)];
        let (word, window) = match entry.group.kind {
            GroupKind::Full => ("full_attention", None),
            GroupKind::State => ("mamba", None),
            GroupKind::Window { tokens, .. } => ("sliding_window", Some(tokens.get()).filter(|tokens| *tokens != u32::MAX)),
        };
        Naming { wire: entry.wire, kind: entry.said.then_some(word), window: window.filter(|_| entry.said) }
    }

    /// A store came for a group that is not scored.
    pub(crate) fn has_unscored(&self) -> bool {
        self.unscored
    }

    /// The groups, in the order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (GroupId, Group)> + '_ {
        self.entries.iter().enumerate().map(|(at, entry)| (id(at), entry.group))
    }

    pub(crate) fn group(&self, group: GroupId) -> Group {
        self.entries[usize::from(group.0)].group
    }

    /// Several groups of which the engine did not say what they keep (vLLM 0.20 and 0.21), or some that are not scored.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.unscored || self.entries.len() > 1 && self.entries.iter().any(|entry| !entry.said)
    }

    fn add(&mut self, entry: Entry, max: usize) -> Option<GroupId> {
        if self.entries.len() >= max {
            self.unscored = true;
            return None;
        }
        self.entries.push(entry);
        Some(id(self.entries.len() - 1))
    }

    /// The entry of a store of this kind. A numbered main group is also the one that was met without a number; a store without
    /// a number belongs to the group of its kind that has none, or else to the main one.
    fn find(&self, store: &Stored, kind: GroupKind) -> Option<usize> {
        let nameless = |kind| self.entries.iter().position(|entry| entry.wire.is_none() && entry.group.kind == kind);
        match store.group {
            Some(_) if kind.is_main() => self.position(store.group).or_else(|| nameless(kind)),
            Some(_) => self.position(store.group),
            None => nameless(kind).or_else(|| if kind.is_main() { self.main() } else { None }),
        }
    }

    fn position(&self, wire: Option<u32>) -> Option<usize> {
        self.entries.iter().position(|entry| entry.wire == wire)
    }

    fn main(&self) -> Option<usize> {
        self.entries.iter().position(|entry| entry.group.kind.is_main())
    }

    /// A store without a kind follows its group; a group that no event gave a kind counts as main.
    fn kind_of(&self, store: &Stored) -> Option<GroupKind> {
        let Some(word) = &store.kind else {
            return Some(self.resolve(store.group).map_or(GroupKind::Full, |known| self.group(known).kind));
        };
        match KindWord::parse(word)? {
            KindWord::Full => Some(GroupKind::Full),
            KindWord::State => Some(GroupKind::State),
            // A window of unknown length is taken to be endless: wanting all of it never credits too much.
            KindWord::Window => {
                let tokens = store.window.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX);
                Some(GroupKind::Window { tokens, rule: WindowRule::Vllm })
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the table never has more entries than a worker has views")]
fn id(at: usize) -> GroupId {
    GroupId(at as u8)
}

/// Kinds by which no prefix is reused: they do not bound what the other groups allow.
const WITHOUT_PREFIX: [&str; 2] = ["encoder_only_attention", "cross_attention"];

#[cfg(test)]
mod tests {
    use super::*;

    fn store(group: Option<u32>, kind: Option<&str>, window: Option<u32>) -> Stored {
        Stored { group, kind: kind.map(Into::into), window, block_size: 16, ..Stored::default() }
    }

    #[test]
    fn events_without_a_group_mean_the_main_one() {
        let mut table = GroupTable::default();
        let window = table.learn(&store(Some(0), Some("sliding_window"), Some(64)), 8).unwrap();
        let main = table.learn(&store(Some(1), Some("full_attention"), None), 8).unwrap();
        assert_eq!((table.resolve(None), table.resolve(Some(0)), table.resolve(Some(7))), (Some(main), Some(window), None));
        assert_eq!(table.learn(&store(None, None, None), 8), Some(main));
    }

    #[test]
    fn a_nameless_main_group_adopts_the_number_that_comes_later() {
        let mut table = GroupTable::default();
        let main = table.learn(&store(None, None, None), 8).unwrap();
        assert_eq!(table.resolve(Some(0)), Some(main), "no store had a number yet");
        assert_eq!(table.learn(&store(Some(0), Some("mla_attention"), None), 8), Some(main));
        assert_ne!(table.learn(&store(Some(1), Some("mamba"), None), 8), Some(main));
        assert!(!table.is_ambiguous());
    }

    #[test]
    fn kinds_without_a_reusable_prefix_are_no_groups() {
        let mut table = GroupTable::default();
        assert_eq!(table.learn(&store(Some(0), Some("cross_attention"), None), 8), None);
        assert!(!table.is_ambiguous(), "an encoder's cache does not bound what is reused");
        assert_eq!(table.learn(&store(Some(0), Some("brand_new"), None), 8), None);
        assert_eq!(table.iter().count(), 0);
        assert!(table.is_ambiguous(), "a kind not known here may");
    }

    #[test]
    fn a_store_of_an_unknown_kind_is_never_the_main_groups() {
        let mut table = GroupTable::default();
        table.learn(&store(None, None, None), 8);
        for number in [None, Some(1)] {
            assert_eq!(table.group_of(&store(number, Some("brand_new"), None)), None, "{number:?}");
        }
    }

    #[test]
    fn stores_without_numbers_are_told_apart_by_their_kinds() {
        let mut table = GroupTable::default();
        let window = table.learn(&store(None, Some("sliding_window"), Some(64)), 8).unwrap();
        let main = table.learn(&store(None, Some("full_attention"), None), 8).unwrap();
        assert_ne!(window, main);
        assert_eq!(table.group_of(&store(None, Some("sliding_window"), Some(64))), Some(window));
        assert_eq!((table.group_of(&store(None, None, None)), table.resolve(None)), (Some(main), Some(main)));
        assert_eq!(table.learn(&store(Some(3), Some("full_attention"), None), 8), Some(main), "and the number is the main one's");
        assert_eq!((table.resolve(Some(3)), table.resolve(Some(4))), (Some(main), None));
    }

    #[test]
    fn a_window_of_unknown_length_is_no_main_group() {
        let mut table = GroupTable::default();
        let window = table.learn(&store(Some(0), Some("chunked_local_attention"), None), 8).unwrap();
        assert!(!table.group(window).kind.is_main());
        let main = table.learn(&store(Some(1), Some("full_attention"), None), 8).unwrap();
        assert_eq!(table.resolve(None), Some(main));
    }

    #[test]
    fn a_kind_that_is_said_later_is_believed() {
        let mut table = GroupTable::default();
        let group = table.learn(&store(Some(0), None, None), 8).unwrap();
        assert_eq!(table.learn(&store(Some(0), Some("mamba"), None), 8), Some(group));
        assert_eq!(table.group(group).kind, GroupKind::State);
        table.learn(&store(Some(0), None, None), 8);
        assert_eq!(table.group(group).kind, GroupKind::State, "a store without a kind follows its group");
    }

    #[test]
    fn a_stream_of_windows_only_has_no_main_group_to_remove_from() {
        let mut table = GroupTable::default();
        table.learn(&store(Some(0), Some("sliding_window"), Some(64)), 8);
        assert_eq!(table.resolve(None), None);
    }

    #[test]
    fn groups_without_kinds_are_ambiguous_when_there_are_several() {
        let mut table = GroupTable::default();
        table.learn(&store(Some(0), None, None), 8);
        assert!(!table.is_ambiguous());
        table.learn(&store(Some(1), None, None), 8);
        assert!(table.is_ambiguous());
        let mut table = GroupTable::default();
        assert_eq!(table.learn(&store(Some(0), Some("mamba"), None), 1).map(|group| group.0), Some(0));
        assert_eq!(table.learn(&store(Some(1), Some("mamba"), None), 1), None, "no more than the worker has views");
        assert!(table.is_ambiguous(), "and one that is not scored may bound what is reused");
    }
}
