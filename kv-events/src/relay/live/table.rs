//! From a word (a name, a place) to the slot of the block that has it.
//!
//! The words stay in the blocks. An entry is the slot and 32 bits of the word's hash, which tell nearly all words apart without a
//! look at the blocks, and are all that growing and closing gaps need. Entries stand in the row where their mark wants them, or
//! as soon after it as there was room: whoever has searched for a word in vain has the place for it in the cache.
//!
//! In 256 parts, because a table grows all at once: the part of a million blocks does so in some ten microseconds, one table
//! of them all would stop admission for tens of milliseconds.

use std::hash::BuildHasher;
use std::hint::black_box;

use hashbrown::DefaultHashBuilder;

use super::pages::Slot;

#[derive(Clone, Debug)]
pub(super) struct SlotTable {
    parts: Box<[Part]>,
    hasher: DefaultHashBuilder,
    len: usize,
}

/// A word, as a table knows it: the part that it belongs to, and its mark there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    part: u8,
    mark: u32,
}

/// An open table: its length is 0 or a power of two, and a quarter of it at least is free.
#[derive(Clone, Debug, Default)]
struct Part {
    entries: Box<[Entry]>,
    len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    mark: u32,
    /// [`FREE`] where there is none.
    slot: Slot,
}

impl SlotTable {
    /// How the table knows `word`.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "different bits of one hash")]
    pub(super) fn key(&self, word: u64) -> Key {
        let hash = self.hasher.hash_one(word);
        // Once more multiplied: the hasher is quick, and with some of its seeds the low bits of counted words are uneven.
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Key { part: (mixed >> 56) as u8, mark: (mixed >> 20) as u32 }
    }

    /// The slot whose word has this key, of those of which `is_its` says so.
    #[inline]
    pub(super) fn find(&self, key: Key, is_its: impl Fn(Slot) -> bool) -> Option<Slot> {
        let part = &self.parts[usize::from(key.part)];
        part.search(key.mark, is_its).map(|at| part.entries[at].slot)
    }

    /// Looks where the searches for these keys begin, and does nothing with it. A million entries lie in no cache, and a search
    /// waits for memory before it knows how to go on; these looks wait for nothing but each other's lines, which come together.
    pub(super) fn fetch(&self, keys: impl Iterator<Item = Key>) {
        let looks = keys.map(|key| self.parts[usize::from(key.part)].first_look(key.mark));
        black_box(looks.fold(0, |all, look| all ^ look));
    }

    /// Notes that the word with this key, which is nowhere yet, is at `slot`.
    #[inline]
    pub(super) fn insert(&mut self, key: Key, slot: Slot) {
        self.parts[usize::from(key.part)].insert(Entry { mark: key.mark, slot });
        self.len += 1;
    }

    /// Forgets that the word with this key is at `slot`. Whether it was.
    pub(super) fn remove(&mut self, key: Key, slot: Slot) -> bool {
        let part = &mut self.parts[usize::from(key.part)];
        let Some(at) = part.search(key.mark, |other| other == slot) else { return false };
        part.take_out(at);
        self.len -= 1;
        true
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Part {
    /// Where the entry with this mark is of which `is_its` says that it is the one.
    #[inline]
    fn search(&self, mark: u32, is_its: impl Fn(Slot) -> bool) -> Option<usize> {
        if self.entries.is_empty() {
            return None;
        }
        let mut at = self.home(mark);
        loop {
            let entry = self.entries[at];
            if entry.slot == FREE {
                return None;
            }
            if entry.mark == mark && is_its(entry.slot) {
                return Some(at);
            }
            at = self.after(at);
        }
    }

    /// Something of the entry with which a search begins.
    #[inline]
    fn first_look(&self, mark: u32) -> Slot {
        self.entries.get(mark as usize & self.entries.len().wrapping_sub(1)).map_or(FREE, |entry| entry.slot)
    }

    #[inline]
    fn insert(&mut self, entry: Entry) {
        if (self.len + 1) * 4 > self.entries.len() * 3 {
            self.resize((2 * self.entries.len()).max(ENTRIES_MIN));
        }
        self.put(entry);
        self.len += 1;
    }

    fn put(&mut self, entry: Entry) {
        let mut at = self.home(entry.mark);
        while self.entries[at].slot != FREE {
            at = self.after(at);
        }
        self.entries[at] = entry;
    }

    /// Frees the place `at`, and moves up what stands behind it only because it was taken.
    fn take_out(&mut self, mut gap: usize) {
        let mut at = self.after(gap);
        while self.entries[at].slot != FREE {
            let home = self.home(self.entries[at].mark);
            // It may move if its home is not between the gap and its place.
            if self.distance(home, at) >= self.distance(gap, at) {
                self.entries[gap] = self.entries[at];
                gap = at;
            }
            at = self.after(at);
        }
        self.entries[gap].slot = FREE;
        self.len -= 1;
        if self.entries.len() > ENTRIES_MIN && self.len * 8 < self.entries.len() {
            self.resize(self.entries.len() / 4);
        }
    }

    #[cold]
    fn resize(&mut self, len: usize) {
        let entries = vec![Entry { mark: 0, slot: FREE }; len.max(ENTRIES_MIN)].into();
        let old = std::mem::replace(&mut self.entries, entries);
        old.iter().filter(|entry| entry.slot != FREE).for_each(|&entry| self.put(entry));
    }

    #[inline]
    fn home(&self, mark: u32) -> usize {
        mark as usize & (self.entries.len() - 1)
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.entries.len() - 1)
    }

    /// How far `to` is behind `from`, around the end.
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.entries.len() - 1)
    }
}

