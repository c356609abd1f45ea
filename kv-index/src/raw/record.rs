//! How one segment lies in memory: a header, its holders, the contents of its places, and their names.
//!
//! ```text
//! word 0     meta: length, capacity, lines for holders, named, offset in the parent, whether the lines are a table, holder count
//!      1     parent's segment (low half) and the position of the first place (high half)
//!      2     link: the first child's segment (low half), a tag of its first content, the offset it leaves at
//!      3     edges: bit k is set while a child follows place k
//!      4     claimed: bit k is set while the shared name table says that names[k] stands at place k
//!      5     extension: what holders have outside; 0 for nothing
//!      6..   holders, two to a word: 4, 20 or 36 of them; or 4, and a byte for each of the first 64 or 128 workers
//!      ..    contents, one word for each place up to the capacity
//!      ..    names, likewise, if the record is named
//! ```
//!
//! All words are atomics. Readers load them `Relaxed` inside a window (see [`super::segments`]); a writer holds the segment's
//! lock.

use crate::sync::atomic::{AtomicU64, Ordering};

use super::segments::SegmentId;
use super::slabs::LINE_WORDS;

/// Places of a full segment: what one mask word covers.
#[cfg(not(any(kv_loom, kv_shuttle)))]
pub(crate) const PLACES: usize = 64;
/// Small enough that a model meets the second segment.
#[cfg(any(kv_loom, kv_shuttle))]
pub(crate) const PLACES: usize = 4;

/// Lines that the inline holders take beyond the header's own two words, at most: 36 holders. A search runs along them.
#[cfg(not(any(kv_loom, kv_shuttle)))]
pub(crate) const HOLDER_LINES_MAX: usize = 2;
#[cfg(any(kv_loom, kv_shuttle))]
pub(crate) const HOLDER_LINES_MAX: usize = 0;

const HEADER: usize = 8;
const META: usize = 0;
const PARENT: usize = 1;
const LINK: usize = 2;
const EDGES: usize = 3;
const CLAIMED: usize = 4;
const EXTENSION: usize = 5;
const HOLDERS: usize = 6;

/// Words of the largest record.
const RECORD_MAX: usize = HEADER + HOLDER_LINES_MAX * LINE_WORDS + 2 * PLACES;

/// The words of a record, from its first; they may run beyond its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    words: &'a [AtomicU64; RECORD_MAX],
}

/// Word 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Places that exist.
    pub(crate) len: usize,
    /// Places that there is room for.
    pub(crate) capacity: usize,
    /// Lines of inline holders beyond the header.
    pub(crate) holder_lines: usize,
    /// Whether there is room for names.
    pub(crate) named: bool,
    /// Places of the parent before this segment: 1 to [`PLACES`], or 0 below the root.
    pub(crate) parent_offset: usize,
    /// Whether the lines of holders have a byte for each worker instead of two holders to a word.
    pub(crate) tabled: bool,
    /// Slots with a holding.
    pub(crate) holders: usize,
}

/// Word 2: the first child's segment (low half; the root's id for no link), 24 bits of its first content, so that most strangers
/// are told apart without touching the child, and how many places are before it, 1 to [`PLACES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link(u64);

impl Meta {
    /// Whether a holder's word stands at the same place in both shapes, as far as both have room.
    pub(crate) const fn keeps_holders_of(self, old: Self) -> bool {
        self.tabled == old.tabled && (!self.tabled || self.holder_lines == old.holder_lines)
    }

    /// Lines that a record of this shape takes.
    pub(crate) const fn lines(&self) -> usize {
        let names = if self.named { self.capacity } else { 0 };
        (HEADER + self.holder_lines * LINE_WORDS + self.capacity + names).div_ceil(LINE_WORDS)
    }

    /// The capacity that a record of so many lines has to spare, up to [`PLACES`]: `capacity` rounded up to whole lines.
    pub(crate) const fn roomy(mut self) -> Self {
        let places_per_line = if self.named { LINE_WORDS / 2 } else { LINE_WORDS };
        let capacity = self.capacity.div_ceil(places_per_line) * places_per_line;
        self.capacity = if capacity < PLACES { capacity } else { PLACES };
        self
    }

    #[inline]
    fn unpack(word: u64) -> Self {
        Self {
            // Beside a writer the word may be anything: no more places are looked at than a record has.
            len: ((word & 0x7f) as usize).min(PLACES),
            capacity: ((word >> 7 & 0x7f) as usize).min(PLACES),
            holder_lines: (word >> 14 & 0x3) as usize,
            named: word >> 16 & 1 == 1,
            parent_offset: (word >> 17 & 0x7f) as usize,
            tabled: word >> 24 & 1 == 1,
            holders: (word >> 36) as usize,
        }
    }

