//! What a lookup found.

use std::ops::Range;

use crate::chain::Active;
use crate::{View, WorkerId};

/// The longest covered prefix of a request for each worker and view: levels of equal depth, deepest first.
///
/// Reuse one value for many lookups; it allocates only until it has seen the largest answer. A selector that reads the
/// deepest levels pays for these only: a level of a thousand workers may be kept as a set of bits and is spelled out while it
/// is read.
#[derive(Clone, Debug, Default)]
pub struct Matches {
    pub(crate) found: Found,
    pending: Vec<(u32, Row)>,
    /// What a lookup in a chain index works with.
    pub(crate) active: Active,
    pub(crate) retries: u32,
}

/// The levels themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Shallowest first.
    spans: Vec<Span>,
    rows: Vec<Row>,
    bits: Vec<u64>,
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

/// All views that cover one depth and no more.
#[derive(Clone, Copy, Debug)]
pub struct Level<'a> {
    /// Blocks, at least 1.
    pub depth: u32,
    rows: &'a [Row],
    bits: &'a [u64],
}

/// A level: some rows, and some bits for main views.
#[derive(Clone, Debug)]
struct Span {
    depth: u32,
    rows: Range<usize>,
    bits: Range<usize>,
}

/// A worker in the low 27 bits and its view above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row(u32);

pub(crate) const WORKER_BITS: u32 = 27;

impl Row {
    fn new(worker: u32, view: u8) -> Self {
        debug_assert!(worker >> WORKER_BITS == 0);
        Self(worker | u32::from(view) << WORKER_BITS)
    }

    fn holder(self) -> (WorkerId, View) {
        (WorkerId(self.0 & ((1 << WORKER_BITS) - 1)), View((self.0 >> WORKER_BITS) as u8))
    }
}

impl Matches {
    /// No matches yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The levels, deepest first.
    pub fn levels(&self) -> impl Iterator<Item = Level<'_>> {
        (0..self.found.spans.len()).rev().map(|at| self.found.level(at))
    }

    /// All rows, deepest first.
    pub fn iter(&self) -> Rows<'_> {
        Rows { found: &self.found, spans: self.found.spans.len(), depth: 0, holders: Holders::none() }
    }

    /// How deep `worker`'s `view` covers the request; 0 when it does not cover the first block.
    pub fn depth(&self, worker: WorkerId, view: View) -> u32 {
        self.levels().find(|level| level.contains(worker, view)).map_or(0, |level| level.depth)
    }

    /// Whether nobody covers the first block.
    pub fn is_empty(&self) -> bool {
        self.found.spans.is_empty()
    }

    /// Forgets all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.found.clear();
        self.pending.clear();
    }

    /// How often the last lookup in a [`ChainIndex`](crate::ChainIndex) had to look again because a writer changed what it was
    /// looking at.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// For indexers: adds a row in any order; a depth of 0 is left out. [`finish`](Self::finish) must follow.
    ///
    /// # Panics
    /// For workers from 2^27.
    pub fn push(&mut self, row: Match) {
        assert!(row.worker.0 >> WORKER_BITS == 0, "{} is beyond what a row has room for", row.worker);
        if row.depth > 0 {
            self.pending.push((row.depth, Row::new(row.worker.0, row.view.0)));
        }
    }

    /// For indexers: puts the rows in order.
    pub fn finish(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.sort_unstable();
        pending.drain(..).for_each(|(depth, row)| self.found.append(depth, row));
        self.pending = pending;
    }
}

impl Found {
    #[inline]
    fn level(&self, at: usize) -> Level<'_> {
        let span = &self.spans[at];
        Level { depth: span.depth, rows: &self.rows[span.rows.clone()], bits: &self.bits[span.bits.clone()] }
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.spans.clear();
        self.rows.clear();
        self.bits.clear();
    }

    /// Adds a row that is no shallower than those before.
    #[inline]
    pub(crate) fn append_row(&mut self, depth: u32, worker: u32, view: u8) {
        self.append(depth, Row::new(worker, view));
    }

    /// Adds main views, worker 0 in the lowest bit of the first word, deeper than all before. There is one.
    #[inline]
    pub(crate) fn append_bits(&mut self, depth: u32, bits: &[u64]) {
        let start = self.bits.len();
        self.bits.extend_from_slice(bits);
        self.span(depth).bits = start..start + bits.len();
    }

    #[inline]
    fn append(&mut self, depth: u32, row: Row) {
        self.rows.push(row);
        let end = self.rows.len();
        self.span(depth).rows.end = end;
    }

    /// The deepest span, which is made if it is another's depth.
    #[inline]
    fn span(&mut self, depth: u32) -> &mut Span {
        if self.spans.last().is_none_or(|span| span.depth != depth) {
            debug_assert!(self.spans.last().is_none_or(|span| span.depth < depth));
            let start = self.spans.last().map_or(0, |span| span.rows.end);
            self.spans.push(Span { depth, rows: start..start, bits: 0..0 });
        }
        self.spans.last_mut().expect("pushed if there was none")
    }
}

