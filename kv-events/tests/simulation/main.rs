//! One seed, one run: engines that restart, links that lose, replay sockets that lie silent, and the real path from bytes to the index.
//!
//! Invariants hold after every event ([`world`]); a run that breaks one is made as short as it can be, and printed with its seed.
//!
//! ```text
//! cargo test -p kv-events --test simulation                                                            10,000 seeds
//! KV_SIM_SEEDS=1000000 cargo test --release -p kv-events --test simulation -- --nocapture every_seed   a million, with the rate
//! KV_SIM_FIRST=4711 KV_SIM_SEEDS=1 cargo test -p kv-events --test simulation every_seed                one seed again
//! ```

mod engine;
mod gateway;
mod plan;
mod random;
mod shrink;
mod source;
mod world;

use std::env;
use std::time::Instant;

use plan::Plan;

/// A number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

#[test]
fn every_seed_ends_exact_or_says_why_not() {
    let (first, seeds) = (setting("KV_SIM_FIRST", 0), setting("KV_SIM_SEEDS", 10_000));
    let begun = Instant::now();
    for seed in first..first + seeds {
        let plan = Plan::draw(seed);
        if let Err(failure) = shrink::run(&plan) {
            let (shortest, why) = shrink::shortest(&plan, failure);
            panic!("seed {seed}: {why}\n{} of {} actions are enough:\n{shortest}", shortest.actions.len(), plan.actions.len());
        }
    }
    println!("{seeds} seeds from {first} in {:.1?}, {:.0} a second", begun.elapsed(), seeds as f64 / begun.elapsed().as_secs_f64());
}
