//! Records a live engine's events and requests, and checks recordings.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use kv_events::{CopyRule, StreamOptions};
use kv_examples::capture::check::{Report, check};
use kv_examples::capture::record::{RecordOptions, record};

/// Records what a live engine publishes and is asked, and checks that the router's prediction from the events equals what the
/// engine reported, request by request. The file is what to send with a bug report.
#[derive(Parser)]
#[command(name = "capture", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Records a live engine's events and the requests that are sent to it, into one file.
    Record(Box<RecordOptions>),
    /// Replays recordings through decode, normalize, copies and index; exits with 1 on any difference that nothing explains.
    Check(CheckArgs),
}

#[derive(Args)]
struct CheckArgs {
    /// Recordings: `.jsonl` of `capture record`, or a `.bin` (with the `.json` beside it).
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Prints the reports as JSON.
    #[arg(long)]
    json: bool,
    /// A repeated store is the same copy: for engines asked for `kv_cache_report_mode=full`.
    #[arg(long)]
    set_copies: bool,
    /// The engine reuses one block less than it finds: vLLM with EAGLE, without lookahead hashing.
    #[arg(long)]
    drops_last_block: bool,
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Record(options) => record_engine(&options),
        Command::Check(args) => check_files(&args),
    }
}

fn record_engine(options: &RecordOptions) -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("threads and timers can be had");
    let recorded = File::create(&options.out)
        .map_err(|error| format!("{}: {error}", options.out.display()))
        .and_then(|file| runtime.block_on(record(options, BufWriter::new(file))).map_err(|error| error.to_string()));
    match recorded {
        Ok(counts) => eprintln!("{}: {counts}", options.out.display()),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn check_files(args: &CheckArgs) -> ExitCode {
    let copies = if args.set_copies { CopyRule::Reannounced } else { CopyRule::Counted };
    let options = StreamOptions { copies, drops_last_block: args.drops_last_block, ..StreamOptions::default() };
    let mut reports: Vec<Report> = Vec::new();
    let mut unread = 0;
    for file in &args.files {
        match check(file, options) {
            Ok(report) => reports.push(report),
            Err(error) => {
                eprintln!("{error}");
                unread += 1;
            }
        }
    }
    print_reports(&reports, args.json);
    let failed = reports.iter().filter(|report| !report.passes()).count() + unread;
    eprintln!("{} of {} recordings pass", args.files.len() - failed, args.files.len());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print_reports(reports: &[Report], json: bool) {
    if json {
        println!("{}", serde_json::to_string_pretty(reports).expect("a report is plain data"));
    } else {
        reports.iter().for_each(|report| println!("{report}\n"));
    }
}
