//! The exactness that the README promises, on recordings of real engines: decode, admission, normalization, copies and index
//! predict what the engine reported, for every request that is labelled exact.

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

/// A recording of our own with these lines behind its head.
fn recording(name: &str, lines: &[String]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.jsonl"));
    let head = r#"{"kind":"meta","format":1,"engine":"made","version":"0","case":"up"}"#.to_owned();
    fs::write(&path, [&[head], lines].concat().join("\n")).unwrap();
    path
}

/// One message under `sequence` in which the block of the four tokens from `tokens` on is stored.
fn stored(kind: &str, port: u16, t_s: f64, sequence: u64, tokens: u8) -> String {
    let mut payload = b"\x93\xca\0\0\0\0\x91\x97\xabBlockStored\x91".to_vec();
    payload.extend([tokens, 0xc0, 0x94, tokens, tokens + 1, tokens + 2, tokens + 3, 4, 0xc0, 0xa3, b'G', b'P', b'U', 0]);
    let frames = ["", &hex::encode(sequence.to_be_bytes()), &hex::encode(payload)].map(|frame| format!("{frame:?}"));
    format!(r#"{{"kind":"{kind}","port":{port},"t":{t_s},"frames":[{}]}}"#, frames.join(","))
}

fn request(rank: u16, t_start: f64, tokens: u8, cached_tokens: u64) -> String {
    let prompt: Vec<u8> = (tokens..=tokens + 4).collect();
    format!(
        r#"{{"kind":"request","name":"r","status":200,"t_start":{t_start},"t":{},"rank":{rank},"prompt_tokens":5,"prompt_token_ids":{prompt:?},"cached_tokens":{cached_tokens}}}"#,
        t_start + 0.1
    )
}

#[test]
fn each_rank_is_primed_with_what_was_published_before_its_own_first_message() {
    let lines = [
        stored("live", 10, 1.0, 2, 30),
        request(0, 2.0, 10, 4),
        request(1, 2.5, 50, 0),
        stored("live", 11, 3.0, 0, 50),
        request(1, 4.0, 50, 4),
        stored("replay-response", 20, 9.0, 0, 10),
        stored("replay-response", 20, 9.1, 1, 20),
        stored("replay-response", 21, 9.2, 0, 50),
    ];
    let report = check(&recording("ranks", &lines), StreamOptions::default()).unwrap();
    assert!(report.passes() && exact(std::slice::from_ref(&report)) == 3, "{report}");
    assert_eq!((report.missed_batches, report.blocks), (0, 4));
}

#[test]
fn a_difference_fails_the_check_and_a_late_join_explains_what_is_missing() {
    let over = [stored("live", 10, 1.0, 0, 10), request(0, 2.0, 10, 0)];
    let report = check(&recording("over", &over), StreamOptions::default()).unwrap();
    assert!(!report.passes() && report.to_string().contains("DIFFERS"), "{report}");
    let under = |first| [stored("live", 10, 1.0, first, 10), request(0, 2.0, 30, 4)];
    assert!(!check(&recording("under", &under(0)), StreamOptions::default()).unwrap().passes());
    let report = check(&recording("late", &under(7)), StreamOptions::default()).unwrap();
    assert!(report.passes() && report.rows[0].label == Some("stored before the recording began"), "{report}");
}

#[test]
fn an_unreadable_recording_names_file_line_and_reason() {
    let error = |name: &str, line: &str| {
        let path = recording(name, &[stored("live", 10, 1.0, 0, 10), line.to_owned()]);
        let error = check(&path, StreamOptions::default()).unwrap_err().to_string();
        error.strip_prefix(&format!("{}:3: ", path.display())).map(str::to_owned).unwrap_or(error)
    };
    assert!(error("json", "{").starts_with("EOF while parsing"), "{}", error("json", "{"));
    assert_eq!(error("kind", "{}"), "expected a `kind`");
    assert_eq!(error("port", r#"{"kind":"live","port":70000,"frames":[]}"#), "expected a `port` of 16 bits");
    assert_eq!(error("frames", r#"{"kind":"live","port":7}"#), "expected an array of `frames`");
    assert!(error("hex", r#"{"kind":"live","port":7,"frames":["0g"]}"#).starts_with("a frame is not hex"));
    assert_eq!(error("format", r#"{"kind":"meta","format":9}"#), "expected format 1, got Some(9)");
    assert!(error("request", r#"{"kind":"request","t":"x"}"#).contains("expected f64"));
    let absent = check(Path::new("absent.bin"), StreamOptions::default()).unwrap_err().to_string();
    assert!(absent.starts_with("absent.bin: "), "{absent}");
}

#[test]
fn odd_recordings_are_reports_and_no_panics() {
    let lines = [
        r#"{"kind":"replay-request","port":1,"frames":["00"]}"#.to_owned(),
        r#"{"kind":"live","port":65535,"frames":["00"]}"#.to_owned(),
        stored("replay-response", 9, 1.0, u64::MAX - 1, 10),
        request(3, 2.0, 10, 0),
    ];
    let report = check(&recording("odd", &lines), StreamOptions::default()).unwrap();
    assert_eq!((report.unexplained_losses, report.rows.len()), (1, 1), "{report}");
}

#[test]
fn all_recordings_are_predicted_exactly() {
    match recordings("../shared/data/captures") {
        Some(files) => println!("{} requests labelled exact", exact(&check_all(&files))),
        None => println!("skipped: ../shared/data/captures is not here"),
    }
}