impl<'a> Level<'a> {
    /// Who covers the depth, in no order. At least one.
    pub fn holders(&self) -> Holders<'a> {
        Holders::of(self.rows, self.bits)
    }

    /// How many views cover the depth.
    pub fn len(&self) -> usize {
        self.holders().len()
    }

    /// Never: a level has a holder.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `worker`'s `view` is among them.
    pub fn contains(&self, worker: WorkerId, view: View) -> bool {
        let bit = || self.bits.get(worker.0 as usize / 64).is_some_and(|word| word >> (worker.0 % 64) & 1 == 1);
        self.rows.iter().any(|row| row.holder() == (worker, view)) || (view == View::MAIN && bit())
    }
}

impl<'a> IntoIterator for &'a Matches {
    type Item = Match;
    type IntoIter = Rows<'a>;

    fn into_iter(self) -> Rows<'a> {
        self.iter()
    }
}

/// The rows of [`Matches`], deepest first.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    found: &'a Found,
    /// Levels that were not begun, the shallowest ones.
    spans: usize,
    depth: u32,
    holders: Holders<'a>,
}

impl Iterator for Rows<'_> {
    type Item = Match;

    #[inline]
    fn next(&mut self) -> Option<Match> {
        loop {
            if let Some((worker, view)) = self.holders.next() {
                return Some(Match { depth: self.depth, worker, view });
            }
            self.spans = self.spans.checked_sub(1)?;
            let level = self.found.level(self.spans);
            (self.depth, self.holders) = (level.depth, level.holders());
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let begun = self.holders.len();
        let rows = begun + (0..self.spans).map(|at| self.found.level(at).len()).sum::<usize>();
        (rows, Some(rows))
    }

    /// What `for_each` does: a loop within a loop, where `next` has to remember where it was.
    #[inline]
    fn fold<B, F: FnMut(B, Match) -> B>(self, init: B, mut f: F) -> B {
        let mut level =
            |init, depth, holders: Holders<'_>| holders.fold(init, |all, (worker, view)| f(all, Match { depth, worker, view }));
        let begun = level(init, self.depth, self.holders);
        let levels = (0..self.spans).rev().map(|at| self.found.level(at));
        levels.fold(begun, |all, found| level(all, found.depth, found.holders()))
    }
}

impl ExactSizeIterator for Rows<'_> {}

/// Who covers one depth: the workers and their views, in no order.
#[derive(Clone, Debug)]
pub struct Holders<'a> {
    rows: std::slice::Iter<'a, Row>,
    /// Of the word at hand, the bits that were not seen, and the worker of its lowest.
    word: u64,
    first: u32,
    /// The words after it.
    words: std::slice::Iter<'a, u64>,
}

impl<'a> Holders<'a> {
    fn none() -> Self {
        Self::of(&[], &[])
    }

    fn of(rows: &'a [Row], bits: &'a [u64]) -> Self {
        let (word, words) = bits.split_first().map_or((0, bits), |(&word, words)| (word, words));
        Self { rows: rows.iter(), word, first: 0, words: words.iter() }
    }
}

