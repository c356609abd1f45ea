//! Figures that are kept.

use std::fs;
use std::path::Path;

use contest::report::Machine;
use serde::Serialize;

use super::report::Line;

/// Everything that one run found out.
#[derive(Serialize)]
pub struct Record {
    machine: Machine,
    /// Something else ran, so that 99th percentiles are too high.
    under_load: bool,
    rounds: u32,
    seconds: u64,
    decisions_per_s: u64,
    seed: u64,
    pub lines: Vec<Line>,
}

impl Record {
    pub fn new(rounds: u32, seconds: u64, decisions_per_s: u64, seed: u64) -> Self {
        let machine = Machine::here();
        let under_load = machine.load.parse::<f64>().is_ok_and(|load| load > IDLE_LOAD);
        Self { machine, under_load, rounds, seconds, decisions_per_s, seed, lines: Vec::new() }
    }

    /// Writes it into benches/records, each line on a line of its own.
    pub fn write(&self) {
        let Machine { date, commit, cores, .. } = &self.machine;
        let name = format!("{date}-decision-{commit}-{cores}-cores.json");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("records").join(name);
        let text = serde_json::to_string(self).expect("records are plain values");
        let text = text.replace(",\"lines\":[", ",\n\"lines\":[\n").replace("},{\"workers\"", "},\n{\"workers\"") + "\n";
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        println!("\nwritten: {}", path.display());
    }
}

/// The load of a machine on which little else runs; this program itself begins after the load is read.
const IDLE_LOAD: f64 = 0.5;
