//! What a lookup found.

use std::ops::Range;

use crate::{View, WorkerId};

/// The longest covered prefix of a request for each worker and view: levels of equal depth, deepest first.
///
/// Reuse one value for many lookups; it allocates only until it has seen the largest answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    rows: Vec<Match>,
}

/// One row of [`Matches`]: `worker`'s `view` covers the request's first `depth` blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// Blocks, at least 1.
    pub depth: u32,
    /// The worker.
    pub worker: WorkerId,
    /// The view that covers them.
    pub view: View,
}

/// All rows of one depth, in the order of workers and views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level<'a> {
    /// Blocks, at least 1.
    pub depth: u32,
    /// Who covers them. Never empty.
    pub holders: &'a [Match],
}

impl Matches {
    /// No matches yet.
    pub const fn new() -> Self {
        Self { rows: Vec::new() }
    }

    /// The levels, deepest first.
    pub fn levels(&self) -> impl Iterator<Item = Level<'_>> {
        self.rows.chunk_by(|left, right| left.depth == right.depth).map(|rows| Level { depth: rows[0].depth, holders: rows })
    }

    /// All rows, deepest first.
    pub fn iter(&self) -> impl Iterator<Item = Match> + '_ {
        self.rows.iter().copied()
    }

    /// How deep `worker`'s `view` covers the request; 0 when it does not cover the first block.
    pub fn depth(&self, worker: WorkerId, view: View) -> u32 {
        self.rows.iter().find(|row| row.worker == worker && row.view == view).map_or(0, |row| row.depth)
    }

    /// Whether nobody covers the first block.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Forgets all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.rows.clear();
    }

    /// For indexers: adds a row in any order; a depth of 0 is left out. [`finish`](Self::finish) must follow.
    pub fn push(&mut self, row: Match) {
        if row.depth > 0 {
            self.rows.push(row);
        }
    }

    /// For indexers: puts the rows in order.
    pub fn finish(&mut self) {
        self.rows.sort_unstable_by_key(|row| (std::cmp::Reverse(row.depth), row.worker, row.view));
    }
}

/// The positions of a request that one view covers, as ascending ranges `[start, end)` that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    ranges: Vec<Range<u32>>,
}

impl Runs {
    /// No positions yet.
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// The ranges, ascending.
    pub fn as_slice(&self) -> &[Range<u32>] {
        &self.ranges
    }

    /// How many positions are covered from the request's start without a hole.
    pub fn depth(&self) -> u32 {
        self.ranges.first().filter(|run| run.start == 0).map_or(0, |run| run.end)
    }

    /// Forgets all ranges and keeps the memory.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// For indexers: adds `[start, end)`, at or after the end of the last range.
    pub fn push(&mut self, start: u32, end: u32) {
        debug_assert!(self.ranges.last().is_none_or(|run| run.end <= start) && start < end);
        match self.ranges.last_mut() {
            Some(run) if run.end == start => run.end = end,
            _ => self.ranges.push(start..end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(depth: u32, worker: u32, view: u8) -> Match {
        Match { depth, worker: WorkerId(worker), view: View(view) }
    }

    #[test]
    fn levels_come_deepest_first_and_zeros_are_left_out() {
        let mut matches = Matches::new();
        for row in [row(2, 5, 0), row(7, 1, 0), row(0, 9, 0), row(2, 3, 1), row(2, 3, 0)] {
            matches.push(row);
        }
        matches.finish();
        let levels: Vec<_> = matches.levels().map(|level| (level.depth, level.holders.to_vec())).collect();
        assert_eq!(levels, [(7, vec![row(7, 1, 0)]), (2, vec![row(2, 3, 0), row(2, 3, 1), row(2, 5, 0)])]);
        assert_eq!(matches.depth(WorkerId(3), View(1)), 2);
        assert_eq!(matches.depth(WorkerId(9), View(0)), 0);
    }

    #[test]
    fn touching_ranges_join() {
        let mut runs = Runs::new();
        [(0, 2), (2, 3), (5, 6)].into_iter().for_each(|(start, end)| runs.push(start, end));
        assert_eq!(runs.as_slice(), [0..3, 5..6]);
        assert_eq!(runs.depth(), 3);
        runs.clear();
        runs.push(1, 2);
        assert_eq!(runs.depth(), 0, "a run that does not start at 0 is no prefix");
    }
}
