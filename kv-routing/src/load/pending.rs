//! What was sent to a worker and is not computed yet, as far as is known here.

use std::collections::VecDeque;
use std::time::Duration;

use crate::limits::CREDITS_MAX;

/// Prompts without a first token, in the order in which they were sent.
#[derive(Debug, Default)]
pub(super) struct Pending {
    prompts: VecDeque<Prompt>,
    /// Prompts that have not ended. The others keep their places until there are too many of them.
    live: usize,
    /// Tokens of all prompts, and of those that no sample knows of yet.
    tokens: u64,
    tokens_since: u64,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Prompt {
    number: u64,
    at: Duration,
    rank: u16,
    tokens: u64,
    /// A sample of its rank was taken after it was sent.
    known: bool,
    ended: bool,
}

impl Pending {
    /// A prompt is sent. Returns its number.
    pub(super) fn begin(&mut self, at: Duration, rank: u16, tokens: u64) -> u64 {
        if self.live >= CREDITS_MAX {
            self.merge_oldest();
        }
        let number = self.next;
        self.next += 1;
        self.live += 1;
        let tokens = tokens.min(u64::MAX - self.tokens);
        self.tokens += tokens;
        self.tokens_since += tokens;
        self.prompts.push_back(Prompt { number, at, rank, tokens, known: false, ended: false });
        number
    }

    /// A prompt is computed, or never will be. Nothing happens if that is known.
    pub(super) fn end(&mut self, number: u64) {
        let Ok(place) = self.prompts.binary_search_by_key(&number, |prompt| prompt.number) else { return };
        let prompt = &mut self.prompts[place];
        if std::mem::replace(&mut prompt.ended, true) {
            return;
        }
        self.live -= 1;
        self.tokens -= prompt.tokens;
        if !prompt.known {
            self.tokens_since -= prompt.tokens;
        }
        self.tidy();
    }

    /// A sample of `rank`, taken at `sampled_at`, knows of everything sent to it until then.
    pub(super) fn cover(&mut self, rank: u16, sampled_at: Duration) {
        let news = self.prompts.iter_mut().filter(|prompt| prompt.is_live() && !prompt.known);
        for prompt in news.filter(|prompt| prompt.rank == rank && prompt.at <= sampled_at) {
            prompt.known = true;
            self.tokens_since -= prompt.tokens;
        }
    }

    /// Moments that lie ahead of `now`, from before the clock went back, are now.
    pub(super) fn turn_back(&mut self, now: Duration) {
        self.prompts.iter_mut().for_each(|prompt| prompt.at = prompt.at.min(now));
    }

    /// Tokens of all prompts.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Tokens of prompts that no sample knows of.
    pub(super) fn tokens_since(&self) -> u64 {
        self.tokens_since
    }

    /// The tokens of the youngest prompts that `rank`'s last sample knows of, `count` of them or as many as there are, and how many that
    /// was: of prompts that wait, those were sent last.
    pub(super) fn youngest_known(&self, rank: u16, count: u32) -> (u64, u32) {
        let known = self.prompts.iter().rev().filter(|prompt| prompt.is_live() && prompt.known && prompt.rank == rank);
        let counted = usize::try_from(count).unwrap_or(usize::MAX);
        known.take(counted).fold((0, 0), |(tokens, found), prompt| (tokens + prompt.tokens, found + 1))
    }

    /// The two oldest prompts count as one that is known.
    fn merge_oldest(&mut self) {
        while let Some(oldest) = self.prompts.pop_front() {
            if !oldest.is_live() {
                continue;
            }
            self.forget_news(&oldest);
            self.live -= 1;
            let next = self.prompts.iter().position(Prompt::is_live);
            match next {
                Some(place) => {
                    let next = self.prompts[place];
                    self.forget_news(&next);
                    self.prompts[place] = Prompt { tokens: next.tokens + oldest.tokens, known: true, ..next };
                }
                None => self.tokens -= oldest.tokens,
            }
            return;
        }
    }

