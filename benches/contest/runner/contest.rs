//! The whole contest: check, measure, report.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use clap::Parser;

use super::{Case, Entry, Options, Order, Part, plan};
use crate::report::{Check, Results, Run, Skip};
use crate::scenario::Answers;

/// The program: the contest, or one of its children.
pub fn main() -> ExitCode {
    let mut options = Options::parse();
    if let Some(order) = &options.child {
        let order: Order = serde_json::from_str(order).expect("only the parent passes --child");
        order.obey();
        return ExitCode::SUCCESS;
    }
    if !options.is_meant() {
        return ExitCode::SUCCESS;
    }
    // `cargo test` runs benchmarks without --bench: then all that is asked is whether they work.
    options.quick |= !options.bench;
    Contest::of(options).run()
}

/// A contest in progress.
struct Contest {
    options: Options,
    cases: Vec<Case>,
    /// Where results go.
    folder: PathBuf,
    results: Results,
    faults: Vec<String>,
}

/// The reference is compared at no more than this scale: it is slow.
const REFERENCE_SCALE: f64 = 0.02;

impl Contest {
    fn of(options: Options) -> Self {
        let cases = plan::cases(&options);
        let folder = options.out.clone().unwrap_or_else(|| beside_program().join("contest"));
        let results = Results::new(options.rounds(), options.scale(), options.seed, &folder);
        Self { options, cases, folder, results, faults: Vec::new() }
    }

    fn run(mut self) -> ExitCode {
        println!("{}", self.results.machine);
        self.skip();
        if !self.options.no_check {
            self.check_all();
        }
        if self.faults.is_empty() {
            self.measure_all();
        }
        self.results.print();
        self.results.write(&self.folder, self.options.record);
        self.faults.iter().for_each(|fault| eprintln!("FAULT: {fault}"));
        if self.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Notes who does not take part in what, and why.
    fn skip(&mut self) {
        for case in &self.cases {
            for (entry, admitted) in plan::entries(&self.options, case) {
                if let Err(why) = admitted {
                    self.results.skips.push(Skip { case: case.label(), part: case.part, entry, why: why.into() });
                }
            }
        }
    }

    fn admitted(&self, case: &Case) -> Vec<Entry> {
        plan::entries(&self.options, case).into_iter().filter(|(_, admitted)| admitted.is_ok()).map(|(entry, _)| entry).collect()
    }

    fn order(&self, case: Case, entry: Entry, scale: f64) -> Order {
        Order { case, entry, scale, seed: self.options.seed, turns: self.options.turns(), answers: None }
    }

    fn check_all(&mut self) {
        for case in self.cases.clone() {
            if matches!(case.part, Part::Beside | Part::OpenLoop | Part::Path) {
                continue;
            }
            let scale = self.options.scale();
            let others: Vec<Entry> = self.admitted(&case).into_iter().filter(|&entry| entry != Entry::Ours).collect();
            self.check(case, scale, &others);
            self.check(case, scale.min(REFERENCE_SCALE), &[Entry::Reference]);
        }
    }

    /// Compares the answers of `others` with ours.
    fn check(&mut self, case: Case, scale: f64, others: &[Entry]) {
        let folder = env::temp_dir().join(format!("contest-{}", std::process::id()));
        let Ok(()) = self.answer(case, scale, Entry::Ours, &folder) else { return };
        for &other in others {
            eprintln!("check   {:<18} {:<10} {:<10} scale {scale}", case.label(), part_name(case.part), other.name());
            if self.answer(case, scale, other, &folder).is_ok() {
                self.compare(case, other, &folder);
            }
        }
        _ = fs::remove_dir_all(&folder);
    }

    /// Lets `entry` write its answers into its folder; a fault if it does not get there.
    fn answer(&mut self, case: Case, scale: f64, entry: Entry, folder: &Path) -> Result<(), ()> {
        let folder = folder.join(entry.name());
        _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let order = Order { answers: Some(folder), ..self.order(case, entry, scale) };
        order.send().map(|_| ()).map_err(|error| self.faults.push(format!("{} {}: {error}", case.label(), entry.name())))
    }

    fn compare(&mut self, case: Case, other: Entry, folder: &Path) {
        let (ours, theirs) = (folder.join(Entry::Ours.name()), folder.join(other.name()));
        for name in files(&ours).into_iter().filter(|name| theirs.join(name).exists()) {
            let answers = name.trim_end_matches(".answers").to_owned();
            let difference = Answers::read(&theirs.join(&name)).difference(&Answers::read(&ours.join(&name)));
            let excuse = other.excuse(&answers).filter(|_| difference.differ > 0).map(str::to_owned);
            if difference.differ > 0 && excuse.is_none() {
                let fault = format!("{} {} answers {answers} otherwise than ours: {difference:?}", case.label(), other.name());
                self.faults.push(fault);
            }
            self.results.checks.push(Check { case: case.label(), entry: other, answers, difference, excuse });
        }
    }

    fn measure_all(&mut self) {
        for (number, case) in self.cases.clone().into_iter().enumerate() {
            let mut entries = self.admitted(&case);
            for round in 0..self.options.rounds() {
                let progress = format!("{}/{} round {}", number + 1, self.cases.len(), round + 1);
                entries.iter().for_each(|&entry| self.measure(case, entry, round, &progress));
                entries.rotate_left(1);
            }
        }
    }

    fn measure(&mut self, case: Case, entry: Entry, round: u32, progress: &str) {
        eprintln!("measure {:<18} {:<10} {:<10} {progress}", case.label(), part_name(case.part), entry.name());
        match self.order(case, entry, self.options.scale()).send() {
            Ok(measures) => self.results.runs.push(Run { case: case.label(), part: case.part, entry, round, measures }),
            Err(error) => self.faults.push(format!("{} {:?} {}: {error}", case.label(), case.part, entry.name())),
        }
    }
}

/// The folder of the build profile: this program lies in its `deps`.
fn beside_program() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    program.ancestors().nth(2).unwrap_or(Path::new(".")).to_owned()
}

fn part_name(part: Part) -> String {
    format!("{part:?}").to_lowercase()
}

/// The names of the files in `folder`, sorted.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}
