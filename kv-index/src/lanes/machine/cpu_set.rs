//! Sets of CPUs, in the notation of the kernel.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::limits::CPUS_MAX;

/// CPUs by the operating system's numbers.
///
/// Reads and prints as Linux does: numbers and ranges, ascending, between commas. The empty set is the empty text.
///
/// ```
/// use kv_index::lanes::CpuSet;
///
/// let cpus: CpuSet = "0-3,8".parse()?;
/// assert_eq!(cpus.len(), 5);
/// assert_eq!(cpus.to_string(), "0-3,8");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuSet(BTreeSet<u32>);

/// A text is no list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected numbers below {CPUS_MAX} such as 0-3,8, found {found:?}")]
pub struct CpuSetError {
    /// The part that is not one.
    pub found: String,
}

impl CpuSet {
    /// No CPU.
    pub const fn new() -> Self {
        Self(BTreeSet::new())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `cpu` is one of them.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// The lowest number.
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// The highest number.
    pub fn last(&self) -> Option<u32> {
        self.0.last().copied()
    }

    /// All of them, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Those that are in `other` too.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(&self.0 & &other.0)
    }

    /// Those that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(&self.0 - &other.0)
    }

    /// One more.
    pub fn insert(&mut self, cpu: u32) {
        self.0.insert(cpu);
    }
}

impl From<u32> for CpuSet {
    fn from(cpu: u32) -> Self {
        Self(BTreeSet::from([cpu]))
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<T: IntoIterator<Item = u32>>(cpus: T) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl Extend<u32> for CpuSet {
    fn extend<T: IntoIterator<Item = u32>>(&mut self, cpus: T) {
        self.0.extend(cpus);
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        let text = text.trim();
        let mut cpus = BTreeSet::new();
        if text.is_empty() {
            return Ok(Self(cpus));
        }
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let bounds = cpu(first).zip(cpu(last)).filter(|(first, last)| first <= last);
            let (first, last) = bounds.ok_or_else(|| CpuSetError { found: part.chars().take(FOUND_CHARS).collect() })?;
            cpus.extend(first..=last);
        }
        Ok(Self(cpus))
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus: Vec<u32> = self.iter().collect();
        for (nth, run) in cpus.chunk_by(|left, right| left + 1 == *right).enumerate() {
            let comma = if nth > 0 { "," } else { "" };
            match *run {
                [] => {}
                [only] => write!(f, "{comma}{only}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

fn cpu(text: &str) -> Option<u32> {
    // `parse` alone would take a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?.filter(|&cpu| cpu < CPUS_MAX)
}

/// Enough of a wrong text to recognize it.
const FOUND_CHARS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_read_and_print_the_same() {
        for text in ["", "0", "0-1", "0-3,8", "5,7,9-11,64-127"] {
            assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), text);
        }
        assert_eq!("0-3,8\n".parse(), Ok(CpuSet::from_iter([0, 1, 2, 3, 8])));
        assert_eq!("2,0,1,1".parse::<CpuSet>().unwrap().to_string(), "0-2");
    }

    #[test]
    fn what_is_no_list_names_the_wrong_part() {
        for (text, found) in [("x", "x"), ("0,,2", ""), ("0-", "0-"), ("1,3-2", "3-2"), ("+1", "+1"), ("0-16384", "0-16384")] {
            assert_eq!(text.parse::<CpuSet>(), Err(CpuSetError { found: found.to_owned() }), "{text}");
        }
        assert!("0-4294967295".parse::<CpuSet>().is_err(), "and it makes no set of four thousand millions");
    }
}
