//! The exactness that the README promises, on recordings of real engines: decode, admission, normalization, copies and index predict
//! what the engine reported, for every request that is labelled exact.

use std::fs;
use std::path::{Path, PathBuf};

use kv_events::{CopyRule, StreamOptions};
use kv_examples::capture::check::{Report, check};

fn recordings(folder: &str) -> Option<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).ok()?.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "bin"));
    files.sort();
    Some(files)
}

/// Checks all of them and returns the reports; fails on any difference.
fn check_all(files: &[PathBuf]) -> Vec<Report> {
    let reports: Vec<Report> = files.iter().map(|file| check(file, StreamOptions::default()).unwrap()).collect();
    for report in &reports {
        assert!(report.passes(), "{report}");
    }
    reports
}

fn exact(reports: &[Report]) -> usize {
    reports.iter().flat_map(|report| &report.rows).filter(|row| row.label.is_none()).count()
}

fn named<'a>(reports: &'a [Report], part: &str) -> &'a Report {
    reports.iter().find(|report| report.file.contains(part)).unwrap_or_else(|| panic!("no recording {part}"))
}

#[test]
fn the_repositorys_recordings_are_predicted_exactly() {
    let reports = check_all(&recordings("kv-events/tests/data/captures").expect("they stand in the repository"));
    // Hits, evictions, copies, LoRA, salts, ranks, a hybrid model, old and new releases: none may drop out unnoticed.
    assert!(exact(&reports) >= 110, "{} requests are labelled exact", exact(&reports));
    let hits = |part| named(&reports, part).rows.iter().filter(|row| row.label.is_none() && row.reported > 0).count();
    for (part, least) in [
        ("0.32.0-evict", 2),
        ("dupstore", 5),
        ("real-0.32.0-lora", 2),
        ("dp2", 2),
        ("hybrid-swa", 2),
        ("0.5.23-basic", 4),
        ("eagle-bigram", 1),
    ] {
        assert!(hits(part) >= least, "{part}: {} hits are labelled exact", hits(part));
    }
}

#[test]
fn what_a_wire_cannot_say_is_labelled() {
    let reports = check_all(&recordings("kv-events/tests/data/captures").unwrap());
    assert!(named(&reports, "cpu-real-0.5.5-basic").caveats.contains(&"position_free_names"));
    assert!(named(&reports, "vllm-cpu-real-0.11.0-basic").caveats.contains(&"salt_not_shown"));
    assert!(named(&reports, "vllm-cpu-real-0.32.0-basic").caveats.is_empty());
    let labels = |part: &str| named(&reports, part).rows.iter().filter(|row| row.label.is_some()).count();
    assert_eq!((labels("cpu-real-0.5.23-basic"), labels("vllm-cpu-real-0.32.0-basic")), (0, 1));
}

#[test]
fn the_check_sees_a_copy_that_was_not_counted() {
    let files = recordings("kv-events/tests/data/captures").unwrap();
    let dupstore = files.iter().find(|file| file.to_string_lossy().contains("dupstore")).unwrap();
    let report = check(dupstore, StreamOptions { copies: CopyRule::Reannounced, ..StreamOptions::default() }).unwrap();
    assert!(!report.passes(), "{report}");
}

#[test]
fn all_recordings_are_predicted_exactly() {
    match recordings("../shared/data/captures") {
        Some(files) => println!("{} requests labelled exact", exact(&check_all(&files))),
        None => println!("skipped: ../shared/data/captures is not here"),
    }
}