    fn forget_news(&mut self, prompt: &Prompt) {
        if !prompt.known {
            self.tokens_since -= prompt.tokens;
        }
    }

    /// Lets go the places of ended prompts, at the latest when they are more than the live ones.
    fn tidy(&mut self) {
        while self.prompts.front().is_some_and(|prompt| prompt.ended) {
            self.prompts.pop_front();
        }
        if self.prompts.len() > 2 * self.live + ENDED_KEPT {
            self.prompts.retain(Prompt::is_live);
        }
    }
}

impl Prompt {
    fn is_live(&self) -> bool {
        !self.ended
    }
}

/// So few ended prompts are not worth a pass.
const ENDED_KEPT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn each_prompt_is_taken_over_once_by_whatever_comes_first() {
        let mut pending = Pending::default();
        let numbers: Vec<u64> = (1..=4).map(|at| pending.begin(s(at), 0, at * 10)).collect();
        pending.end(numbers[1]);
        pending.end(numbers[1]);
        assert_eq!((pending.tokens(), pending.tokens_since()), (80, 80));
        pending.cover(0, s(3));
        pending.cover(0, s(3));
        assert_eq!((pending.tokens(), pending.tokens_since()), (80, 40), "at or before the sample");
        pending.end(numbers[0]);
        assert_eq!((pending.tokens(), pending.tokens_since()), (70, 40));
        numbers.into_iter().for_each(|number| pending.end(number));
        assert_eq!((pending.tokens(), pending.tokens_since(), pending.prompts.len()), (0, 0, 0));
    }

    #[test]
    fn a_rank_covers_only_its_own() {
        let mut pending = Pending::default();
        pending.begin(s(1), 0, 10);
        pending.begin(s(1), 1, 500);
        pending.cover(0, s(9));
        assert_eq!(pending.tokens_since(), 500);
        assert_eq!((pending.youngest_known(0, 9), pending.youngest_known(1, 9)), ((10, 1), (0, 0)));
    }

    #[test]
    fn of_known_prompts_the_youngest_wait() {
        let mut pending = Pending::default();
        let numbers: Vec<u64> = (1..=5).map(|at| pending.begin(s(at), 0, at)).collect();
        pending.cover(0, s(4));
        pending.end(numbers[2]);
        assert_eq!([0, 1, 2, 3, 9].map(|count| pending.youngest_known(0, count)), [(0, 0), (4, 1), (6, 2), (7, 3), (7, 3)]);
    }

    #[test]
    fn beyond_the_bound_the_oldest_are_counted_together() {
        let mut pending = Pending::default();
        let count = CREDITS_MAX as u64 + 100;
        let numbers: Vec<u64> = (0..count).map(|at| pending.begin(s(at), 0, 1)).collect();
        assert_eq!((pending.prompts.len(), pending.tokens()), (CREDITS_MAX, count));
        assert_eq!(pending.tokens_since(), CREDITS_MAX as u64 - 1, "101 in one, which counts as known");
        numbers.into_iter().for_each(|number| pending.end(number));
        assert_eq!((pending.prompts.len(), pending.tokens(), pending.tokens_since()), (0, 0, 0));
    }

    #[test]
    fn one_long_request_does_not_keep_the_places_of_all_after_it() {
        let mut pending = Pending::default();
        pending.begin(s(0), 0, 1);
        for at in 0..10 * CREDITS_MAX as u64 {
            let number = pending.begin(s(at), 0, 1);
            pending.end(number);
            assert!(pending.prompts.len() <= 2 + ENDED_KEPT + 2);
        }
        assert_eq!(pending.tokens(), 1);
    }

    #[test]
    fn no_number_of_tokens_overflows() {
        let mut pending = Pending::default();
        let numbers = [u64::MAX, 7, u64::MAX].map(|tokens| pending.begin(s(0), 0, tokens));
        assert_eq!(pending.tokens(), u64::MAX);
        numbers.into_iter().for_each(|number| pending.end(number));
        assert_eq!((pending.tokens(), pending.tokens_since()), (0, 0));
    }
}
