//! Which cases are run, and with whom.

use clap::ValueEnum;

use super::{Case, Entry, Options, Part, ShapeName};
use crate::contender::{Contender, Smg};
use crate::workload::names::Names;

/// Cases that the options ask for, in order.
pub fn cases(options: &Options) -> Vec<Case> {
    let parts = chosen(&options.part, Part::value_variants());
    let shapes = chosen(&options.shape, ShapeName::value_variants());
    let names = chosen(&options.names, &Names::ALL);
    let mut cases = Vec::new();
    for &part in parts {
        for &shape in if part.has_shape() { shapes } else { &[ShapeName::Shared] } {
            // Our event path's bar is on private prompts.
            let shape = if part == Part::Path { ShapeName::Private } else { shape };
            let cases_of_names = names.iter().map(|&names| Case { part, shape, names });
            cases.extend(cases_of_names.filter(|case| !options.names.is_empty() || has_bar(case, options.quick)));
        }
    }
    cases
}

/// Who takes part in a case, or why not.
pub fn entries(options: &Options, case: &Case) -> Vec<(Entry, Result<(), &'static str>)> {
    let default = [Entry::Ours, Entry::Smg, Entry::Crtc, Entry::Positional];
    let entries = if options.entry.is_empty() { &default[..] } else { &options.entry };
    entries.iter().map(|&entry| (entry, admitted(options, case, entry))).collect()
}

fn admitted(options: &Options, case: &Case, entry: Entry) -> Result<(), &'static str> {
    let workers = match case.part {
        Part::Ladder => crate::workload::ladder::WORKERS,
        part if part.has_shape() => case.shape.shape().workers,
        _ => 1,
    };
    let unnamed = options.entry.is_empty();
    match entry {
        Entry::Ours => Ok(()),
        _ if case.part == Part::Path => Err("the event path is this workspace's own"),
        Entry::Smg if workers > Smg::WORKERS_MAX => Err("it takes 1,024 workers at most"),
        Entry::Crtc | Entry::Positional if unnamed && case.names != Names::Agree => Err("no bar compares it by names"),
        _ => Ok(()),
    }
}

/// Names that do not agree matter where a bar asks for them: fill and scatter on the three shapes. To see whether it works,
/// one shape is enough.
fn has_bar(case: &Case, quick: bool) -> bool {
    let named = if quick { case.shape == ShapeName::Shared } else { case.shape != ShapeName::Crowd };
    case.names == Names::Agree || (named && matches!(case.part, Part::Fill | Part::Scatter))
}

fn chosen<'a, T>(asked: &'a [T], all: &'a [T]) -> &'a [T] {
    if asked.is_empty() { all } else { asked }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn parts_without_shapes_run_once_and_disagreeing_names_only_where_a_bar_asks() {
        let all = cases(&Options::parse_from(["contest"]));
        let count = |part| all.iter().filter(|case| case.part == part).count();
        assert_eq!([count(Part::Fill), count(Part::Turnover), count(Part::Decode)], [3 * 4 + 1, 4, 1]);
        let one = cases(&Options::parse_from(["contest", "--part", "turnover", "--shape", "long", "--names", "half"]));
        assert_eq!(one, [Case { part: Part::Turnover, shape: ShapeName::Long, names: Names::Half }]);
    }
}
