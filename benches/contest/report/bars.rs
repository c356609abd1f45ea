//! The bars of the text, each beside what was measured.

use serde::{Deserialize, Serialize};

use super::Table;
use crate::runner::Entry;

/// One bar: the measured figure must not exceed `must`, and should not exceed `goal`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    pub figure: String,
    /// Nothing for a goal that is no must.
    pub must: Option<f64>,
    pub goal: f64,
    /// Nothing where a run that it needs is missing.
    pub measured: Option<f64>,
    pub unit: &'static str,
}

/// One count of `instructions.sh`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instructions {
    pub path: String,
    pub contender: String,
    /// For a block, or a lookup.
    #[serde(rename = "instructions")]
    pub each: f64,
}

const SHAPES: [&str; 3] = ["shared", "private", "long"];

/// All bars, with what `table` has for them, and the counts of `instructions.sh`, where it has run.
pub fn of(table: &Table, instructions: &[Instructions]) -> Vec<Bar> {
    let mut bars = Vec::new();
    against_smg(table, &mut bars);
    names(table, &mut bars);
    memory(table, &mut bars);
    churn(table, instructions, &mut bars);
    lookups(table, &mut bars);
    siblings(table, &mut bars);
    bars.push(every_row_of_crtc(table));
    for (entry, must, goal) in [(Entry::Smg, 2.0 / 3.0, 1.0 / 2.0), (Entry::Crtc, 1.0 / 3.0, 1.0 / 6.0)] {
        bars.push(ratio(table, "mooncake", "cpu", entry, must, goal));
    }
    bars
}

/// Prints the bars, one a line.
pub fn print(bars: &[Bar]) {
    println!(
        "\n{:<62} {:>9} {:>9} {:>10}  result",
        "bar (ours against the peer, or the figure itself)", "must", "goal", "measured"
    );
    for bar in bars {
        let number = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.3}"));
        let (must, measured) = (number(bar.must), number(bar.measured));
        println!("{:<62} {must:>9} {:>9.3} {measured:>10}  {} {}", bar.figure, bar.goal, bar.result(), bar.unit);
    }
    println!("not measured by this program: lanes on 16 cores. Instructions are instructions.sh's, if it has run.");
}

impl Bar {
    fn new(figure: impl Into<String>, must: f64, goal: f64, measured: Option<f64>) -> Self {
        Self { figure: figure.into(), must: Some(must), goal, measured, unit: "" }
    }

    fn in_units(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// In a word.
    pub fn result(&self) -> &'static str {
        match self.measured {
            None => "not measured",
            Some(measured) if measured <= self.goal => "goal met",
            Some(measured) if self.must.is_some_and(|must| measured <= must) => "met",
            Some(_) if self.must.is_none() => "goal missed",
            Some(_) => "MISSED",
        }
    }
}

/// Our median of `op` in `case`, against a peer's.
fn ratio(table: &Table, case: &str, op: &str, peer: Entry, must: f64, goal: f64) -> Bar {
    let measured = table.median(case, op, Entry::Ours).zip(table.median(case, op, peer)).map(|(ours, theirs)| ours / theirs);
    Bar::new(format!("{case}: {op}, against {}", peer.name()), must, goal, measured)
}

/// A figure of ours against another of ours.
fn own(table: &Table, figure: &str, of: (&str, &str), against: (&str, &str), must: f64, goal: f64) -> Bar {
    let median = |(case, op): (&str, &str)| table.median(case, op, Entry::Ours);
    let measured = median(of).zip(median(against)).map(|(of, against)| of / against);
    Bar::new(figure, must, goal, measured)
}

