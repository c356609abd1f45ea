//! Where and with what figures were taken: a number means something only beside it.

use std::process::Command;
use std::{fmt, fs, thread};

use serde::Serialize;

/// The machine and the build.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub date: String,
    pub cpu: String,
    pub cores: usize,
    pub memory_gib: u64,
    pub kernel: String,
    pub rustc: String,
    /// With `+` where the tree differs from it.
    pub commit: String,
    /// Of the last minute, before the first run: what else the machine does.
    pub load: String,
}

impl Machine {
    /// This machine, now.
    pub fn here() -> Self {
        let dirty = !output("git", &["status", "--porcelain"]).is_empty();
        let commit = output("git", &["rev-parse", "--short", "HEAD"]) + if dirty { "+" } else { "" };
        Self {
            date: output("date", &["-u", "+%Y-%m-%d"]),
            cpu: field("/proc/cpuinfo", "model name"),
            cores: thread::available_parallelism().map_or(0, usize::from),
            memory_gib: field("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().map_or(0, |kib: u64| kib >> 20),
            kernel: output("uname", &["-r"]),
            rustc: output("rustc", &["--version"]),
            commit,
            load: fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').next().unwrap_or("").into(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { date, cpu, cores, memory_gib, kernel, rustc, commit, load } = self;
        write!(f, "{date}, {cpu}, {cores} cores, {memory_gib} GiB, Linux {kernel}, {rustc}, commit {commit}, load {load}")
    }
}

/// What a program prints, without the end of line; nothing where it does not run.
fn output(program: &str, arguments: &[&str]) -> String {
    let run = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    run.map(|run| String::from_utf8_lossy(&run.stdout).trim().to_owned()).unwrap_or_default()
}

/// The first value of `name` in a file of `name : value` lines.
fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_once(':').map_or(String::new(), |(_, value)| value.trim().to_owned())
}