impl Iterator for Holders<'_> {
    type Item = (WorkerId, View);

    #[inline]
    fn next(&mut self) -> Option<(WorkerId, View)> {
        if let Some(row) = self.rows.next() {
            return Some(row.holder());
        }
        while self.word == 0 {
            self.word = *self.words.next()?;
            self.first += u64::BITS;
        }
        let worker = WorkerId(self.first + self.word.trailing_zeros());
        self.word &= self.word - 1;
        Some((worker, View::MAIN))
    }

    /// Skips whole words of bits at a time: who wants every hundredth of a thousand holders does not pay for the rest.
    #[inline]
    fn nth(&mut self, mut n: usize) -> Option<(WorkerId, View)> {
        let rows = self.rows.len();
        if n < rows {
            return self.rows.nth(n).map(|row| row.holder());
        }
        self.rows = [].iter();
        n -= rows;
        loop {
            let ones = self.word.count_ones() as usize;
            if n < ones {
                break;
            }
            n -= ones;
            self.word = 0;
            self.word = *self.words.next()?;
            self.first += u64::BITS;
        }
        (0..n).for_each(|_| self.word &= self.word - 1);
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let bits = self.word.count_ones() + self.words.as_slice().iter().map(|word| word.count_ones()).sum::<u32>();
        let holders = self.rows.len() + bits as usize;
        (holders, Some(holders))
    }

    #[inline]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, mut f: F) -> B {
        let Self { rows, mut word, mut first, mut words } = self;
        let mut all = rows.fold(init, |all, row| f(all, row.holder()));
        loop {
            while word != 0 {
                all = f(all, (WorkerId(first + word.trailing_zeros()), View::MAIN));
                word &= word - 1;
            }
            let Some(&next) = words.next() else { return all };
            (word, first) = (next, first + u64::BITS);
        }
    }
}

impl ExactSizeIterator for Holders<'_> {}

/// Whether both say the same of every view.
impl PartialEq for Matches {
    fn eq(&self, other: &Self) -> bool {
        let sorted = |matches: &Self| {
            let mut rows: Vec<_> = matches.iter().map(|row| (row.depth, row.worker, row.view)).collect();
            rows.sort_unstable();
            rows
        };
        sorted(self) == sorted(other)
    }
}

impl Eq for Matches {}

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
        let of = |worker, view| (WorkerId(worker), View(view));
        let levels: Vec<_> = matches.levels().map(|level| (level.depth, level.holders().collect::<Vec<_>>())).collect();
        assert_eq!(levels, [(7, vec![of(1, 0)]), (2, vec![of(3, 0), of(5, 0), of(3, 1)])]);
        assert_eq!(matches.depth(WorkerId(3), View(1)), 2);
        assert_eq!(matches.depth(WorkerId(9), View(0)), 0);
    }

    #[test]
    fn rows_and_bits_are_counted_before_they_are_told() {
        let mut matches = Matches::new();
        matches.found.append_row(3, 70, 1);
        matches.found.append_bits(5, &[1 << 63, 0, 0b11]);
        matches.found.append_row(5, 9, 2);
        let mut rows = matches.iter();
        let told: Vec<_> = std::iter::from_fn(|| Some((rows.len(), rows.next()?))).collect();
        let expected = [row(5, 9, 2), row(5, 63, 0), row(5, 128, 0), row(5, 129, 0), row(3, 70, 1)];
        assert_eq!(told, (1..=5).rev().zip(&expected).map(|(left, &row)| (left, row)).collect::<Vec<_>>());
        assert_eq!((rows.len(), rows.next()), (0, None));
        for begun in 0..=expected.len() {
            let mut rows = matches.iter();
            (0..begun).for_each(|_| assert!(rows.next().is_some()));
            let mut left = Vec::new();
            rows.for_each(|row| left.push(row));
            assert_eq!(left, expected[begun..], "told at once after {begun} one by one");
        }
    }

    #[test]
    fn skipping_holders_is_taking_the_later_ones() {
        let mut matches = Matches::new();
        [7, 300, 70].into_iter().for_each(|worker| matches.found.append_row(5, worker, 1));
        matches.found.append_bits(5, &[1 << 63 | 0b101, 0, u64::MAX, 1 << 10]);
        let holders = matches.levels().next().unwrap().holders();
        let all: Vec<_> = holders.clone().collect();
        assert_eq!(all.len(), 71);
        for (begun, n) in (0..all.len() + 2).flat_map(|begun| (0..all.len() + 2).map(move |n| (begun, n))) {
            let mut skipping = holders.clone();
            (0..begun).for_each(|_| _ = skipping.next());
            assert_eq!(skipping.nth(n), all.get(begun + n).copied(), "{begun} {n}");
            let rest: Vec<_> = skipping.collect();
            assert_eq!(rest, all.get(begun + n + 1..).unwrap_or_default(), "{begun} {n}");
        }
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
