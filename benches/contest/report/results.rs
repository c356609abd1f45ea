//! Everything that one contest found out.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;

use super::bars::{self, Instructions};
use super::{Machine, Table};
use crate::runner::{Entry, Part};
use crate::scenario::{Difference, Measure};

/// One child's figures.
#[derive(Clone, Debug)]
pub struct Run {
    pub case: String,
    pub part: Part,
    pub entry: Entry,
    pub round: u32,
    pub measures: Vec<Measure>,
}

/// One comparison of answers with ours.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    pub case: String,
    pub entry: Entry,
    /// At which moment.
    pub answers: String,
    #[serde(flatten)]
    pub difference: Difference,
    /// Why they may differ, where they do.
    pub excuse: Option<String>,
}

/// Who did not take part in what.
#[derive(Clone, Debug, Serialize)]
pub struct Skip {
    pub case: String,
    pub part: Part,
    pub entry: Entry,
    pub why: String,
}

/// Everything that one contest found out.
#[derive(Clone, Debug)]
pub struct Results {
    pub machine: Machine,
    pub rounds: u32,
    pub scale: f64,
    pub seed: u64,
    pub skips: Vec<Skip>,
    pub checks: Vec<Check>,
    pub runs: Vec<Run>,
    pub instructions: Vec<Instructions>,
}

/// One child's figures as they are written: the units stand in the rows.
#[derive(Serialize)]
struct RawRun<'a> {
    case: &'a str,
    part: Part,
    entry: Entry,
    round: u32,
    figures: BTreeMap<&'a str, f64>,
}

impl Results {
    /// Nothing yet, but what `instructions.sh` left in `folder`.
    pub fn new(rounds: u32, scale: f64, seed: u64, folder: &Path) -> Self {
        let counted = fs::read_to_string(folder.join("instructions.json")).unwrap_or_else(|_| "[]".into());
        let instructions = serde_json::from_str(&counted).unwrap_or_else(|error| panic!("instructions.json: {error}"));
        let (skips, checks, runs) = Default::default();
        Self { machine: Machine::here(), rounds, scale, seed, skips, checks, runs, instructions }
    }

    /// Prints what was compared, the tables and the bars.
    pub fn print(&self) {
        let equal = self.checks.iter().filter(|check| check.difference.differ == 0).count();
        println!("\nanswers: {equal} of {} comparisons equal ours", self.checks.len());
        for check in self.checks.iter().filter(|check| check.difference.differ > 0) {
            let Difference { lookups, differ, above, below } = check.difference;
            let why = check.excuse.as_deref().unwrap_or("NOT EXPLAINED");
            println!(
                "  {} {} {}: {differ} of {lookups} lookups differ ({above} scores too high, {below} too low): {why}",
                check.case,
                check.entry.name(),
                check.answers
            );
        }
        let table = Table::of(&self.runs);
        table.print();
        bars::print(&bars::of(&table, &self.instructions));
    }

    /// Writes everything as JSON into `folder`, and, to keep it, into benches/records.
    pub fn write(&self, folder: &Path, record: bool) {
        let text = self.json();
        save(&folder.join("results.json"), &text);
        if record {
            let Machine { date, commit, cores, .. } = &self.machine;
            let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("records");
            save(&records.join(format!("{date}-contest-{commit}-{cores}-cores.json")), &text);
        }
    }

    /// One object, each item of its lists on a line of its own, so that two records can be compared.
    fn json(&self) -> String {
        let table = Table::of(&self.runs);
        let bars = bars::of(&table, &self.instructions);
        let runs: Vec<RawRun> = self.runs.iter().map(RawRun::of).collect();
        let fields = [
            ("machine", json(&self.machine)),
            ("rounds", json(&self.rounds)),
            ("scale", json(&self.scale)),
            ("seed", json(&self.seed)),
            ("bars", lines(&bars)),
            ("rows", lines(&table.rows)),
            ("checks", lines(&self.checks)),
            ("skips", lines(&self.skips)),
            ("instructions", lines(&self.instructions)),
            ("runs", lines(&runs)),
        ];
        let fields = fields.map(|(name, value)| format!("\"{name}\": {value}"));
        format!("{{\n{}\n}}\n", fields.join(",\n"))
    }
}

impl<'a> RawRun<'a> {
    fn of(run: &'a Run) -> Self {
        let figures = run.measures.iter().map(|measure| (measure.op.as_str(), measure.value)).collect();
        Self { case: &run.case, part: run.part, entry: run.entry, round: run.round, figures }
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("results are plain values")
}

fn lines(items: &[impl Serialize]) -> String {
    let items: Vec<String> = items.iter().map(json).collect();
    format!("[\n{}\n]", items.join(",\n"))
}

fn save(path: &Path, text: &str) {
    let folder = path.parent().expect("a file lies in a folder");
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, text));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    println!("\nwritten: {}", path.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_json_with_every_round_in_it() {
        let mut results = Results::new(2, 1.0, 7, Path::new("/nowhere"));
        let measure = |value| Measure { op: "store".into(), unit: "ns/block".into(), value, samples: 9 };
        let run = |round, value| Run {
            case: "shared".into(),
            part: Part::Fill,
            entry: Entry::Ours,
            round,
            measures: vec![measure(value)],
        };
        results.runs = vec![run(0, 10.0), run(1, 20.0)];
        let written: serde_json::Value = serde_json::from_str(&results.json()).unwrap();
        assert_eq!(written["rows"][0]["median"], 15.0);
        assert_eq!(written["runs"][1]["figures"]["store"], 20.0);
        assert_eq!(written["machine"]["cores"], results.machine.cores);
        assert_eq!(written["bars"][0]["figure"], "shared: store, against smg");
    }
}
