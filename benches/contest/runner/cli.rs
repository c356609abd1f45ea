//! The command line.

use std::path::PathBuf;

use clap::Parser;

use super::{Entry, Part, ShapeName};
use crate::scenario::SEED;
use crate::workload::names::Names;

/// Measures this workspace's index against its peers, on the same work, after comparing their answers.
///
/// Every figure is the median of several rounds. A round runs each contender in a process of its own, one after the other,
/// so that a slow minute of the machine hits all of them. CPU time of threads is what counts, so other programs disturb
/// caches only; still, close what else runs. Progress goes to stderr, tables to stdout.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "contest",
    after_help = "Examples, each after `cargo bench --manifest-path benches/Cargo.toml --bench contest --`:
  --quick                                     everything once, small: about a minute
  --part fill --shape shared,private,long     the main table
  --part fill,scatter --shape crowd           1,024 holders
  --part fill --names disagree --entry ours,smg
  --part mooncake --rounds 7
  --record                                    keep the rounds in benches/records

Parts with shapes are fill, scatter and turnover; the others bring their own. The trace of the part `mooncake` is looked
for in $KV_TRACES, then in shared/data/traces beside the checkout or above it."
)]
pub struct Options {
    /// Everything once, at a hundredth of the size, contenders' answers compared: shows that it works, measures nothing.
    #[arg(long)]
    pub quick: bool,

    /// Parts to run [default: all].
    #[arg(long, value_delimiter = ',', value_enum)]
    pub part: Vec<Part>,

    /// Shapes of prompts [default: all].
    #[arg(long, value_delimiter = ',', value_enum)]
    pub shape: Vec<ShapeName>,

    /// Whether workers agree on blocks' names [default: all that a bar asks for].
    #[arg(long, value_delimiter = ',', value_enum)]
    pub names: Vec<Names>,

    /// Contenders [default: all but the reference].
    #[arg(long, value_delimiter = ',', value_enum)]
    pub entry: Vec<Entry>,

    /// Rounds of each contender [default: 5; quick: 1].
    #[arg(long)]
    pub rounds: Option<u32>,

    /// How much of everything, against the text's sizes [default: 1; quick: 0.01].
    #[arg(long)]
    pub scale: Option<f64>,

    /// Turns of the part `turnover`.
    #[arg(long, default_value_t = 20)]
    pub turns: u32,

    /// From which everything is drawn.
    #[arg(long, default_value_t = SEED)]
    pub seed: u64,

    /// Do not compare answers first.
    #[arg(long)]
    pub no_check: bool,

    /// Where results go: tables and rounds as JSON [default: the target folder].
    #[arg(long)]
    pub out: Option<PathBuf>,

    /// Keep the results in benches/records as well, under date, commit and machine.
    #[arg(long)]
    pub record: bool,

    /// Cargo's own.
    #[arg(long, hide = true)]
    pub bench: bool,

    /// For child processes.
    #[arg(long, hide = true)]
    pub child: Option<String>,

    /// Cargo passes the words after `--` to every benchmark: this one runs if a word is in its name, or if there is none.
    #[arg(hide = true)]
    pub filter: Vec<String>,
}

impl Options {
    /// Whether the words that cargo passed mean this program.
    pub fn is_meant(&self) -> bool {
        self.filter.is_empty() || self.filter.iter().any(|word| "contest".contains(word.as_str()))
    }

    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { 5 })
    }

    pub fn scale(&self) -> f64 {
        self.scale.unwrap_or(if self.quick { 0.01 } else { 1.0 })
    }

    /// Turns make no difference to whether it works.
    pub fn turns(&self) -> u32 {
        if self.quick { self.turns.min(3) } else { self.turns }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Options::command().debug_assert();
        let options = Options::parse_from(["contest", "--quick", "--part", "fill,open-loop", "--bench", "con"]);
        assert_eq!(options.part, [Part::Fill, Part::OpenLoop]);
        assert!(options.is_meant());
        assert!(!Options::parse_from(["contest", "wire_decode"]).is_meant());
    }
}
