//! A child process: one contender, one part, once.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Case, Entry};
use crate::scenario::{Measure, Trial};

/// Everything a child is told, as one JSON argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    pub case: Case,
    pub entry: Entry,
    pub scale: f64,
    pub seed: u64,
    pub turns: u32,
    /// Where answers go; a child that writes answers measures nothing.
    pub answers: Option<PathBuf>,
}

/// How long a child may take. The longest of an honest one is about two minutes at full scale; a peer's fault can hang.
const CHILD_TIME_MAX: Duration = Duration::from_mins(15);

impl Order {
    /// In the child: does what is ordered and prints the measures, one a line.
    pub fn obey(&self) {
        let mut settings = self.case.settings(self.scale, self.seed);
        (settings.turns, settings.answers) = (self.turns, self.answers.clone());
        let mut trial = Trial::new(settings);
        self.entry.run(self.case.part, &mut trial);
        let lines = trial.measures.iter().map(|measure| serde_json::to_string(measure).expect("measures are plain values"));
        lines.for_each(|line| println!("{line}"));
    }

    /// In the parent: starts a child and waits for its measures.
    ///
    /// # Errors
    /// Says how the child ended, if it did not end well.
    pub fn send(&self) -> Result<Vec<Measure>, String> {
        let program = std::env::current_exe().map_err(|error| format!("where this program lies: {error}"))?;
        let order = serde_json::to_string(self).expect("orders are plain values");
        let mut command = Command::new(program);
        command.args(["--child", &order]).stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.spawn().map_err(|error| format!("could not start a child: {error}"))?;
        let text = output(child)?;
        text.lines().map(|line| serde_json::from_str(line).map_err(|error| format!("{error} in {line:?}"))).collect()
    }
}

/// Waits for the child's end, and reads what it printed meanwhile.
fn output(mut child: Child) -> Result<String, String> {
    let mut pipe = child.stdout.take().expect("the output is piped");
    let reading = thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).map(|_| text)
    });
    let began = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if began.elapsed() > CHILD_TIME_MAX => {
                _ = child.kill();
                _ = child.wait();
                return Err(format!("still running after {} s: killed", CHILD_TIME_MAX.as_secs()));
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    let text = reading.join().expect("reading does not panic").map_err(|error| error.to_string())?;
    if status.success() { Ok(text) } else { Err(format!("ended with {status}")) }
}
