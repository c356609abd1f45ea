//! A place: a segment and an offset in it, in 32 bits.

use super::segments::SegmentId;

/// Where a block stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place(pub(crate) u32);

impl Place {
    #[inline]
    pub(crate) const fn new(segment: SegmentId, offset: usize) -> Self {
        Self(segment.0 << 6 | offset as u32)
    }

    #[inline]
    pub(crate) const fn segment(self) -> SegmentId {
        SegmentId(self.0 >> 6)
    }

    #[inline]
    pub(crate) const fn offset(self) -> usize {
        (self.0 & 0x3f) as usize
    }

    /// Its bit in a mask.
    #[inline]
    pub(crate) const fn bit(self) -> u64 {
        1 << self.offset()
    }

    /// In halves, for tables of half-words.
    #[inline]
    pub(crate) const fn halves(self) -> [u16; 2] {
        [self.0 as u16, (self.0 >> 16) as u16]
    }

    /// Undoes [`halves`](Self::halves).
    #[inline]
    pub(crate) const fn of_halves([low, high]: [u16; 2]) -> Self {
        Self(low as u32 | (high as u32) << 16)
    }
}
