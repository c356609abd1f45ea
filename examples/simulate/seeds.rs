//! Which seeds are played.

use std::str::FromStr;

/// A seed, or all from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    first: u64,
    last: u64,
}

impl Seeds {
    /// Each of them.
    pub fn all(self) -> impl Iterator<Item = u64> {
        self.first..=self.last
    }
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse().map_err(|_| format!("expected a seed or FIRST-LAST, got {text:?}"));
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (number(first)?, number(last)?);
        if last < first || last - first >= SEEDS_MAX {
            return Err(format!("expected 1 to {SEEDS_MAX} seeds from the lowest to the highest, got {text:?}"));
        }
        Ok(Self { first, last })
    }
}

/// Every scene is played for every seed, so that more would take days.
const SEEDS_MAX: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<u64>, String> {
        text.parse().map(|seeds: Seeds| seeds.all().collect())
    }

    #[test]
    fn one_or_a_range() {
        assert_eq!((of("7"), of("3-5"), of("9 - 9")), (Ok(vec![7]), Ok(vec![3, 4, 5]), Ok(vec![9])));
        assert!(of("5-3").unwrap_err().contains("expected 1 to 10000 seeds"));
        assert!(["0-10000", "", "-3", "a"].iter().all(|text| of(text).is_err()));
    }
}
