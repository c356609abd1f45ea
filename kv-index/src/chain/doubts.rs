//! A quick no to the question whether a name or a place may be special to a worker.
//!
//! A worker that agrees with the others but for a few names would otherwise look each name and each place up in its own tables,
//! a cache miss each, to find nothing. A bit for each of them, kept sparse, answers nearly always from a line that is at hand.

use crate::raw::place::Place;
use crate::raw::secret::Secret;

/// Bits, one set for each name and place. Those of names that have left stay until the next growth.
#[derive(Debug)]
pub(crate) struct Doubts {
    secret: Secret,
    /// Some, or none.
    words: Vec<u64>,
    /// Bits that were set, or set again.
    count: usize,
}

/// Bits for each that is set: one question in eight, or some more, is doubted in vain.
const SPARSE: usize = 8;
const WORDS_MIN: usize = 16;

impl Doubts {
    pub(crate) const fn new(secret: Secret) -> Self {
        Self { secret, words: Vec::new(), count: 0 }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * 8
    }

    /// Whether the name may be special.
    #[inline]
    pub(crate) fn of_name(&self, name: u64) -> bool {
        self.has(self.secret.quick(name))
    }

    /// Whether the place may be special.
    #[inline]
    pub(crate) fn of_place(&self, place: Place) -> bool {
        self.has(self.secret.quick(u64::from(place.0)))
    }

    /// Notes one more of each, or says that there is no room.
    pub(crate) fn add(&mut self, name: u64, place: Place) -> bool {
        let has_room = (self.count + 2) * SPARSE <= self.words.len() * 64;
        if has_room {
            self.set(name);
            self.set(u64::from(place.0));
        }
        has_room
    }

    /// Begins anew with all there are, with room for twice as many.
    pub(crate) fn renew(&mut self, names: impl Iterator<Item = u64>, places: impl Iterator<Item = Place>, count: usize) {
        let words = (count * 2 * SPARSE / 64).max(WORDS_MIN);
        *self = Self { words: vec![0; words], ..Self::new(self.secret) };
        names.for_each(|name| self.set(name));
        places.for_each(|place| self.set(u64::from(place.0)));
    }

    /// Nothing is special any more.
    pub(crate) fn forget(&mut self) {
        *self = Self::new(self.secret);
    }

    #[inline]
    fn has(&self, quick: u64) -> bool {
        let bit = self.bit(quick);
        self.words.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    fn set(&mut self, value: u64) {
        let bit = self.bit(self.secret.quick(value));
        self.words[bit / 64] |= 1 << (bit % 64);
        self.count += 1;
    }

    /// The high bits are the good ones.
    #[inline]
    fn bit(&self, quick: u64) -> usize {
        ((u128::from(quick) * (self.words.len() as u128 * 64)) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::segments::SegmentId;

    #[test]
    fn what_is_noted_is_doubted_and_most_else_is_not() {
        let noted: Vec<(u64, Place)> =
            (0..3_000).map(|nth| (nth * 7, Place::new(SegmentId(nth as u32 / 64 + 1), nth as usize % 64))).collect();
        let mut doubts = Doubts::new(Secret::new([5, 9]));
        assert!(!doubts.of_name(0) && !doubts.of_place(Place::default()), "nothing is doubted at first");
        for (nth, &(name, place)) in noted.iter().enumerate() {
            if !doubts.add(name, place) {
                let known = || noted[..=nth].iter().copied();
                doubts.renew(known().map(|(name, _)| name), known().map(|(_, place)| place), (nth + 1) * 2);
            }
        }
        assert!(noted.iter().all(|&(name, place)| doubts.of_name(name) && doubts.of_place(place)));
        let names = (3_000..13_000).filter(|&nth| doubts.of_name(nth * 7)).count();
        let places = (100..10_100).filter(|&id| doubts.of_place(Place::new(SegmentId(id), 3))).count();
        assert!(names < 2_000 && places < 2_000, "{names} names and {places} places of 10,000");
        assert!(doubts.bytes() <= 3_000 * 2 * 4);
    }
}
