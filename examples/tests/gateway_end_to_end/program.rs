//! The program itself, as a user starts it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use kv_routing::Record;

/// The example's binary, which `cargo test` builds beside the tests. Absent when only this test was built.
fn program() -> Option<Command> {
    let tests = std::env::current_exe().unwrap();
    let path: PathBuf = tests.parent()?.parent()?.join("examples").join("gateway");
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

#[test]
fn without_arguments_it_demonstrates_itself_and_ends_cleanly() {
    let Some(mut program) = program() else { return };
    program
        .args(["--listen", "127.0.0.1:0", "--demo-requests", "24", "--lanes", "3"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = program.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut seen = Vec::new();
    seen.extend(lines.by_ref().take_while(|line| !line.starts_with("Ctrl-C")));
    interrupt(&child);
    seen.extend(lines);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let text = seen.join("\n");
    for expected in [
        "Gateway at http://127.0.0.1:",
        "index Chain written by 3 lanes",
        "Engine mock-3 at",
        "24 requests answered",
        "0 failed",
        "curl -si",
        "Stopping",
    ] {
        assert!(text.contains(expected), "{expected} is absent from:\n{text}");
    }
}

#[test]
fn logged_decisions_are_decided_again() {
    let Some(mut program) = program() else { return };
    program
        .args(["--listen", "127.0.0.1:0", "--demo-requests", "12", "--mock-speed", "20", "--log-decisions"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = program.spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let decided: Vec<String> = lines.filter(|line| line.contains(" decided ")).take(12).collect();
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for line in decided {
        assert!(line.contains("engine=\"mock-") && line.contains("branch=\""), "{line}");
        let record: Record = serde_json::from_str(line.split_once("record=").unwrap().1).unwrap();
        assert_eq!(record.replay().unwrap(), record.choice);
        assert_eq!(record.scored.len(), 4, "all candidates are there");
    }
}

#[test]
fn a_faulty_configuration_is_named_with_its_place() {
    let Some(mut program) = program() else { return };
    let file = std::env::temp_dir().join(format!("gateway-{}.toml", std::process::id()));
    std::fs::write(&file, "listen = \"127.0.0.1:0\"\n[[engine]]\nurl = \"http://127.0.0.1:1\"\nrank = 2\n").unwrap();
    let output = program.arg("--config").arg(&file).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains(&format!("{}:4:1: unknown field `rank`", file.display())), "{text}");
}
