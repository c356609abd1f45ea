//! `capture record` against mock engines: what it writes is a recording that `capture check` reads and finds exact.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use kv_events::StreamOptions;
use kv_examples::capture::check::{Report, check};
use kv_examples::capture::record::{Counts, RecordOptions, record};
use kv_examples::mock_engine::{Dialect, MockConfig, MockEngine, MockFleet, Timing};
use serde_json::{Value, json};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: RecordOptions,
}

/// A fleet of one engine whose pool is so small that it evicts, and whose time runs fast.
async fn engine(dialect: Dialect, ranks: usize) -> MockFleet {
    let timing = Timing { speed: 50.0, ..Timing::default() };
    let config = MockConfig { engines: 1, ranks, dialect, kv_blocks: 60, max_model_len: 512, timing, ..MockConfig::default() };
    MockFleet::start(config).await.unwrap()
}

fn options(engine: &MockEngine, file: &Path, arguments: &[&str]) -> RecordOptions {
    let (url, events, replay) = (engine.http_url(), engine.events_endpoint(), engine.replay_endpoint());
    let place = ["record", "--engine", url, "--events", events, "--replay", replay, "--out", file.to_str().unwrap()];
    Cli::try_parse_from([&place, arguments].concat()).unwrap().options
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("kv-record-{name}-{}.jsonl", std::process::id()))
}

/// Records to a file, and reads it back.
async fn recorded(options: &RecordOptions) -> (Counts, Report, Vec<Value>) {
    let mut text = Vec::new();
    let counts = record(options, &mut text).await.unwrap();
    std::fs::write(&options.out, &text).unwrap();
    let report = check(&options.out, StreamOptions::default()).unwrap();
    if report.passes() {
        std::fs::remove_file(&options.out).unwrap();
    }
    let lines = String::from_utf8(text).unwrap();
    (counts, report, lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn reported(report: &Report) -> Vec<u64> {
    report.rows.iter().map(|row| row.reported).collect()
}

#[tokio::test]
async fn a_recorded_load_is_predicted_exactly() {
    for (name, dialect, ranks) in [("vllm", Dialect::Vllm, 1), ("sglang", Dialect::Sglang, 1), ("ranks", Dialect::Vllm, 2)] {
        let fleet = engine(dialect, ranks).await;
        let ranks = ranks.to_string();
        let arguments = ["--load", "60", "--ranks", &ranks, "--pause-ms", "20", "--prompt-max", "200"];
        let (counts, report, lines) = recorded(&options(&fleet.engines()[0], &file(name), &arguments)).await;
        assert!(report.passes(), "{report}");
        assert!(report.removed > 0, "{name}: nothing was evicted");
        assert!(reported(&report).iter().filter(|cached| **cached > 0).count() > 10, "{name}: {:?}", reported(&report));
        assert_eq!((counts.requests, counts.failed, counts.lost), (60, 0, 0), "{name}");
        assert!(counts.replayed >= counts.live, "{name}: the replay at the end has all, and SGLang's first clear");
        assert_eq!((&lines[0]["kind"], &lines[0]["engine"]), (&json!("meta"), &json!(dialect_name(dialect))));
        fleet.shutdown().await;
    }
}

fn dialect_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Vllm => "vllm",
        Dialect::Sglang => "sglang",
    }
}

#[tokio::test]
async fn an_engine_that_was_busy_before_is_recorded_from_its_replay() {
    let fleet = engine(Dialect::Vllm, 1).await;
    let busy = ["--load", "20", "--pause-ms", "20", "--prompt-max", "200"];
    recorded(&options(&fleet.engines()[0], &file("before"), &busy)).await;
    // Equal seeds send equal prompts: the first of the second recording are cached from before it.
    let (counts, report, _) = recorded(&options(&fleet.engines()[0], &file("after"), &busy)).await;
    assert!(report.passes(), "{report}");
    assert!(reported(&report)[0] > 0, "{report}");
    assert!(counts.replayed > counts.live);
    fleet.shutdown().await;
}

#[tokio::test]
async fn requests_through_the_proxy_are_passed_on_and_recorded() {
    let fleet = engine(Dialect::Vllm, 1).await;
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let options = options(&fleet.engines()[0], &file("proxy"), &["--listen", &address, "--duration-s", "3"]);
    let clients = async {
        let body = json!({"model": "mock", "prompt": (1..=100).collect::<Vec<u32>>(), "max_tokens": 3});
        let mut streamed = body.clone();
        streamed["stream"] = json!(true);
        let unknown = json!({"model": "none", "prompt": [1], "max_tokens": 1});
        [post(&address, &body).await, post(&address, &streamed).await, post(&address, &unknown).await]
    };
    let ((counts, report, lines), answers) = tokio::join!(recorded(&options), clients);
    assert!(answers[0].1.contains("\"cached_tokens\""), "{}", answers[0].1);
    assert!(answers[1].1.ends_with("data: [DONE]\n\n"), "{}", answers[1].1);
    assert_eq!(answers.map(|(status, _)| status), [200, 200, 404]);
    assert_eq!((counts.requests, counts.failed), (3, 1));
    assert!(report.passes(), "{report}");
    let requests: Vec<_> = lines.iter().filter(|line| line["kind"] == "request").collect();
    assert_eq!(requests[1]["cached_tokens"], json!(96), "the second found the first one's blocks");
    for request in &requests[..2] {
        assert_eq!(request["output_token_ids"].as_array().map(Vec::len), Some(3), "{request}");
        assert!(request["t_start"].as_f64() < request["t"].as_f64());
    }
    fleet.shutdown().await;
}

/// Posts a completion as soon as the proxy listens.
async fn post(address: &str, body: &Value) -> (u16, String) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    loop {
        match client.post(format!("http://{address}/v1/completions")).json(body).send().await {
            Ok(answer) => return (answer.status().as_u16(), answer.text().await.unwrap()),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
