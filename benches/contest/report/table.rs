//! Medians of rounds, and their tables.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Run;
use crate::runner::Entry;

/// The median of one figure over the rounds of one contender.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The shape or part.
    pub case: String,
    pub op: String,
    pub entry: Entry,
    pub unit: String,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// Half the distance of the extremes, against the median, in %.
    pub spread: f64,
    pub rounds: usize,
    /// The median against ours; more is worse for the contender, for times and bytes.
    pub to_ours: Option<f64>,
}

/// All rows, in the order in which they were first measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    pub rows: Vec<Row>,
}

impl Table {
    /// The medians of `runs`.
    pub fn of(runs: &[Run]) -> Self {
        let mut order: Vec<(String, String, Entry)> = Vec::new();
        let mut values: BTreeMap<(String, String, Entry), (String, Vec<f64>)> = BTreeMap::new();
        for run in runs {
            for measure in &run.measures {
                let key = (run.case.clone(), measure.op.clone(), run.entry);
                let entry = values.entry(key.clone()).or_insert_with(|| {
                    order.push(key);
                    (measure.unit.clone(), Vec::new())
                });
                entry.1.push(measure.value);
            }
        }
        let rows = order.into_iter().map(|key| row(&values[&key].0, values[&key].1.clone(), key)).collect();
        Self { rows }.with_ratios()
    }

    fn with_ratios(mut self) -> Self {
        let ours: BTreeMap<_, _> =
            self.of_entry(Entry::Ours).map(|row| ((row.case.clone(), row.op.clone()), row.median)).collect();
        for row in &mut self.rows {
            row.to_ours = ours.get(&(row.case.clone(), row.op.clone())).filter(|ours| **ours > 0.0).map(|ours| row.median / ours);
        }
        self
    }

    /// The median of `op` in `case` for `entry`, if it was measured.
    pub fn median(&self, case: &str, op: &str, entry: Entry) -> Option<f64> {
        self.rows.iter().find(|row| row.case == case && row.op == op && row.entry == entry).map(|row| row.median)
    }

    /// One contender's rows.
    pub fn of_entry(&self, entry: Entry) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.entry == entry)
    }

    /// Prints a table for each case: operations down, contenders across, each with its ratio to ours.
    pub fn print(&self) {
        let mut entries: Vec<Entry> = self.rows.iter().map(|row| row.entry).collect();
        entries.sort_unstable();
        entries.dedup();
        let mut cases: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !cases.contains(&row.case.as_str()) {
                cases.push(&row.case);
            }
        }
        cases.into_iter().for_each(|case| self.print_case(case, &entries));
    }

    fn print_case(&self, case: &str, entries: &[Entry]) {
        let mut ops: Vec<(&str, &str)> = Vec::new();
        for row in self.rows.iter().filter(|row| row.case == case) {
            if !ops.contains(&(&row.op, &row.unit)) {
                ops.push((&row.op, &row.unit));
            }
        }
        let heads: String = entries.iter().map(|entry| format!("{:>26}", entry.name())).collect();
        println!("\n{case:<34} {:<14}{heads}", "unit");
        for (op, unit) in ops {
            let cells: String = entries.iter().map(|&entry| self.cell(case, op, entry)).collect();
            println!("{op:<34} {unit:<14}{cells}");
        }
    }

    /// `median ±spread% (x ratio to ours)`.
    fn cell(&self, case: &str, op: &str, entry: Entry) -> String {
        let Some(row) = self.rows.iter().find(|row| row.case == case && row.op == op && row.entry == entry) else {
            return format!("{:>26}", "-");
        };
        let ratio = row.to_ours.filter(|_| entry != Entry::Ours).map_or(String::new(), |ratio| format!(" {ratio:>6.2}x"));
        format!("{:>12} ±{:>3.0}%{ratio:>8}", number(row.median), row.spread)
    }
}

fn row(unit: &str, mut values: Vec<f64>, (case, op, entry): (String, String, Entry)) -> Row {
    values.sort_by(f64::total_cmp);
    let (min, max, median) = (values[0], values[values.len() - 1], middle(&values));
    let spread = if median == 0.0 { 0.0 } else { 50.0 * (max - min) / median };
    Row { case, op, entry, unit: unit.into(), median, min, max, spread, rounds: values.len(), to_ours: None }
}

/// The middle of sorted values; between two, their mean.
fn middle(sorted: &[f64]) -> f64 {
    let (left, right) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    f64::midpoint(left, right)
}

/// Three or more digits that matter.
fn number(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 100.0 => format!("{value:.0}"),
        magnitude if magnitude >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Part;
    use crate::scenario::Measure;

    fn run(entry: Entry, round: u32, value: f64) -> Run {
        let measure = Measure { op: "store".into(), unit: "ns/block".into(), value, samples: 1 };
        Run { case: "shared".into(), part: Part::Fill, entry, round, measures: vec![measure] }
    }

    #[test]
    fn a_row_is_the_median_of_the_rounds_and_its_ratio_to_our_median() {
        let runs = [(Entry::Ours, 2.0), (Entry::Smg, 30.0), (Entry::Ours, 4.0), (Entry::Smg, 10.0), (Entry::Smg, 20.0)];
        let table = Table::of(&runs.map(|(entry, value)| run(entry, 0, value)));
        assert_eq!(table.median("shared", "store", Entry::Ours), Some(3.0));
        let smg = table.of_entry(Entry::Smg).next().unwrap();
        assert_eq!((smg.median, smg.min, smg.max, smg.rounds), (20.0, 10.0, 30.0, 3));
        assert_eq!((smg.spread, smg.to_ours), (50.0, Some(20.0 / 3.0)));
        assert_eq!(table.median("shared", "remove", Entry::Ours), None);
    }
}
