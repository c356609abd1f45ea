//! From a word (a name, a place) to the slot of the block that has it.
//!
//! The words stay in the blocks. An entry is the slot and 32 bits of the word's hash, which tell nearly all words apart without a
//! look at the blocks, and are all that growing and closing gaps need. Entries stand in the bucket where their mark wants them, or in
//! the next one after it that had room. A bucket is a line of the cache, and its eight marks are compared at a time: most
//! searches, for what is there and for what is not, take one line and no guess of a branch.
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

/// An open table: it has no bucket or a power of two, and a quarter of its room at least is free.
#[derive(Clone, Debug, Default)]
struct Part {
    buckets: Box<[Bucket]>,
    len: usize,
}

/// Entries without gaps: one that is free is behind all that are not. Nobody went on to the next bucket past one with room.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket {
    marks: [u32; BUCKET_ENTRIES],
    /// [`FREE`] where there is none.
    slots: [Slot; BUCKET_ENTRIES],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    mark: u32,
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
        part.search(key.mark, is_its).map(|(_, _, slot)| slot)
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
        let Some((at, place, _)) = part.search(key.mark, |other| other == slot) else { return false };
        part.take_out(at, place);
        self.len -= 1;
        true
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Part {
    /// The entry with this mark of which `is_its` says that it is the one: its bucket, its place there, and its slot.
    #[inline]
    fn search(&self, mark: u32, is_its: impl Fn(Slot) -> bool) -> Option<(usize, usize, Slot)> {
        let mut at = self.home(mark);
        loop {
            let bucket = self.buckets.get(at)?;
            let mut hits = bucket.hits(mark);
            while hits != 0 {
                let place = hits.trailing_zeros() as usize % BUCKET_ENTRIES;
                let slot = bucket.slots[place];
                if slot != FREE && is_its(slot) {
                    return Some((at, place, slot));
                }
                hits &= hits - 1;
            }
            if !bucket.is_full() {
                return None;
            }
            at = self.after(at);
        }
    }

    /// Something of the bucket with which a search begins.
    #[inline]
    fn first_look(&self, mark: u32) -> Slot {
        self.buckets.get(self.home(mark)).map_or(FREE, |bucket| bucket.slots[0])
    }

    #[inline]
    fn insert(&mut self, entry: Entry) {
        if (self.len + 1) * 4 > self.buckets.len() * BUCKET_ENTRIES * 3 {
            self.resize(2 * self.buckets.len());
        }
        self.put(entry);
        self.len += 1;
    }

    #[inline]
    fn put(&mut self, entry: Entry) {
        let mut at = self.home(entry.mark);
        while self.buckets[at].is_full() {
            at = self.after(at);
        }
        self.buckets[at].push(entry);
    }

    /// Takes an entry out, and moves back into its bucket what stands behind that only because it was full.
    fn take_out(&mut self, mut gap: usize, place: usize) {
        let mut may_have_passed = self.buckets[gap].take(place);
        let mut at = gap;
        while may_have_passed {
            at = self.after(at);
            let passed = |mark: &u32| self.distance(self.home(*mark), at) >= self.distance(gap, at);
            let bucket = &self.buckets[at];
            may_have_passed = bucket.is_full();
            if let Some(place) = bucket.marks[..bucket.len()].iter().position(passed) {
                let entry = Entry { mark: bucket.marks[place], slot: bucket.slots[place] };
                self.buckets[at].take(place);
                self.buckets[gap].push(entry);
                gap = at;
            }
        }
        self.len -= 1;
        if self.buckets.len() > 1 && self.len * 8 < self.buckets.len() * BUCKET_ENTRIES {
            self.resize(self.buckets.len() / 4);
        }
    }

    #[cold]
    fn resize(&mut self, buckets: usize) {
        let empty = Bucket { marks: [0; BUCKET_ENTRIES], slots: [FREE; BUCKET_ENTRIES] };
        let old = std::mem::replace(&mut self.buckets, vec![empty; buckets.max(1)].into());
        old.iter().flat_map(Bucket::entries).for_each(|entry| self.put(entry));
    }

    #[inline]
    fn home(&self, mark: u32) -> usize {
        mark as usize & self.buckets.len().wrapping_sub(1)
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.buckets.len() - 1)
    }

    /// How far `to` is behind `from`, around the end.
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.buckets.len() - 1)
    }
}

impl Bucket {
    /// A bit for each entry with this mark. There may be some for free ones.
    #[inline]
    fn hits(&self, mark: u32) -> u32 {
        self.marks.iter().enumerate().fold(0, |hits, (place, other)| hits | u32::from(*other == mark) << place)
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.slots[BUCKET_ENTRIES - 1] != FREE
    }

    #[inline]
    fn len(&self) -> usize {
        self.slots.iter().map(|slot| usize::from(*slot != FREE)).sum()
    }

    #[inline]
    fn push(&mut self, entry: Entry) {
        let place = self.len();
        (self.marks[place], self.slots[place]) = (entry.mark, entry.slot);
    }

    /// Takes an entry out. Whether the bucket was full.
    fn take(&mut self, place: usize) -> bool {
        let (last, was_full) = (self.len() - 1, self.is_full());
        (self.marks[place], self.slots[place]) = (self.marks[last], self.slots[last]);
        self.slots[last] = FREE;
        was_full
    }

    fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.marks.iter().zip(&self.slots).take(self.len()).map(|(&mark, &slot)| Entry { mark, slot })
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

/// As many as a line of the cache has room for.
const BUCKET_ENTRIES: usize = 8;

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
        let room: usize = table.parts.iter().map(|part| part.buckets.len() * BUCKET_ENTRIES).sum();
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
                let placed =
                    part.buckets.iter().enumerate().flat_map(|(at, bucket)| bucket.entries().map(move |entry| (at, entry)));
                placed.map(|(at, entry)| part.distance(part.home(entry.mark), at)).sum::<usize>()
            };
            let away: usize = table.parts.iter().map(away).sum();
            assert!(away < 40_000 / 4, "{away} buckets for 40,000 words {stride} apart");
        }
    }

    proptest! {
        /// Few marks in a small part: buckets that overflow into those behind them, and around the end.
        #[test]
        fn a_part_equals_a_list(steps in proptest::collection::vec((0u32..5, prop_oneof![0u32..2, 5u32..8], 0u32..60), 0..400)) {
            let (mut part, mut list) = (Part::default(), Vec::new());
            for (insert, mark, slot) in steps {
                let at = list.iter().position(|entry: &Entry| entry.slot == slot);
                if let (1.., None) = (insert, at) {
                    list.push(Entry { mark, slot });
                    part.insert(Entry { mark, slot });
                } else if let (0..2, Some(at)) = (insert, at) {
                    let gone = list.swap_remove(at);
                    let found = part.search(gone.mark, |other| other == slot);
                    prop_assert!(found.is_some());
                    let (bucket, place, _) = found.unwrap();
                    part.take_out(bucket, place);
                }
                prop_assert_eq!(part.len, list.len());
                prop_assert!(list.iter().all(|entry| part.search(entry.mark, |slot| slot == entry.slot).is_some()));
                prop_assert_eq!(part.search(mark, |_| false), None);
            }
        }
    }
}
