//! Decoding what engines and their publishers put on the wire, beside `dynamo-kv-router`'s decoder of the same payloads.
//!
//!     cargo bench --manifest-path benches/Cargo.toml --bench wire_decode              # a table
//!     cargo bench --manifest-path benches/Cargo.toml --bench wire_decode -- --record  # and a file in records/
//!
//! Every payload that both read is raced: the same events, hashes and tokens must come out of both. The two take turns, a few
//! milliseconds each, in one thread of one process, so that whatever else the machine does meets both; what is reported is
//! the ratio of their CPU times, turn by turn. What only one of them reads is counted, and not raced.

mod payloads;
mod peer;
mod race;

use std::fmt::Write as _;
use std::fs;

use contest::report::Machine;

use self::payloads::Set;
use self::race::{Figures, race};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    // As `cargo test` runs it: the answers are compared, and each set is raced once.
    let turns = if has("--bench") { 60 } else { 1 };
    let mut report = format!("Decoding beside dynamo-kv-router 1.6.1. {}\n\n{}", Machine::here(), Figures::HEADER);
    for set in payloads::sets() {
        let raced = Raced::of(&set);
        let figures = if raced.both.is_empty() { String::from("not raced |") } else { race(&raced.both, turns).to_string() };
        let Raced { both, ours, theirs } = &raced;
        writeln!(report, "| {} | {} | {ours} | {theirs} | {figures}", set.name, both.len()).expect("a text takes it");
    }
    println!("{report}");
    if has("--record") {
        let path = format!("{}/records/{}-wire-decode.md", env!("CARGO_MANIFEST_DIR"), Machine::here().date);
        fs::write(&path, report).unwrap_or_else(|error| panic!("{path}: {error}"));
        println!("written: {path}");
    }
}

/// A set's payloads by who reads them.
struct Raced<'a> {
    both: Vec<&'a [u8]>,
    /// How many only our decoder reads whole, and only theirs.
    ours: usize,
    theirs: usize,
}

impl<'a> Raced<'a> {
    fn of(set: &'a Set) -> Self {
        let mut raced = Self { both: Vec::new(), ours: 0, theirs: 0 };
        for payload in &set.payloads {
            match (payloads::summary(payload), peer::summary(payload)) {
                (Some(ours), Some(theirs)) if ours == theirs => raced.both.push(payload),
                // It reads the batch, and passes over events of it.
                (Some(_), Some(_) | None) => raced.ours += 1,
                (None, Some(_)) => raced.theirs += 1,
                (None, None) => {}
            }
        }
        raced
    }
}
