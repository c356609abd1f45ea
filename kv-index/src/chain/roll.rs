//! The segments where a worker holds something.

use crate::raw::segments::{SEGMENTS_MAX, SegmentId};

/// A log of the words that a worker's views got and gave up, from which those that are gone are struck out now and then. No segment is
/// looked at for it: a worker whose tails come and go would pay a cache miss for each.
#[derive(Debug, Default)]
pub(crate) struct Roll {
    /// Twice the segment; one more where a word was given up.
    log: Vec<u32>,
    /// Words that the views have.
    words: usize,
}

const _: () = assert!(SEGMENTS_MAX <= 1 << 31);

/// The log may be three times as long as it has to be (for each entry that stays, one that came and one that went), and this much
/// longer.
const SLACK: usize = 64;

impl Roll {
    /// A view holds something of a segment where it held nothing.
    #[inline]
    pub(crate) fn enter(&mut self, segment: SegmentId) {
        self.words += 1;
        self.note(segment.0 << 1);
    }

    /// A view holds nothing any more of a segment where it held something.
    #[inline]
    pub(crate) fn leave(&mut self, segment: SegmentId) {
        self.words -= 1;
        self.note(segment.0 << 1 | 1);
    }

    #[inline]
    fn note(&mut self, entry: u32) {
        self.log.push(entry);
        if self.log.len() > self.words * 3 + SLACK {
            self.compact();
        }
    }

    /// Strikes out who is gone.
    #[cold]
    fn compact(&mut self) {
        self.log.sort_unstable();
        let mut kept = 0;
        let mut at = 0;
        while let Some(&first) = self.log.get(at) {
            let of_it = self.log[at..].iter().take_while(|&&entry| entry >> 1 == first >> 1).count();
            let left = self.log[at..at + of_it].iter().filter(|&&entry| entry & 1 == 1).count();
            at += of_it;
            for _ in left..of_it - left {
                self.log[kept] = first & !1;
                kept += 1;
            }
        }
        debug_assert_eq!(kept, self.words, "whoever leaves has entered");
        self.log.truncate(kept);
        self.log.shrink_to(kept * 3 + SLACK + 1);
    }

    /// In order, every segment where a view holds something, and some where one did.
    pub(crate) fn segments(&self) -> Vec<SegmentId> {
        let mut segments: Vec<SegmentId> = self.log.iter().map(|entry| SegmentId(entry >> 1)).collect();
        segments.sort_unstable();
        segments.dedup();
        segments
    }

    pub(crate) fn bytes(&self) -> usize {
        self.log.capacity() * size_of::<u32>()
    }
}

#[cfg(all(test, not(any(kv_loom, kv_shuttle))))]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn whoever_holds_something_is_on_it_and_it_stays_short() {
        let (mut roll, mut held) = (Roll::default(), BTreeMap::<u32, usize>::new());
        let mut state = 7u64;
        for step in 0..50_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = (state >> 33) as u32 % 300;
            let grows = state >> 60 < if step < 25_000 { 9 } else { 7 };
            let words = held.entry(id).or_default();
            if grows && *words < 3 {
                *words += 1;
                roll.enter(SegmentId(id));
            } else if *words > 0 {
                *words -= 1;
                roll.leave(SegmentId(id));
            }
            if *words == 0 {
                held.remove(&id);
            }
            assert!(roll.log.len() <= roll.words * 3 + SLACK);
            if step % 100 == 0 {
                let segments = roll.segments();
                assert!(held.keys().all(|&id| segments.contains(&SegmentId(id))));
                assert_eq!(roll.words, held.values().sum::<usize>());
            }
        }
        held.into_iter().for_each(|(id, words)| (0..words).for_each(|_| roll.leave(SegmentId(id))));
        assert_eq!(roll.words, 0);
        assert!(roll.bytes() <= 4 * 4 * (SLACK + 1), "{} bytes are left", roll.bytes());
    }
}
