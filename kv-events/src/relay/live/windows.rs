//! The tokens of blocks, by slot: rows of windows beside the blocks' pages.
//!
//! All blocks of a rank's life have windows of one width, so they need no allocation of their own: a store of a hundred blocks
//! would make a hundred, and free as many that lie scattered by then.

use super::pages::Slot;
use super::shared::{Row, SharedRow};

/// The windows of all blocks of a rank.
#[derive(Debug, Default)]
pub(in crate::relay) struct Windows {
    layout: Layout,
    /// Nothing where no block of the row has a window.
    rows: Vec<Option<Row<u32>>>,
    /// For each row, how many of its windows are in use.
    used: Vec<u32>,
    /// The last row that was left without blocks: a pool that evicts as much as it stores takes it again at once.
    spare: Option<Row<u32>>,
}

/// Windows as a cut shares them.
#[derive(Debug)]
pub(in crate::relay) struct SharedWindows {
    layout: Layout,
    rows: Vec<Option<SharedRow<u32>>>,
}

/// Where a window is.
#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    /// Tokens of a window; 0 before the first is known.
    width: usize,
    /// Windows of a row, as a power of two: every block asks for its row.
    per_row_log: u32,
}

impl Windows {
    /// Notes the window of the block that is put at `slot`.
    #[inline]
    pub(super) fn put(&mut self, slot: Slot, window: &[u32]) {
        let (row, place) = self.layout.place(slot);
        if let (Some(Some(Row::Own(values))), Some(used)) = (self.rows.get_mut(row), self.used.get_mut(row))
            && let Some(place) = values.get_mut(place).filter(|place| place.len() == window.len())
        {
            place.copy_from_slice(window);
            *used += 1;
            return;
        }
        self.put_first(slot, window);
    }

    /// Likewise, if it is the first one of its row, or of all, or the first since a cut.
    #[cold]
    fn put_first(&mut self, slot: Slot, window: &[u32]) {
        if self.layout.width == 0 {
            self.layout = Layout::of(window.len());
        }
        debug_assert_eq!(window.len(), self.layout.width, "a life has one scheme");
        let (row, place) = self.layout.place(slot);
        if row >= self.rows.len() {
            self.rows.resize_with(row + 1, || None);
            self.used.resize(row + 1, 0);
        }
        let len = self.layout.width << self.layout.per_row_log;
        let fresh = || self.spare.take().unwrap_or_else(|| Row::new(vec![0; len].into()));
        let values = self.rows[row].get_or_insert_with(fresh).get_mut();
        if let Some(place) = values.get_mut(place).filter(|place| place.len() == window.len()) {
            place.copy_from_slice(window);
        }
        self.used[row] += 1;
    }

    /// The block at `slot` is gone. A row without blocks is given back, but for one of the usual size.
    pub(super) fn free(&mut self, slot: Slot) {
        let (row, _) = self.layout.place(slot);
        self.used[row] -= 1;
        if self.used[row] == 0 {
            self.spare = self.rows[row].take_if(|row| row.is_own() && row.get().len() <= ROW_TOKENS);
            self.rows[row] = None;
        }
    }

    pub(in crate::relay) fn share(&mut self) -> SharedWindows {
        let rows = self.rows.iter_mut().map(|row| row.as_mut().map(Row::share)).collect();
        SharedWindows { layout: self.layout, rows }
    }
}

impl SharedWindows {
    /// The window of the block at `slot`. Nothing if there is no block.
    pub(in crate::relay) fn of(&self, slot: Slot) -> &[u32] {
        let (row, place) = self.layout.place(slot);
        let row = self.rows.get(row).and_then(Option::as_ref);
        row.and_then(|row| row.get(place)).unwrap_or_default()
    }
}

impl Layout {
    fn of(width: usize) -> Self {
        Self { width, per_row_log: (ROW_TOKENS / width.max(1)).clamp(1, ROW_WINDOWS_MAX).ilog2() }
    }

    /// The row of a slot's window, and its tokens there.
    fn place(self, slot: Slot) -> (usize, std::ops::Range<usize>) {
        let (row, at) = (slot as usize >> self.per_row_log, slot as usize & ((1 << self.per_row_log) - 1));
        (row, at * self.width..(at + 1) * self.width)
    }
}

/// Tokens of a row, unless one window is longer: 4 kB, which the first change after a cut copies.
const ROW_TOKENS: usize = 1024;

/// Most windows of a row: a page of blocks.
const ROW_WINDOWS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn window(slot: Slot, width: usize) -> Vec<u32> {
        vec![slot + 1; width]
    }

    #[test]
    fn windows_of_any_width_are_where_they_were_put() {
        for width in [1, 4, 17, 64, 1024, 5000] {
            let mut windows = Windows::default();
            let slots = [0, 1, 63, 64, 65, 200];
            slots.iter().for_each(|&slot| windows.put(slot, &window(slot, width)));
            let shared = windows.share();
            assert!(slots.iter().all(|&slot| shared.of(slot) == window(slot, width)), "{width}");
            windows.put(2, &window(900, width));
            windows.free(0);
            assert_eq!((shared.of(0), shared.of(300)), (&*window(0, width), &[][..]), "what is shared does not change");
            assert_eq!(windows.share().of(2), window(900, width));
        }
    }

    #[test]
    fn a_row_without_blocks_takes_no_memory() {
        let mut windows = Windows::default();
        (0..200).for_each(|slot| windows.put(slot, &window(slot, 16)));
        (0..128).for_each(|slot| windows.free(slot));
        assert_eq!(windows.rows.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true, true]);
    }

    #[test]
    fn a_window_as_long_as_a_payload_gets_a_row_of_its_own() {
        let mut windows = Windows::default();
        windows.put(3, &window(3, 1 << 20));
        assert_eq!(windows.rows.iter().flatten().map(|row| row.get().len()).sum::<usize>(), 1 << 20);
    }
}
