//! One seed, one run: engines that restart, links that lose, replay sockets that lie silent, and the real path from bytes
//! to the index.
//!
//! Even seeds have gateways on the engine's own sockets, odd ones a relay between the engine and some gateways: relays that start again
//! with nothing, links between a relay and a gateway that break, are slow or are not read until the window is past, gateways
//! that come back with their place or without.
//!
//! Invariants hold after every event (each [`Listener`](listener::Listener) has its own); a run that breaks one is made as short as it
//! can be, and printed with its seed.
//!
//! ```text
//! # 10,000 seeds, as CI does
//! cargo test --release -p kv-events --test simulation
//! # 1,000, with overflow checks
//! cargo test -p kv-events --test simulation
//! # A million on four threads, with the rate; every 100,000 it says from where to go on if it is stopped
//! KV_SIM_SEEDS=1000000 KV_SIM_THREADS=4 cargo test --release -p kv-events --test simulation -- --nocapture every_seed
//! # The rest of them
//! KV_SIM_FIRST=300000 KV_SIM_SEEDS=700000 cargo test --release -p kv-events --test simulation -- --nocapture every_seed
//! # One seed again
//! KV_SIM_FIRST=4711 KV_SIM_SEEDS=1 cargo test -p kv-events --test simulation every_seed
//! ```

mod direct;
mod engine;
mod gateway;
mod listener;
mod plan;
mod random;
mod relayed;
mod shrink;
mod source;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use std::{env, thread};

use listener::Failure;
use plan::Plan;

/// Ten seconds' worth, or less, on one core.
const SEEDS: u64 = if cfg!(debug_assertions) { 1_000 } else { 10_000 };

/// How often a long run says how far it is. Seeds before are done on all threads.
const PROGRESS_EVERY: u64 = 100_000;

/// A number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

#[test]
fn every_seed_ends_exact_or_says_why_not() {
    let (first, seeds) = (setting("KV_SIM_FIRST", 0), setting("KV_SIM_SEEDS", SEEDS));
    let begun = Instant::now();
    let end = first.saturating_add(seeds);
    let parts = (first..end).step_by(usize::try_from(PROGRESS_EVERY).expect("it fits"));
    let failed = parts.into_iter().find_map(|from| {
        let to = end.min(from.saturating_add(PROGRESS_EVERY));
        let failed = search(from, to);
        if failed.is_none() && to < end {
            println!("up to {to} after {:.0?}: KV_SIM_FIRST={to} KV_SIM_SEEDS={} goes on", begun.elapsed(), end - to);
        }
        failed
    });
    let took = begun.elapsed();
    println!("{seeds} seeds from {first} in {took:.1?}, {} a second", u128::from(seeds) * 1000 / took.as_millis().max(1));
    let Some((seed, failure)) = failed else { return };
    let plan = Plan::draw(seed);
    let (shortest, why) = shrink::shortest(&plan, failure);
    panic!("seed {seed}: {why}\n{} of {} actions are enough:\n{shortest}", shortest.actions.len(), plan.actions.len());
}

/// Runs the seeds from `first` to `end` on all cores, or as many threads as are asked for, until one fails.
fn search(first: u64, end: u64) -> Option<(u64, Failure)> {
    let (next, failed) = (AtomicU64::new(first), Mutex::new(None));
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..setting("KV_SIM_THREADS", cores as u64).max(1) {
            scope.spawn(|| {
                while let seed = next.fetch_add(1, Ordering::Relaxed)
                    && seed < end
                    && failed.lock().is_ok_and(|failed| failed.is_none())
                {
                    if let Err(failure) = shrink::run(&Plan::draw(seed)) {
                        *failed.lock().expect("no holder panics") = Some((seed, failure));
                    }
                }
            });
        }
    });
    failed.into_inner().expect("no holder panics")
}
