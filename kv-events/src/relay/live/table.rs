//! From a word (a name, a place) to the slot of the block that has it.
//!
//! The words stay in the blocks. An entry is the slot and 32 bits of the word's hash, which tell nearly all words apart without a
//! look at the blocks, and are all that growing needs. In 256 parts, because a table grows all at once: the part of a
//! million blocks does so in some ten microseconds, one table of them all would stop admission for tens of milliseconds.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::pages::Slot;

#[derive(Clone, Debug)]
pub(super) struct SlotTable {
    parts: Box<[HashTable<Entry>]>,
    hasher: DefaultHashBuilder,
    len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    mark: u32,
    slot: Slot,
}

impl SlotTable {
    /// The slot whose word is `word`. `word_at` tells the word of a slot in the table.
    pub(super) fn find(&self, word: u64, word_at: impl Fn(Slot) -> u64) -> Option<Slot> {
        if self.len == 0 {
            return None;
        }
        let (part, mark) = self.split(word);
        let found = self.parts[part].find(spread(mark), |entry| entry.mark == mark && word_at(entry.slot) == word);
        found.map(|entry| entry.slot)
    }

    /// Notes that `word`, which is nowhere yet, is at `slot`.
    pub(super) fn insert(&mut self, word: u64, slot: Slot) {
        let (part, mark) = self.split(word);
        self.parts[part].insert_unique(spread(mark), Entry { mark, slot }, |entry| spread(entry.mark));
        self.len += 1;
    }

    /// Forgets that `word` is at `slot`. Whether it was.
    pub(super) fn remove(&mut self, word: u64, slot: Slot) -> bool {
        let (part, mark) = self.split(word);
        let part = &mut self.parts[part];
        let Ok(entry) = part.find_entry(spread(mark), |entry| *entry == Entry { mark, slot }) else { return false };
        entry.remove();
        self.len -= 1;
        if part.capacity() > SPARE_ENTRIES && part.capacity() / 8 > part.len() {
            part.shrink_to(2 * part.len(), |entry| spread(entry.mark));
        }
        true
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The part that `word` belongs to, and its mark there.
    #[expect(clippy::cast_possible_truncation, reason = "different bits of one hash")]
    fn split(&self, word: u64) -> (usize, u32) {
        let hash = self.hasher.hash_one(word);
        // Once more multiplied: the hasher is quick, and with some of its seeds the low bits of counted words are uneven.
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 40) as usize % PARTS, (hash ^ (mixed >> 32)) as u32)
    }
}

impl Default for SlotTable {
    fn default() -> Self {
        let parts = std::iter::repeat_with(HashTable::new).take(PARTS).collect();
        Self { parts, hasher: DefaultHashBuilder::default(), len: 0 }
    }
}

/// The table wants 64 bits: it chooses a bucket by the lowest, and keeps the highest beside it.
fn spread(mark: u32) -> u64 {
    u64::from(mark).wrapping_mul(0x9e37_79b9_0000_0001)
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
        (0..).zip(&words).for_each(|(slot, &word)| table.insert(word, slot));
        assert!(
            (0..).zip(&words).all(|(slot, &word)| table.find(word, word_at) == Some(slot)) && table.find(1, word_at).is_none()
        );
        (0..9_000).for_each(|slot| assert!(table.remove(word_at(slot), slot)));
        assert_eq!((table.len(), table.find(27, word_at), table.find(word_at(9_500), word_at)), (1_000, None, Some(9_500)));
        let capacity: usize = table.parts.iter().map(HashTable::capacity).sum();
        assert!(capacity < 30_000, "{capacity}");
    }

    #[test]
    fn the_parts_share_evenly() {
        for stride in [1, 2, 1 << 8, 1 << 32, 0x9e37_79b9_7f4a_7c15] {
            let mut table = SlotTable::default();
            (0..25_600).for_each(|slot| table.insert(u64::from(slot).wrapping_mul(stride), slot));
            let uneven: Vec<_> = table.parts.iter().map(HashTable::len).filter(|len| !(40..200).contains(len)).collect();
            assert!(uneven.is_empty(), "{uneven:?} of words {stride} apart");
        }
    }
}
