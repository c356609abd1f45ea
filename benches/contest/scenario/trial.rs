//! One run of one contender through one part: what it is told, and what it reports.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Answers;
use crate::contender::{Contender, Reader};
use crate::workload::names::Names;
use crate::workload::prompts::{Prompts, Shape};

/// What a run is told.
#[derive(Clone, Debug)]
pub struct Settings {
    pub shape: Shape,
    pub names: Names,
    pub seed: u64,
    /// How much of everything, against the text's sizes.
    pub scale: f64,
    /// Lookups of one kind.
    pub lookups: usize,
    pub turns: u32,
    /// Where answers go; a run that writes answers measures nothing.
    pub answers: Option<PathBuf>,
}

impl Default for Settings {
    /// The text's sizes.
    fn default() -> Self {
        let (shape, names) = (Shape::SHARED, Names::Agree);
        Self { shape, names, seed: SEED, scale: 1.0, lookups: 20_000, turns: 20, answers: None }
    }
}

/// The text gives no seed. With this one our draws come within 0.05 % of its counts of blocks and memberships, on every shape.
pub const SEED: u64 = 811;

/// One figure of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    pub op: String,
    pub unit: String,
    pub value: f64,
    /// Blocks, calls or memberships behind the figure.
    pub samples: u64,
}

/// A run in progress.
pub struct Trial {
    pub settings: Settings,
    pub measures: Vec<Measure>,
}

impl Trial {
    pub fn new(settings: Settings) -> Self {
        Self { settings, measures: Vec::new() }
    }

    /// The prompts of the run's shape.
    pub fn prompts(&self) -> Prompts {
        Prompts::draw(self.settings.shape, self.settings.names, self.settings.seed)
    }

    /// Whether this run checks answers, and so measures nothing.
    pub fn checks(&self) -> bool {
        self.settings.answers.is_some()
    }

    /// Reports one figure.
    pub fn report(&mut self, op: impl Into<String>, unit: &str, value: f64, samples: usize) {
        self.measures.push(Measure { op: op.into(), unit: unit.into(), value, samples: samples as u64 });
    }

    /// Writes a checking run's answers to `requests` under `name`.
    pub fn answer<C: Contender>(&self, name: &str, reader: &mut C::Reader, requests: &[<C::Reader as Reader>::Request]) {
        if self.checks() {
            self.write_answers(name, requests.iter().map(|request| reader.answer(request)));
        }
    }

    /// Writes a checking run's answers, each the rows of one lookup, under `name`.
    pub fn write_answers(&self, name: &str, rows: impl IntoIterator<Item = Vec<(u32, u32)>>) {
        let Some(folder) = &self.settings.answers else { return };
        let mut answers = Answers::default();
        rows.into_iter().for_each(|rows| answers.push(rows));
        answers.write(&folder.join(format!("{name}.answers")));
    }
}