impl Default for SlotTable {
    fn default() -> Self {
        Self { parts: vec![Part::default(); PARTS].into(), hasher: DefaultHashBuilder::default(), len: 0 }
    }
}

/// No block has this slot: it is what a prompt's first block names as its parent.
const FREE: Slot = super::block::ROOT;

const PARTS: usize = 256;

/// Entries of the smallest part that has any.
const ENTRIES_MIN: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_found_until_they_are_removed() {
        let words: Vec<u64> = (0..10_000).map(|word| word * 3).collect();
        let find = |table: &SlotTable, word| table.find(table.key(word), |slot| words[slot as usize] == word);
        let mut table = SlotTable::default();
        (0..).zip(&words).for_each(|(slot, &word)| table.insert(table.key(word), slot));
        assert!((0..).zip(&words).all(|(slot, &word)| find(&table, word) == Some(slot)) && find(&table, 1).is_none());
        (0..9_000).for_each(|slot| assert!(table.remove(table.key(words[slot as usize]), slot)));
        assert!(!table.remove(table.key(words[5]), 5), "once");
        assert_eq!((table.len(), find(&table, 27), find(&table, words[9_500])), (1_000, None, Some(9_500)));
        let room: usize = table.parts.iter().map(|part| part.entries.len()).sum();
        assert!(room < 20_000, "{room}");
    }

    #[test]
    fn the_parts_share_evenly() {
        for stride in [1, 2, 1 << 8, 1 << 32, 0x9e37_79b9_7f4a_7c15] {
            let mut table = SlotTable::default();
            (0..25_600).for_each(|slot| table.insert(table.key(u64::from(slot).wrapping_mul(stride)), slot));
            let uneven: Vec<_> = table.parts.iter().map(|part| part.len).filter(|len| !(40..200).contains(len)).collect();
            assert!(uneven.is_empty(), "{uneven:?} of words {stride} apart");
        }
    }

    #[test]
    fn searches_are_short_whatever_the_words() {
        for stride in [1, 2, 1 << 8, 1 << 32, 0x9e37_79b9_7f4a_7c15] {
            let mut table = SlotTable::default();
            (0..40_000).for_each(|slot| table.insert(table.key(u64::from(slot).wrapping_mul(stride)), slot));
            let away = |part: &Part| {
                let placed = part.entries.iter().enumerate().filter(|(_, entry)| entry.slot != FREE);
                placed.map(|(at, entry)| part.distance(part.home(entry.mark), at)).sum::<usize>()
            };
            let away: usize = table.parts.iter().map(away).sum();
            assert!(away < 3 * 40_000, "{away} steps for 40,000 words {stride} apart");
        }
    }

    proptest! {
        /// Few marks in a small part: runs of entries that stand behind each other, and around the end.
        #[test]
        fn a_part_equals_a_list(steps in proptest::collection::vec((any::<bool>(), 0u32..12, 0u32..40), 0..200)) {
            let (mut part, mut list) = (Part::default(), Vec::new());
            for (insert, mark, slot) in steps {
                let at = list.iter().position(|entry: &Entry| entry.slot == slot);
                if let (true, None) = (insert, at) {
                    list.push(Entry { mark, slot });
                    part.insert(Entry { mark, slot });
                } else if let Some(at) = at {
                    let gone = list.swap_remove(at);
                    let found = part.search(gone.mark, |other| other == slot);
                    prop_assert!(found.is_some());
                    part.take_out(found.unwrap());
                }
                prop_assert_eq!(part.len, list.len());
                prop_assert!(list.iter().all(|entry| part.search(entry.mark, |slot| slot == entry.slot).is_some()));
                prop_assert_eq!(part.search(mark, |_| false), None);
            }
        }
    }
}
