//! How much warmth.

use std::num::NonZeroU32;
use std::time::Duration;

use super::Question;
use crate::limits::{MISS_BLOCKS, MISS_SHARE, WARMUP_BLOCKS, WARMUP_DIVERT_EVERY, WARMUP_SHARE, WARMUP_THIN_RATIO, YOUNG_FOR};

/// How much warmth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// How long a worker is young.
    pub young_for: Duration,
    /// The share of misses that goes to workers that are warmed, 0 to 1. 0 turns everything off, diversions too.
    pub share: f64,
    /// Blocks after whose gain a worker is young no more; and the level from which on a fleet has thin workers.
    pub blocks: u64,
    /// Who has less than this share of the level is thin. 0 calls nobody so.
    pub thin_ratio: f64,
    /// Hits from one diversion to the next. `None` diverts none.
    pub divert_every: Option<NonZeroU32>,
    /// A request of which the best holder has at most this share is a miss.
    pub miss_share: f64,
}

impl Options {
    /// One in so many misses. Nothing if there is no share.
    pub(super) fn slice_every(&self) -> Option<u32> {
        let every = (1.0 / self.share).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` takes what is too large for the largest"
        )]
        (self.share > 0.0).then_some((every as u32).max(1))
    }

    /// Nobody holds much of the request.
    pub(super) fn is_miss(&self, question: Question) -> bool {
        let Question { best_blocks, request_blocks } = question;
        let few = best_blocks <= MISS_BLOCKS && best_blocks.saturating_mul(2) < request_blocks;
        few || share(best_blocks, request_blocks) <= self.miss_share
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            young_for: YOUNG_FOR,
            share: WARMUP_SHARE,
            blocks: WARMUP_BLOCKS,
            thin_ratio: WARMUP_THIN_RATIO,
            divert_every: NonZeroU32::new(WARMUP_DIVERT_EVERY),
            miss_share: MISS_SHARE,
        }
    }
}

/// `part` of `whole`, 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "a share")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_by_share_and_by_number() {
        let is_miss = |best_blocks, request_blocks| Options::default().is_miss(Question { best_blocks, request_blocks });
        let misses = [(0, 1), (0, 0), (30, 100), (4, 9), (3, 7)];
        let hits = [(31, 100), (4, 8), (1, 1), (5, 11), (u64::MAX, u64::MAX)];
        assert!(misses.iter().all(|&(best, request)| is_miss(best, request)));
        assert!(hits.iter().all(|&(best, request)| !is_miss(best, request)));
    }

    #[test]
    fn any_share_is_one_in_some_number_or_none() {
        let every = |share| Options { share, ..Options::default() }.slice_every();
        let expected = [(0.25, Some(4)), (0.3, Some(3)), (1.0, Some(1)), (9.0, Some(1)), (1e-300, Some(u32::MAX))];
        expected.into_iter().for_each(|(share, expected)| assert_eq!(every(share), expected, "{share}"));
        assert_eq!([0.0, -1.0, f64::NAN].map(every), [None; 3]);
    }
}