fn against_smg(table: &Table, bars: &mut Vec<Bar>) {
    let thirds = |one: f64, other: f64| (1.0 / one, 1.0 / other);
    let store = [thirds(5.0, 8.0), (2.0 / 3.0, 1.0 / 2.0), thirds(3.0, 4.0)];
    let remove = [thirds(4.0, 6.0), thirds(3.0, 5.0), thirds(2.0, 3.0)];
    let scattered = [thirds(8.0, 12.0); 3];
    let bytes = [thirds(16.0, 24.0), (1.0 / 2.0, 0.36), thirds(6.0, 8.0)];
    for (op, limits) in [("store", store), ("remove", remove), ("scattered", scattered), ("bytes", bytes)] {
        for (case, (must, goal)) in SHAPES.into_iter().zip(limits) {
            bars.push(ratio(table, case, op, Entry::Smg, must, goal));
        }
    }
    bars.push(ratio(table, "crowd", "scattered", Entry::Smg, 1.0 / 2.0, 1.0 / 3.0));
}

fn names(table: &Table, bars: &mut Vec<Bar>) {
    for shape in SHAPES {
        let disagree = format!("{shape}/disagree");
        bars.push(ratio(table, &disagree, "bytes", Entry::Smg, 2.0 / 3.0, 1.0 / 2.0));
        for op in ["store", "remove"] {
            bars.push(ratio(table, &disagree, op, Entry::Smg, 1.0, 2.0 / 3.0));
        }
        for op in ["store", "remove", "scattered", "bytes"] {
            let (conflict, half) = (format!("{shape}/conflict"), format!("{shape}/half"));
            let figure = format!("{shape}: {op}, one name in 10,000 in conflict, against agree");
            bars.push(own(table, &figure, (&conflict, op), (shape, op), 1.1, 1.1));
            let figure = format!("{shape}: {op}, half the workers agree, against none");
            bars.push(own(table, &figure, (&half, op), (&disagree, op), 1.0, 1.0));
        }
    }
}

fn memory(table: &Table, bars: &mut Vec<Bar>) {
    for shape in SHAPES {
        let median = |op| table.median(shape, op, Entry::Ours);
        bars.push(Bar::new(format!("{shape}: bytes after 20 turns, against before"), 1.3, 1.1, median("growth in 20 turns")));
        // 10 % of the peak or 1 MB, whichever is met.
        let left = median("left of full").zip(median("left")).map(|(percent, bytes)| percent.min(bytes / 1e6 * 10.0));
        bars.push(Bar::new(format!("{shape}: left after all is removed, of full (1 MB: 10)"), 10.0, 2.0, left).in_units("%"));
    }
    let path = table.median("path", "event path bytes", Entry::Ours);
    bars.push(Bar::new("private: whole event path, bytes", 45.0, 30.0, path).in_units("B/membership"));
}

fn churn(table: &Table, instructions: &[Instructions], bars: &mut Vec<Bar>) {
    bars.push(ratio(table, "decode", "store", Entry::Smg, 3.0 / 4.0, 1.0 / 2.0));
    bars.push(ratio(table, "decode", "remove", Entry::Smg, 1.0 / 2.0, 1.0 / 3.0));
    let each =
        |path: &str| instructions.iter().find(|count| count.path == path && count.contender == "ours").map(|count| count.each);
    let measured = each("lookup-decode-end").zip(each("lookup-decode-start")).map(|(end, start)| end / start);
    bars.push(Bar::new("decode: lookup, instructions at the end, against the start", 1.1, 1.1, measured));
    let (start, end) = (("decode", "lookup at the start p50"), ("decode", "lookup at the end p50"));
    bars.push(own(table, "decode: lookup p50, time at the end, against the start", end, start, 1.1, 1.1));
}

fn lookups(table: &Table, bars: &mut Vec<Bar>) {
    for (case, must, goal) in
        [("shared", 2.0 / 3.0, 1.0 / 2.0), ("private", 3.0 / 4.0, 2.0 / 3.0), ("long", 3.0 / 4.0, 1.0 / 2.0)]
    {
        for percentile in ["p50", "p99"] {
            bars.push(ratio(table, case, &format!("lookup cold, deepest {percentile}"), Entry::Smg, must, goal));
        }
    }
    for case in ["shared", "crowd"] {
        for percentile in ["p50", "p99"] {
            let (before, after) = (format!("lookup before scatter {percentile}"), format!("lookup after scatter {percentile}"));
            bars.push(ratio(table, case, &after, Entry::Smg, 1.0, 1.0));
            let figure = format!("{case}: {after}, against before");
            let bar = own(table, &figure, (case, &after), (case, &before), 1.2, 1.2);
            bars.push(Bar { must: None, ..bar });
        }
    }
}

