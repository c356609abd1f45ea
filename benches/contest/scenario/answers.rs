//! What lookups answered, so that contenders in different processes can be compared.

use std::fs;
use std::path::Path;

/// Who holds how much of each request: (worker, depth) in the order of workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    rows: Vec<Vec<(u32, u32)>>,
}

/// How a contender's answers differ from ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    pub lookups: usize,
    /// Lookups whose answers differ.
    pub differ: usize,
    /// Workers that were scored too high, or that hold nothing and were scored.
    pub above: usize,
    /// Workers that were scored too low, or left out.
    pub below: usize,
}

impl Answers {
    /// Adds one lookup's rows, in any order.
    pub fn push(&mut self, mut rows: Vec<(u32, u32)>) {
        rows.retain(|row| row.1 > 0);
        rows.sort_unstable();
        self.rows.push(rows);
    }

    /// How these answers differ from what is `right`.
    pub fn difference(&self, right: &Self) -> Difference {
        assert_eq!(self.rows.len(), right.rows.len(), "both were asked the same");
        let mut all = Difference { lookups: self.rows.len(), ..Difference::default() };
        for (rows, right) in self.rows.iter().zip(&right.rows).filter(|(rows, right)| rows != right) {
            all.differ += 1;
            all.above += exceeding(rows, right);
            all.below += exceeding(right, rows);
        }
        all
    }

    /// Writes the answers as little-endian words: a count for each lookup, then its rows.
    pub fn write(&self, path: &Path) {
        let mut words = Vec::new();
        for rows in &self.rows {
            words.push(rows.len() as u32);
            words.extend(rows.iter().flat_map(|&(worker, depth)| [worker, depth]));
        }
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Reads what [`write`](Self::write) wrote.
    pub fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut words = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("chunks of four")));
        let mut answers = Self::default();
        while let Some(count) = words.next() {
            let mut next = || words.next().expect("a file that `write` wrote");
            answers.rows.push((0..count).map(|_| (next(), next())).collect());
        }
        answers
    }
}

/// Rows of `left` that lie above what `right` says of the same worker.
fn exceeding(left: &[(u32, u32)], right: &[(u32, u32)]) -> usize {
    let of = |worker| right.binary_search_by_key(&worker, |row| row.0).map_or(0, |at| right[at].1);
    left.iter().filter(|row| row.1 > of(row.0)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(rows: &[&[(u32, u32)]]) -> Answers {
        let mut answers = Answers::default();
        rows.iter().for_each(|rows| answers.push(rows.to_vec()));
        answers
    }

    #[test]
    fn a_difference_tells_high_from_low_and_missing_from_invented() {
        let right = answers(&[&[(1, 5), (2, 7)], &[], &[(3, 1)]]);
        assert_eq!(right.difference(&right), Difference { lookups: 3, ..Difference::default() });
        let wrong = answers(&[&[(2, 8), (1, 4)], &[(9, 1)], &[]]);
        assert_eq!(wrong.difference(&right), Difference { lookups: 3, differ: 3, above: 2, below: 2 });
    }

    #[test]
    fn answers_come_back_from_a_file_as_they_were() {
        let path = std::env::temp_dir().join(format!("contest-answers-{}", std::process::id()));
        let written = answers(&[&[(1, 5), (2, 7)], &[], &[(3, 1), (4, 0)]]);
        written.write(&path);
        assert_eq!(Answers::read(&path), written);
        fs::remove_file(path).unwrap();
    }
}
