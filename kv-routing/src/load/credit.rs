//! What was sent to a worker since it spoke last.

use std::collections::VecDeque;
use std::time::Duration;

use crate::limits::CREDITS_MAX;

/// Prompt tokens of dispatches that no sample covers yet and that have no first token.
#[derive(Debug, Default)]
pub(super) struct Credit {
    /// In the order of their numbers. What was released has no tokens.
    entries: VecDeque<Entry>,
    /// The sum of all entries.
    tokens: u64,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u64,
    at: Duration,
    rank: u16,
    tokens: u64,
}

impl Credit {
    /// Books a dispatch. Returns its number.
    pub(super) fn book(&mut self, at: Duration, rank: u16, tokens: u64) -> u64 {
        if self.entries.len() >= CREDITS_MAX {
            self.merge_oldest();
        }
        let number = self.next;
        self.next += 1;
        let tokens = tokens.min(u64::MAX - self.tokens);
        self.tokens += tokens;
        self.entries.push_back(Entry { number, at, rank, tokens });
        number
    }

    /// The dispatch counts no more. Nothing happens if it did not before.
    pub(super) fn release(&mut self, number: u64) {
        let Ok(place) = self.entries.binary_search_by_key(&number, |entry| entry.number) else { return };
        self.tokens -= std::mem::take(&mut self.entries[place].tokens);
        self.trim();
    }

    /// A sample of `rank`, taken at `sampled_at`, knows of everything sent to it until then.
    pub(super) fn cover(&mut self, rank: u16, sampled_at: Duration) {
        let covered = self.entries.iter_mut().filter(|entry| entry.rank == rank && entry.at <= sampled_at);
        self.tokens -= covered.map(|entry| std::mem::take(&mut entry.tokens)).sum::<u64>();
        self.trim();
    }

    /// Moments that lie ahead of `now`, from before the clock went back, are now.
    pub(super) fn turn_back(&mut self, now: Duration) {
        self.entries.iter_mut().for_each(|entry| entry.at = entry.at.min(now));
    }

    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The oldest entry's tokens count with the second oldest's: no longer apart, but not lost.
    fn merge_oldest(&mut self) {
        let Some(oldest) = self.entries.pop_front() else { return };
        if let Some(next) = self.entries.front_mut() {
            next.tokens += oldest.tokens;
        }
    }

    fn trim(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.tokens == 0) {
            self.entries.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn each_dispatch_is_released_once_by_whatever_comes_first() {
        let mut credit = Credit::default();
        let numbers: Vec<u64> = (1..=4).map(|at| credit.book(s(at), 0, at * 10)).collect();
        credit.release(numbers[1]);
        credit.release(numbers[1]);
        assert_eq!(credit.tokens(), 80);
        credit.cover(0, s(3));
        credit.release(numbers[0]);
        assert_eq!(credit.tokens(), 40, "at or before the sample");
        credit.release(numbers[3]);
        assert_eq!((credit.tokens(), credit.entries.len()), (0, 0));
    }

    #[test]
    fn a_rank_covers_only_its_own() {
        let mut credit = Credit::default();
        credit.book(s(1), 0, 10);
        credit.book(s(1), 1, 500);
        credit.cover(0, s(9));
        assert_eq!(credit.tokens(), 500);
    }

    #[test]
    fn beyond_the_bound_the_oldest_are_counted_together() {
        let mut credit = Credit::default();
        let count = CREDITS_MAX as u64 + 100;
        let numbers: Vec<u64> = (0..count).map(|at| credit.book(s(at), 0, 1)).collect();
        assert_eq!((credit.entries.len(), credit.tokens()), (CREDITS_MAX, count));
        numbers.into_iter().for_each(|number| credit.release(number));
        assert_eq!((credit.entries.len(), credit.tokens()), (0, 0));
    }

    #[test]
    fn no_number_of_tokens_overflows() {
        let mut credit = Credit::default();
        let numbers = [u64::MAX, 7, u64::MAX].map(|tokens| credit.book(s(0), 0, tokens));
        assert_eq!(credit.tokens(), u64::MAX);
        numbers.into_iter().for_each(|number| credit.release(number));
        assert_eq!(credit.tokens(), 0);
    }
}
