//! What one decision costs: the index lookup, the shortlist and the choice, on one core at ten thousand decisions a second.
//!
//! A fleet of 128, 1,024 or 4,096 workers holds prompts that begin with one of a few chat templates, which most of the fleet has.
//! Prompts are log-normal with a median of 1,344 tokens and a 99th percentile of 8,288, in blocks of 16. Each decision is begun when it is
//! due, so the caches are as cold as a router's that does other things in between, and is charged the CPU time of its thread,
//! less what reading that clock costs. Hashing the prompt is measured apart. Between decisions the chosen worker's load is changed, as
//! a router's books would.
//!
//!     cargo bench --manifest-path benches/Cargo.toml --bench decision [-- --seconds 20]

mod fleet;
mod prompts;
mod report;

use std::hint::{black_box, spin_loop};
use std::time::{Duration, Instant};

use clap::Parser;
use contest::measure::alloc::{Counting, live_bytes};
use contest::measure::clock::thread_ns;
use kv_index::{Index, Matches, Namespace};
use kv_routing::select::Scratch;
use kv_routing::{Lookup, Policy, Request, Router};

use fleet::Fleet;
use prompts::{Prompt, Prompts, SCHEME};
use report::{Bar, Row};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What one decision costs.
#[derive(Parser)]
struct Options {
    /// How long each row is paced
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Decisions a second
    #[arg(long, default_value_t = 10_000)]
    rate: u64,
    /// Seed of fleets and prompts
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// Workers, and the bar at the 99th percentile with its goal, in us.
const FLEETS: [(u32, Option<Bar>); 3] =
    [(128, Some(Bar { most: 10.0, goal: 5.0 })), (1_024, Some(Bar { most: 20.0, goal: 10.0 })), (4_096, None)];

fn main() {
    // `cargo test --benches` runs this without arguments: once, small.
    let small = !std::env::args().any(|argument| argument == "--bench");
    let mut options = Options::parse();
    if small {
        options.seconds = 0;
    }
    println!("{}", report::HEAD);
    for (workers, bar) in FLEETS {
        let prompts = Prompts::draw(options.seed);
        let mut fleet = Fleet::fill(workers, &prompts, options.seed);
        for policy in [Policy::Blend, Policy::CacheAware, Policy::LeastLoad] {
            let row = decide(&mut fleet, &prompts, policy, None, &options);
            println!("{}", row.line(&format!("{workers} workers, {policy:?}"), bar.filter(|_| policy == Policy::Blend)));
        }
        let row = decide(&mut fleet, &prompts, Policy::Blend, Some(fleet::GROUPS), &options);
        println!("{}", row.line(&format!("{workers} workers, Blend, hybrid of {} groups", fleet::GROUPS + 1), None));
    }
}

/// Paces decisions and times each.
fn decide(fleet: &mut Fleet, prompts: &Prompts, policy: Policy, groups: Option<u32>, options: &Options) -> Row {
    let router = Router::new(policy);
    let (mut matches, mut scratch, mut hashes) = (Matches::new(), Scratch::new(), Vec::new());
    let overhead = overhead_ns();
    let warm_up = 2_000;
    let count = (options.seconds * options.rate).max(200) + warm_up;
    let gap = Duration::from_secs(1) / u32::try_from(options.rate).expect("a rate of decisions");
    let mut row = Row::with_room(count as usize);
    let mut held = 0;
    let began = Instant::now();
    for nth in 0..count {
        let prompt = prompts.request(nth);
        while began.elapsed() < gap * nth as u32 {
            spin_loop();
        }
        if nth == warm_up {
            held = live_bytes();
        }
        let at = thread_ns();
        SCHEME.hash_prompt(Namespace::default(), black_box(&prompt.tokens), &mut hashes);
        let hashed = thread_ns();
        let reusable = &hashes[..SCHEME.reusable_in(prompt.tokens.len())];
        fleet.index.find(reusable, &mut matches);
        let found = thread_ns();
        let worker = choose(fleet, &router, prompt, reusable, groups, &matches, &mut scratch, nth);
        let chosen = thread_ns();
        if nth >= warm_up {
            row.push([hashed - at, found - hashed, chosen - found].map(|ns| ns.saturating_sub(overhead)));
        } else if nth < 50 {
            fleet.check(prompt, &hashes, &matches);
        }
        fleet.book(worker, nth);
    }
    row.allocated = live_bytes() - held;
    row
}

#[expect(clippy::too_many_arguments, reason = "what is timed takes everything by reference")]
fn choose(
    fleet: &Fleet,
    router: &Router,
    prompt: &Prompt,
    reusable: &[kv_index::ContentHash],
    groups: Option<u32>,
    matches: &Matches,
    scratch: &mut Scratch,
    seed: u64,
) -> u32 {
    let lookup = Lookup { matches, scheme: SCHEME, predicted: &[] };
    let request = Request { prompt_tokens: prompt.tokens.len() as u64, home: None };
    let mut refine = |worker, depth| fleet.refine(worker, depth, groups.unwrap_or(0), reusable);
    let refine: Option<&mut dyn FnMut(_, _) -> _> = if groups.is_some() { Some(&mut refine) } else { None };
    black_box(fleet.pool.choose(router, request, &lookup, refine, seed, scratch)).expect("the fleet is up").worker
}

/// What reading the clock twice costs.
fn overhead_ns() -> u64 {
    let mut reads: Vec<u64> = (0..2_000)
        .map(|_| {
            let at = thread_ns();
            thread_ns() - at
        })
        .collect();
    reads.sort_unstable();
    reads[reads.len() / 2]
}
