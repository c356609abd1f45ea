//! Replays the corpus of every target, and each of its files damaged in every simple way.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, panic, thread};

use kv_fuzz::{Body, TARGETS};

#[test]
fn corpus_and_its_damaged_copies() {
    // A panic of any of them is the test's.
    thread::scope(|scope| {
        for &(name, body) in TARGETS {
            scope.spawn(move || replay_target(name, body));
        }
    });
}

#[test]
fn every_target_has_a_program_and_a_corpus() {
    let names = |folder: &str| -> BTreeSet<String> {
        files(Path::new(folder)).iter().map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
    };
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names("fuzz_targets"), targets);
    assert_eq!(names("corpus"), targets);
    let manifest = fs::read_to_string("Cargo.toml").unwrap();
    for target in targets {
        assert!(manifest.contains(&format!("\nname = \"{target}\"\n")), "Cargo.toml has no program {target}");
    }
}

fn replay_target(name: &str, body: Body) {
    let seeds = files(&Path::new("corpus").join(name));
    assert!(!seeds.is_empty(), "corpus/{name} is empty");
    let runs: usize = seeds.iter().map(|seed| replay_damaged(seed, body)).sum();
    println!("{name}: {} files, {runs} runs", seeds.len());
}

/// The file as it is, cut at every length, and with every byte changed to its neighbours and extremes.
fn replay_damaged(seed: &Path, body: Body) -> usize {
    let whole = fs::read(seed).unwrap();
    let mut runs = 0;
    let mut run = |data: &[u8], what: &dyn Fn() -> String| {
        let outcome = panic::catch_unwind(|| body(data));
        assert!(outcome.is_ok(), "{}: {}", seed.display(), what());
        runs += 1;
    };
    run(&whole, &|| "whole".to_owned());
    for len in 0..whole.len() {
        run(&whole[..len], &|| format!("cut to {len} bytes"));
    }
    let mut damaged = whole.clone();
    for at in 0..whole.len() {
        for mask in MASKS {
            damaged[at] ^= mask;
            run(&damaged, &|| format!("byte {at} with {mask:#04x} flipped"));
            damaged[at] = whole[at];
        }
    }
    runs
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// A neighbouring value, a length halved or doubled, msgpack's sign and type bits, everything.
const MASKS: [u8; 5] = [0x01, 0x08, 0x20, 0x80, 0xff];