    #[inline]
    const fn pack(self) -> u64 {
        self.len as u64
            | (self.capacity as u64) << 7
            | (self.holder_lines as u64) << 14
            | (self.named as u64) << 16
            | (self.parent_offset as u64) << 17
            | (self.tabled as u64) << 24
            | (self.holders as u64) << 36
    }
}

impl Link {
    /// To a child that follows `offset` places and begins with `content`.
    #[inline]
    pub(crate) const fn new(child: SegmentId, offset: usize, content: u64) -> Self {
        // The low bits of a content hash are as good as any; an adversary who knows them gains one look at the child.
        Self((offset as u64) << 56 | (content & 0xff_ffff) << 32 | child.0 as u64)
    }

    #[inline]
    pub(crate) const fn child(self) -> SegmentId {
        SegmentId(self.0 as u32)
    }

    /// Whether there is a child.
    #[inline]
    pub(crate) const fn is_some(self) -> bool {
        self.0 as u32 != SegmentId::ROOT.0
    }

    #[inline]
    pub(crate) const fn offset(self) -> usize {
        (self.0 >> 56) as usize
    }

    /// Whether the child follows so many places, and may begin with `content`.
    #[inline]
    pub(crate) const fn leads(self, offset: usize, content: u64) -> bool {
        self.0 >> 32 == Self::new(SegmentId::ROOT, offset, content).0 >> 32 && self.is_some()
    }
}

impl<'a> Record<'a> {
    /// How many words to ask for: shapes are not known before the first is read.
    pub(crate) const WORDS: usize = RECORD_MAX;

    /// The record that begins with the first word.
    ///
    /// # Panics
    /// If there are fewer than [`WORDS`](Self::WORDS). Behind each block of the slabs there are more.
    #[inline]
    pub(crate) fn new(words: &'a [AtomicU64]) -> Self {
        Self { words: words.first_chunk().expect("a record's words can be read") }
    }

    #[inline]
    fn load(self, word: usize) -> u64 {
        self.words[word].load(Ordering::Relaxed)
    }

    #[inline]
    fn store(self, word: usize, value: u64) {
        // Release: a reader that sees a length, a link or a holder sees what it promises.
        self.words[word].store(value, Ordering::Release);
    }

    /// Acquire: what the length promises is there.
    #[inline]
    pub(crate) fn meta(self) -> Meta {
        Meta::unpack(self.words[META].load(Ordering::Acquire))
    }

    pub(crate) fn set_meta(self, meta: Meta) {
        self.store(META, meta.pack());
    }

    /// The parent's segment, 0 for the root, and the position of the first place.
    #[inline]
    pub(crate) fn parent(self) -> (SegmentId, u32) {
        let word = self.load(PARENT);
        (SegmentId(word as u32), (word >> 32) as u32)
    }

    pub(crate) fn set_parent(self, parent: SegmentId, position: u32) {
        self.store(PARENT, u64::from(parent.0) | u64::from(position) << 32);
    }

    #[inline]
    pub(crate) fn link(self) -> Link {
        Link(self.load(LINK))
    }

    pub(crate) fn set_link(self, link: Link) {
        self.store(LINK, link.0);
    }

    #[inline]
    pub(crate) fn edges(self) -> u64 {
        self.load(EDGES)
    }

    pub(crate) fn set_edges(self, edges: u64) {
        self.store(EDGES, edges);
    }

    #[inline]
    pub(crate) fn claimed(self) -> u64 {
        self.load(CLAIMED)
    }

    pub(crate) fn set_claimed(self, claimed: u64) {
        self.store(CLAIMED, claimed);
    }

    /// What is outside the record, 0 for nothing. Acquire: what it says is there.
    #[inline]
    pub(crate) fn extension(self) -> u64 {
        self.words[EXTENSION].load(Ordering::Acquire)
    }

    pub(crate) fn set_extension(self, extension: u64) {
        self.store(EXTENSION, extension);
    }

