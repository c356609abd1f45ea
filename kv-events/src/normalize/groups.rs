//! The cache groups of one rank, learned from its stores.

use std::num::NonZeroU32;

use kv_index::reuse::{Group, GroupKind, KindWord};

use crate::Stored;

/// A group's number within its stream: dense, in the order in which groups were met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub u8);

/// What is known of the groups. Kept across clears: a clear empties a cache, it does not change a model.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupTable {
    entries: Vec<Entry>,
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
        let kind = self.kind_of(store)?;
        let known = self.position(store.group).or_else(|| self.adopt(store.group, kind));
        if let Some(at) = known {
            if store.kind.is_some() && !self.entries[at].said {
                self.entries[at] = Entry { wire: store.group, said: true, group: Group { kind, block_tokens } };
            }
            return Some(id(at));
        }
        let entry = Entry { wire: store.group, said: store.kind.is_some(), group: Group { kind, block_tokens } };
        (self.entries.len() < max).then(|| {
            self.entries.push(entry);
            id(self.entries.len() - 1)
        })
    }

    /// The group that an event names. An event without a group means the main one; a number that no store had is not
    /// known, unless the stream has no numbers at all.
    pub(crate) fn resolve(&self, wire: Option<u32>) -> Option<GroupId> {
        let main = || self.entries.iter().position(|entry| entry.group.kind.is_main());
        let numberless = self.entries.iter().all(|entry| entry.wire.is_none());
        let at = self.position(wire).or_else(|| if wire.is_none() || numberless { main() } else { None });
        at.map(id)
    }

    /// The groups, in the order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (GroupId, Group)> + '_ {
        self.entries.iter().enumerate().map(|(at, entry)| (id(at), entry.group))
    }

    pub(crate) fn group(&self, group: GroupId) -> Group {
        self.entries[usize::from(group.0)].group
    }

    /// Several groups of which the engine did not say what they keep (vLLM 0.20 and 0.21).
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.entries.len() > 1 && self.entries.iter().any(|entry| !entry.said)
    }

    fn position(&self, wire: Option<u32>) -> Option<usize> {
        self.entries.iter().position(|entry| entry.wire == wire)
    }

    /// A main group that was met without a number gets the number of the first numbered main group.
    fn adopt(&mut self, wire: Option<u32>, kind: GroupKind) -> Option<usize> {
        let at = match wire {
            None => self.entries.iter().position(|entry| entry.group.kind.is_main()),
            Some(_) if kind.is_main() => self.position(None),
            Some(_) => None,
        }?;
        self.entries[at].wire = self.entries[at].wire.or(wire);
        Some(at)
    }

    /// A store without a kind follows its group; a group that no event gave a kind counts as main.
    fn kind_of(&self, store: &Stored) -> Option<GroupKind> {
        let Some(word) = &store.kind else {
            return Some(self.resolve(store.group).map_or(GroupKind::Full, |known| self.group(known).kind));
        };
        match KindWord::parse(word)? {
            KindWord::Full => Some(GroupKind::Full),
            KindWord::State => Some(GroupKind::State),
            // A window of unknown length: wanting all of it back to the start never credits too much.
            KindWord::Window => Some(
                store
                    .window
                    .and_then(NonZeroU32::new)
                    .map_or(GroupKind::Full, |tokens| GroupKind::Window { tokens, rule: kv_index::reuse::WindowRule::Vllm }),
            ),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the table never has more entries than a worker has views")]
fn id(at: usize) -> GroupId {
    GroupId(at as u8)
}

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
        assert_eq!(table.learn(&store(Some(0), Some("brand_new"), None), 8), None);
        assert_eq!(table.iter().count(), 0);
    }

    #[test]
    fn groups_without_kinds_are_ambiguous_when_there_are_several() {
        let mut table = GroupTable::default();
        table.learn(&store(Some(0), None, None), 8);
        assert!(!table.is_ambiguous());
        table.learn(&store(Some(1), None, None), 8);
        assert!(table.is_ambiguous());
        assert_eq!(table.learn(&store(Some(2), None, None), 2), None, "no more than the worker has views");
    }
}
