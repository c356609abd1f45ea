//! From a word (a name, a place) to the slot of the block that has it.
//!
//! The words stay in the blocks, so an entry is four bytes. In 256 parts, because a table grows all at once: the part of a
//! million blocks does so in a quarter of a millisecond, one table of them all would stop admission for a hundred.

use std::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::pages::Slot;

#[derive(Clone, Debug)]
pub(super) struct SlotTable {
    parts: Box<[HashTable<Slot>]>,
    hasher: DefaultHashBuilder,
}

impl SlotTable {
    /// The slot whose word is `word`. `word_at` tells the word of a slot in the table.
    pub(super) fn find(&self, word: u64, word_at: impl Fn(Slot) -> u64) -> Option<Slot> {
        let hash = self.hasher.hash_one(word);
        self.parts[part_of(hash)].find(hash, |&slot| word_at(slot) == word).copied()
    }

    /// Notes that `word` is at `slot`.
    pub(super) fn insert(&mut self, word: u64, slot: Slot, word_at: impl Fn(Slot) -> u64) {
        let hash = self.hasher.hash_one(word);
        let (part, hasher) = (&mut self.parts[part_of(hash)], &self.hasher);
        match part.entry(hash, |&slot| word_at(slot) == word, |&slot| hasher.hash_one(word_at(slot))) {
            Entry::Occupied(mut known) => *known.get_mut() = slot,
            Entry::Vacant(vacant) => _ = vacant.insert(slot),
        }
    }

    /// Forgets that `word` is at `slot`.
    pub(super) fn remove(&mut self, word: u64, slot: Slot, word_at: impl Fn(Slot) -> u64) {
        let hash = self.hasher.hash_one(word);
        let (part, hasher) = (&mut self.parts[part_of(hash)], &self.hasher);
        if let Ok(entry) = part.find_entry(hash, |&known| known == slot) {
            entry.remove();
        }
        if part.capacity() > SPARE_ENTRIES && part.capacity() / 8 > part.len() {
            part.shrink_to(2 * part.len(), |&slot| hasher.hash_one(word_at(slot)));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(HashTable::len).sum()
    }
}

impl Default for SlotTable {
    fn default() -> Self {
        let parts = std::iter::repeat_with(HashTable::new).take(PARTS).collect();
        Self { parts, hasher: DefaultHashBuilder::default() }
    }
}

/// Neither the bits that choose a bucket, the lowest, nor those that are kept beside it, the highest.
fn part_of(hash: u64) -> usize {
    (hash >> 40) as usize % PARTS
}

const PARTS: usize = 256;

/// Entries for which a part may keep room for nothing.
const SPARE_ENTRIES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_until_they_are_removed() {
        let words: Vec<u64> = (0..10_000).map(|word| word * 3).collect();
        let word_at = |slot: Slot| words[slot as usize];
        let mut table = SlotTable::default();
        (0..).zip(&words).for_each(|(slot, &word)| table.insert(word, slot, word_at));
        assert!(
            (0..).zip(&words).all(|(slot, &word)| table.find(word, word_at) == Some(slot)) && table.find(1, word_at).is_none()
        );
        (0..9_000).for_each(|slot| table.remove(word_at(slot), slot, word_at));
        assert_eq!((table.len(), table.find(27, word_at), table.find(word_at(9_500), word_at)), (1_000, None, Some(9_500)));
        let capacity: usize = table.parts.iter().map(HashTable::capacity).sum();
        assert!(capacity < 30_000, "{capacity}");
    }

    #[test]
    fn the_parts_share_evenly() {
        let mut table = SlotTable::default();
        (0..25_600).for_each(|slot| table.insert(u64::from(slot), slot, u64::from));
        assert!(table.parts.iter().all(|part| (40..200).contains(&part.len())));
    }
}