/// The dearest size against the cheapest.
fn siblings(table: &Table, bars: &mut Vec<Bar>) {
    for place in ["root", "block"] {
        for op in ["store", "miss p50", "evict"] {
            let prefix = format!("under {place}, ");
            let sizes = table.of_entry(Entry::Ours).filter(|row| {
                row.case == "siblings" && row.op.strip_prefix(&prefix).is_some_and(|rest| rest.ends_with(&format!(": {op}")))
            });
            let (min, max) = sizes.fold((f64::MAX, 0.0_f64), |(min, max), row| (min.min(row.median), max.max(row.median)));
            let measured = (max > 0.0).then_some(max / min);
            let figure = format!("siblings under {place}: {op}, dearest size against cheapest");
            bars.push(Bar::new(figure, 2.0, 2.0, measured));
        }
    }
}

/// The worst of all our ratios to dynamo's tree, in time and bytes.
fn every_row_of_crtc(table: &Table) -> Bar {
    let compared = table
        .of_entry(Entry::Crtc)
        .filter(|row| matches!(row.unit.as_str(), "ns" | "ns/block" | "ns/operation" | "B/membership"));
    let ratios = compared.filter(|row| row.op != "resident").filter_map(|row| Some((1.0 / row.to_ours?, row)));
    let worst = ratios.max_by(|left, right| left.0.total_cmp(&right.0));
    let name = worst.map_or(String::new(), |(_, row)| format!(" ({}: {})", row.case, row.op));
    let figure = format!("crtc, the worst of all rows{name}");
    Bar::new(figure, 2.0 / 3.0, 1.0 / 3.0, worst.map(|worst| worst.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Run;
    use crate::runner::Part;
    use crate::scenario::Measure;

    fn run(case: &str, entry: Entry, figures: &[(&str, &str, f64)]) -> Run {
        let measure = |&(op, unit, value): &(&str, &str, f64)| Measure { op: op.into(), unit: unit.into(), value, samples: 1 };
        Run { case: case.into(), part: Part::Fill, entry, round: 0, measures: figures.iter().map(measure).collect() }
    }

    fn bar<'a>(bars: &'a [Bar], figure: &str) -> &'a Bar {
        bars.iter().find(|bar| bar.figure.starts_with(figure)).unwrap_or_else(|| panic!("no bar {figure}"))
    }

    #[test]
    fn a_bar_compares_medians_and_says_what_it_lacks() {
        let table = Table::of(&[
            run("shared", Entry::Ours, &[("store", "ns/block", 20.0), ("growth in 20 turns", "x", 1.2)]),
            run("shared", Entry::Smg, &[("store", "ns/block", 110.0)]),
            run("shared", Entry::Crtc, &[("store", "ns/block", 25.0)]),
            run(
                "siblings",
                Entry::Ours,
                &[("under root, 1000: store", "ns/block", 50.0), ("under root, 10000: store", "ns/block", 125.0)],
            ),
        ]);
        let count = |path: &str, each| Instructions { path: path.into(), contender: "ours".into(), each };
        let bars = of(&table, &[count("lookup-decode-start", 300.0), count("lookup-decode-end", 315.0)]);
        assert_eq!(bar(&bars, "decode: lookup, instructions").measured, Some(1.05));
        assert_eq!(bar(&bars, "shared: store, against smg").result(), "met");
        assert_eq!(bar(&bars, "shared: bytes after 20 turns").result(), "met");
        assert_eq!(bar(&bars, "shared: remove, against smg").result(), "not measured");
        assert_eq!(bar(&bars, "siblings under root: store").measured, Some(2.5));
        let worst = bar(&bars, "crtc, the worst of all rows (shared: store)");
        assert_eq!((worst.measured, worst.result()), (Some(0.8), "MISSED"));
    }
}
