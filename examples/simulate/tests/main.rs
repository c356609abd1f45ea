//! What the policies are held to, scene by scene.

use clap::Parser;
use kv_examples::simulate::{Contender, Figures, Options, Scene, run};

/// Goodput within this share of the best is as good: seeds alone move it as far.
const NOISE: f64 = 0.03;

/// Those that are compared: the others are never the best, and a debug build is slow.
const COMPARED: [&str; 4] = ["cache-aware", "blend", "least-load", "dynamo formula"];

/// Shorter than the program's scenes, for the same reason.
const LENGTH: [&str; 2] = ["--seconds", "16"];

fn scenes(arguments: &[&str], seed: u64) -> Vec<Scene> {
    let seed = seed.to_string();
    Options::parse_from(["simulate", "--seed", &seed].iter().chain(&LENGTH).chain(arguments)).scenes()
}

/// Each contender's name, and its share of requests in time.
fn goodput(scene: &str) -> Vec<(&'static str, f64)> {
    let scene = &scenes(&["--scene", scene], 7)[0];
    let compared = Contender::all().into_iter().filter(|contender| COMPARED.contains(&contender.name()));
    compared.map(|contender| (contender.name(), run(scene, &contender, 7).within_slo)).collect()
}

#[track_caller]
fn blend_is_as_good_as_the_best(scene: &str) {
    let figures = goodput(scene);
    let best = figures.iter().map(|figure| figure.1).fold(0.0, f64::max);
    let of = |name: &str| figures.iter().find(|figure| figure.0 == name).unwrap().1;
    assert!(of("blend") >= best - NOISE, "{scene}: {figures:?}");
    assert!(of("blend") >= 0.9 && of("cache-aware") >= 0.7, "one of ours collapses in {scene}: {figures:?}");
}

#[test]
fn a_hot_prefix_melts_nobody() {
    blend_is_as_good_as_the_best("one hot prefix");
}

// sglang#14305, P30: one worker collects all traffic.
#[test]
fn four_hot_prefixes_spread() {
    blend_is_as_good_as_the_best("four hot prefixes");
}

#[test]
fn memory_pressure_is_survived_with_old_reports() {
    blend_is_as_good_as_the_best("KV pressure");
}

#[test]
fn an_emptied_worker_is_no_loss() {
    blend_is_as_good_as_the_best("emptied worker");
}

#[test]
fn a_wedged_worker_costs_only_what_it_had() {
    blend_is_as_good_as_the_best("wedged worker");
}

// D30, P9: a burst of equal prompts is scattered.
#[test]
fn siblings_go_together_before_the_first_event() {
    blend_is_as_good_as_the_best("burst of siblings");
}

#[test]
fn short_prompts_do_not_stand_behind_long_ones() {
    blend_is_as_good_as_the_best("long beside short");
}

// Defect 26: an emptied worker is never routed to when every prompt has a holder.
#[test]
fn an_emptied_worker_gets_its_share_again() {
    let blend = Contender::all().into_iter().find(|contender| contender.name() == "blend").unwrap();
    let Figures { balance, .. } = run(&scenes(&["--scene", "emptied"], 7)[0], &blend, 7);
    assert!(balance < 1.6, "the busiest engine has {balance} times the mean");
}

#[test]
fn a_seed_gives_the_same_figures_again() {
    let scene = &Options::parse_from(["simulate", "--scene", "burst", "--seconds", "3"]).scenes()[0];
    for contender in Contender::all() {
        assert_eq!(run(scene, &contender, 3), run(scene, &contender, 3), "{}", contender.name());
    }
    let random = &Contender::all()[5];
    assert_ne!(run(scene, random, 3), run(scene, random, 4), "and another one others");
}
