//! Standard output and the log on one terminal: a table that is drawn again in its place, with the log above it.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Where the gateway shows things. Clones share the terminal.
#[derive(Clone)]
pub(super) struct Screen {
    /// The table in its place; nothing where the output is no terminal.
    table: Option<ProgressBar>,
}

impl Screen {
    /// Standard output.
    pub(super) fn new() -> Self {
        let draw = || {
            let table = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
            table.set_style(ProgressStyle::with_template("{msg}").expect("the template has one known key"));
            table
        };
        Self { table: io::stdout().is_terminal().then(draw) }
    }

    /// Whether what is shown can be replaced.
    pub(super) fn is_live(&self) -> bool {
        self.table.is_some()
    }

    /// Shows `table` in place of the last one, or below it.
    pub(super) fn show(&self, table: &str) {
        match &self.table {
            Some(bar) => bar.set_message(table.to_owned()),
            None => self.print(table),
        }
    }

    /// Prints a text that stays.
    pub(super) fn print(&self, text: &str) {
        self.beside_the_table(|| {
            // Whoever closes our output does not want it.
            _ = writeln!(io::stdout(), "{text}");
        });
    }

    /// Takes the live table away. What is printed from now on stays.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.table {
            bar.finish_and_clear();
        }
    }

    /// Sends the log to standard error, at `RUST_LOG`'s levels or from `info` on. Only a process's first call does it.
    pub(super) fn start_log(&self) {
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG_LEVELS));
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(self.clone());
        _ = log.with_ansi(io::stderr().is_terminal()).try_init();
    }

    fn beside_the_table(&self, write: impl FnOnce()) {
        match &self.table {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl<'a> MakeWriter<'a> for Screen {
    type Writer = LogLine;

    fn make_writer(&'a self) -> LogLine {
        LogLine { screen: self.clone() }
    }
}

/// Writes the log above the table. The log writes each line in one call.
pub(super) struct LogLine {
    screen: Screen,
}

impl Write for LogLine {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut written = Ok(0);
        self.screen.beside_the_table(|| written = io::stderr().write(line));
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The ZeroMQ library of the mock engines tells of every connection.
const LOG_LEVELS: &str = "info,zeromq=warn";