    /// The inline holders, two to a word.
    #[inline]
    pub(crate) fn holders(self, meta: Meta) -> &'a [AtomicU64] {
        let lines = if meta.tabled { 0 } else { meta.holder_lines };
        self.words.get(HOLDERS..HEADER + lines * LINE_WORDS).unwrap_or_default()
    }

    /// A byte for each worker, eight to a word, if the record has such a table.
    #[inline]
    pub(crate) fn table(self, meta: Meta) -> &'a [AtomicU64] {
        let lines = if meta.tabled { meta.holder_lines } else { 0 };
        self.words.get(HEADER..HEADER + lines * LINE_WORDS).unwrap_or_default()
    }

    /// The contents of `len` places.
    #[inline]
    pub(crate) fn contents(self, meta: Meta, len: usize) -> &'a [AtomicU64] {
        let start = HEADER + meta.holder_lines * LINE_WORDS;
        self.words.get(start..start + len).unwrap_or_default()
    }

    /// The names of `len` places; empty if the record has none.
    #[inline]
    pub(crate) fn names(self, meta: Meta, len: usize) -> &'a [AtomicU64] {
        if !meta.named {
            return &[];
        }
        let start = HEADER + meta.holder_lines * LINE_WORDS + meta.capacity;
        self.words.get(start..start + len).unwrap_or_default()
    }

    /// Whether this is the segment that follows `offset` places of `parent` and begins with `content`.
    #[inline]
    pub(crate) fn is_child(self, parent: SegmentId, offset: usize, content: u64) -> bool {
        let meta = self.meta();
        let first = self.contents(meta, meta.len.min(1)).first();
        meta.parent_offset == offset
            && self.parent().0 == parent
            && first.is_some_and(|first| first.load(Ordering::Relaxed) == content)
    }

    /// Makes a new record of shape `meta` that holds nothing.
    pub(crate) fn clear(self, meta: Meta) {
        self.words[PARENT..HEADER + meta.holder_lines * LINE_WORDS].iter().for_each(|word| word.store(0, Ordering::Relaxed));
        self.set_meta(meta);
    }

    /// Makes a new record of shape `meta` out of `from`: everything but the room and, if these are kept in another way, the
    /// holders.
    pub(crate) fn copy(self, meta: Meta, from: Record<'_>) {
        let old = from.meta();
        self.clear(meta);
        for word in [PARENT, LINK, EDGES, CLAIMED, EXTENSION] {
            self.words[word].store(from.load(word), Ordering::Relaxed);
        }
        if meta.keeps_holders_of(old) {
            copy_words(self.holders(meta), from.holders(old));
            copy_words(self.table(meta), from.table(old));
        }
        copy_words(self.contents(meta, old.len), from.contents(old, old.len));
        copy_words(self.names(meta, old.len), from.names(old, old.len));
    }
}

/// Copies as many words as both have.
pub(crate) fn copy_words(to: &[AtomicU64], from: &[AtomicU64]) {
    to.iter().zip(from).for_each(|(to, from)| to.store(from.load(Ordering::Relaxed), Ordering::Relaxed));
}

#[cfg(all(test, not(any(kv_loom, kv_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn shapes_and_links_survive_packing() {
        let meta = Meta { len: 64, capacity: 64, holder_lines: 2, named: true, parent_offset: 64, tabled: true, holders: 70_000 };
        assert_eq!(Meta::unpack(meta.pack()), meta);
        assert_eq!(meta.lines() * LINE_WORDS, RECORD_MAX);
        let words: Vec<_> = (0..RECORD_MAX).map(|_| AtomicU64::new(9)).collect();
        let record = Record::new(&words);
        record.clear(meta);
        let link = Link::new(SegmentId(u32::MAX), 64, u64::MAX);
        assert_eq!((link.child(), link.offset()), (SegmentId(u32::MAX), 64));
        assert!(link.leads(64, 0xff_ffff) && !link.leads(63, u64::MAX) && !link.leads(64, 0xff_fffe));
        record.set_link(link);
        record.set_parent(SegmentId(u32::MAX), 7);
        assert_eq!((record.link(), record.parent(), record.meta()), (link, (SegmentId(u32::MAX), 7), meta));
    }

    #[test]
    fn rounding_up_fills_the_last_line_and_no_more() {
        for named in [false, true] {
            for capacity in 1..=PLACES {
                let tight = Meta { capacity, named, ..Meta::default() };
                let roomy = tight.roomy();
                assert!(roomy.capacity >= capacity && roomy.lines() == tight.lines(), "{tight:?} {roomy:?}");
            }
        }
    }

    #[test]
    fn a_copy_has_everything_and_more_room() {
        let small = Meta { len: 2, capacity: 2, named: true, ..Meta::default() };
        let large = Meta { capacity: 9, holder_lines: 1, ..small };
        let words: Vec<_> = (0..RECORD_MAX as u64).map(AtomicU64::new).collect();
        let from = Record::new(&words);
        from.set_meta(small);
        let copies: Vec<_> = (0..RECORD_MAX).map(|_| AtomicU64::new(9)).collect();
        let to = Record::new(&copies);
        to.copy(large, from);
        let values = |words: &[AtomicU64]| words.iter().map(|word| word.load(Ordering::Relaxed)).collect::<Vec<_>>();
        assert_eq!(values(to.contents(large, 2)), [8, 9]);
        assert_eq!(values(to.names(large, 2)), [10, 11]);
        assert_eq!(values(to.holders(large))[..3], [6, 7, 0]);
        assert_eq!((to.edges(), to.claimed(), to.extension()), (3, 4, 5));
    }
}
