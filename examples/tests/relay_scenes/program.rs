//! The program itself, as a user starts it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The example's binary, which `cargo test` builds beside the tests. Absent when only this test was built.
fn program() -> Option<Command> {
    let tests = std::env::current_exe().unwrap();
    let path: PathBuf = tests.parent()?.parent()?.join("examples").join("relay");
    if !path.exists() {
        println!("skipped: {} is not built", path.display());
        return None;
    }
    Some(Command::new(path))
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// An engine that is not there is waited for; metrics and health are served meanwhile, and Ctrl-C ends it in order.
#[tokio::test(flavor = "multi_thread")]
async fn it_waits_for_its_engine_serves_metrics_and_ends_cleanly() {
    let Some(mut program) = program() else { return };
    program.args(["--engine-events", "tcp://127.0.0.1:1", "--replay", "tcp://127.0.0.1:2", "--ranks", "2"]);
    program.args(["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = program.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let greeting = lines.next().unwrap();
    assert!(greeting.starts_with("Relay at grpc://127.0.0.1:") && greeting.contains("2 ranks"), "{greeting}");
    let metrics = lines.next().unwrap();
    let url = metrics.trim_start_matches("Metrics at ").trim_end_matches('.').to_owned();
    let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5)).build().unwrap();
    let text = client.get(&url).send().await.unwrap().text().await.unwrap();
    for line in [
        "kv_relay_readers 0",
        "kv_relay_connected{rank=\"1\"} 0",
        "kv_relay_blocks{rank=\"0\"} 0",
        "kv_relay_batches_total{rank=\"0\",disposition=\"live\"} 0",
        "kv_relay_restarts_total{rank=\"0\",reason=\"other_message\"} 0",
        "kv_relay_smg_unsaid_total{reason=\"namespaced\"} 0",
    ] {
        assert!(text.contains(line), "{line} is absent from:\n{text}");
    }
    assert_eq!(client.get(url.replace("/metrics", "/health")).send().await.unwrap().status(), 200);
    interrupt(&child);
    assert_eq!(lines.next().unwrap(), "Stopping. Again to stop at once.");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn what_cannot_start_says_why() {
    let Some(mut program) = program() else { return };
    let output = program.args(["--engine-events", "tcp://*:65535", "--ranks", "2", "--listen", "127.0.0.1:0"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("relay: cannot follow rank 1: expected base port plus rank to be at most 65535"), "{text}");
}
