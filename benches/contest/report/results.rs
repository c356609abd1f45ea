//! Everything that one contest found out.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::bars::{self, Bar, Instructions};
use super::{Machine, Table};
use crate::runner::{Entry, Part};
use crate::scenario::{Difference, Measure};

/// One child's figures.
#[derive(Clone, Debug, Serialize)]
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

/// What is written.
#[derive(Serialize)]
struct Written<'a> {
    machine: &'a Machine,
    rounds: u32,
    scale: f64,
    seed: u64,
    bars: &'a [Bar],
    rows: &'a [super::Row],
    checks: &'a [Check],
    skips: &'a [Skip],
    instructions: &'a [Instructions],
    runs: &'a [Run],
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
        let table = Table::of(&self.runs);
        let Self { machine, rounds, scale, seed, skips, checks, runs, instructions } = self;
        let (rounds, scale, seed) = (*rounds, *scale, *seed);
        let bars = bars::of(&table, instructions);
        let written = Written { machine, rounds, scale, seed, bars: &bars, rows: &table.rows, checks, skips, instructions, runs };
        let text = serde_json::to_string_pretty(&written).expect("results are plain values") + "\n";
        save(&folder.join("results.json"), &text);
        if record {
            let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("records");
            let name = format!("{}-contest-{}-{}c.json", machine.date, machine.commit, machine.cores);
            save(&records.join(name), &text);
        }
    }
}

fn save(path: &Path, text: &str) {
    let folder = path.parent().expect("a file lies in a folder");
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, text));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    println!("\nwritten: {}", path.display());
}
