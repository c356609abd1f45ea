//! What one decision costs: the index lookup, the shortlist and the choice, on one core at ten thousand decisions a second.
//!
//! A fleet of 128, 1,024 or 4,096 workers holds prompts that begin with one of a few chat templates, which most of the fleet has.
//! Prompts are log-normal with a median of 1,344 tokens and a 99th percentile of 8,288, in blocks of 16. Each decision is begun when it is
//! due, so the caches are as cold as a router's that does other things in between, and is charged the CPU time of its thread,
//! less what reading that clock costs. Hashing the prompt is measured apart. Between decisions the chosen worker's load is changed, as
//! a router's books would.
//!
//! Beside our policies stands dynamo's selection path (`dynamo.rs`), over the same events, loads and prompts. Contenders take turns, round
//! by round; figures are medians of the rounds.
//!
//!     cargo bench --manifest-path benches/Cargo.toml --bench decision [-- --seconds 4 --rounds 5 --record]

mod dynamo;
mod fleet;
mod paced;
mod prompts;
mod record;
mod report;

use clap::Parser;
use contest::measure::alloc::Counting;
use kv_routing::Policy;

use fleet::Fleet;
use paced::{Who, play};
use prompts::Prompts;
use record::Record;
use report::{Bar, Line};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What one decision costs.
#[derive(Parser)]
struct Options {
    /// How long each contender is paced in each round
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Rounds in which the contenders take turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Decisions a second
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rate: u64,
    /// Seed of fleets and prompts
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Keep the figures in benches/records
    #[arg(long)]
    record: bool,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// Workers, and the bar at the 99th percentile with its goal, in us.
const FLEETS: [(u32, Option<Bar>); 3] =
    [(128, Some(Bar { most: 10.0, goal: 5.0 })), (1_024, Some(Bar { most: 20.0, goal: 10.0 })), (4_096, None)];

const CONTENDERS: [Who; 5] = [
    Who::Ours(Policy::Blend, None),
    Who::Ours(Policy::CacheAware, None),
    Who::Ours(Policy::LeastLoad, None),
    Who::Ours(Policy::Blend, Some(fleet::GROUPS)),
    Who::Dynamo,
];

fn main() {
    // `cargo test --benches` runs this without arguments: once, small.
    let small = !std::env::args().any(|argument| argument == "--bench");
    let mut options = Options::parse();
    if small {
        (options.seconds, options.rounds) = (0, 1);
    }
    println!("{}", report::HEAD);
    let mut record = Record::new(options.rounds, options.seconds, options.rate, options.seed);
    for (workers, bar) in FLEETS {
        let prompts = Prompts::draw(options.seed);
        let mut fleet = Fleet::fill(workers, &prompts, options.seed);
        let mut rounds = vec![Vec::new(); CONTENDERS.len()];
        for _ in 0..options.rounds {
            for (who, rows) in CONTENDERS.iter().zip(&mut rounds) {
                rows.push(play(&mut fleet, &prompts, *who, &options));
            }
        }
        for (who, rows) in CONTENDERS.iter().zip(&rounds) {
            let bar = bar.filter(|_| *who == CONTENDERS[0]);
            let line = Line::of(workers, &who.name(), rows, bar);
            println!("{line}");
            record.lines.push(line);
        }
    }
    if options.record {
        record.write();
    }
}
