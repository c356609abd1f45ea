//! The command line.

use std::time::Duration;

use clap::{Parser, ValueEnum};
use kv_events::adapter::zmq::{Endpoint, IntakeOptions, SubscriberOptions};
use kv_events::limits::{HISTORY_BATCHES, HISTORY_BYTES, RELAY_RANKS_MAX};
use kv_events::relay;
use kv_events::{CopyRule, Hashing};
use reqwest::Url;

/// Keeps what one engine announces about its KV cache, and serves it to any number of readers.
///
/// An engine keeps its last batches and knows nothing of its readers. Run this beside it, from the engine's start on: it subscribes
/// to every rank, closes gaps from the replay sockets, sees restarts, and keeps the last batches and the blocks that are held now.
/// Gateways subscribe over gRPC; one that was away goes on where it was, one that is new is told a snapshot, and a slow one holds
/// nobody up.
#[derive(Clone, Debug, Parser)]
#[command(name = "relay", version, after_long_help = EXAMPLES)]
pub struct Options {
    /// Where the engine publishes its events: the `endpoint` of its --kv-events-config
    ///
    /// A wildcard host (*, 0.0.0.0) is read as 127.0.0.1. Rank n publishes at the port plus n.
    #[arg(long, value_name = "tcp://HOST:PORT")]
    pub engine_events: Endpoint,

    /// Where the engine answers for what was missed: the `replay_endpoint` there
    ///
    /// Without it, what is lost stays lost, and readers are told so.
    #[arg(long, value_name = "tcp://HOST:PORT")]
    pub replay: Option<Endpoint>,

    /// Data-parallel ranks of the engine
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(RELAY_RANKS_MAX)))]
    pub ranks: u32,

    /// The publisher connects to --engine-events, and the relay listens there
    ///
    /// vLLM's and SGLang's do when their own endpoint names a concrete host.
    #[arg(long)]
    pub bind: bool,

    /// The start of the topics to subscribe to, where several engines share an endpoint [default: all]
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub topic: String,

    /// Where readers connect; port 0 takes any free port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5600")]
    pub listen: String,

    /// Where /metrics and /health are served [default: nowhere]
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics: Option<String>,

    /// Batches kept of each rank, for readers that come back
    #[arg(long, value_name = "COUNT", env = "KV_EVENT_HISTORY_BATCHES", default_value_t = HISTORY_BATCHES)]
    pub history_batches: usize,

    /// Bytes kept of each rank's batches
    #[arg(long, value_name = "BYTES", env = "KV_EVENT_HISTORY_BYTES", default_value_t = HISTORY_BYTES)]
    pub history_bytes: usize,

    /// When the relay subscribes to the engine
    ///
    /// Lazily, what the engine published before its first reader must still be in its own replay buffer.
    #[arg(long, value_enum, env = "KV_EVENT_RELAY_START", default_value_t = Start::Boot)]
    pub start: Start,

    /// Check the engine's own hashes: sglang, or vllm-sha256-cbor, vllm-sha256, vllm-xxhash-cbor or vllm-xxhash, perhaps with
    /// :PYTHONHASHSEED [default: no check]
    ///
    /// Counted in /metrics and in the log, as matched, mismatched and unverifiable; nothing is dropped.
    #[arg(long, value_name = "WAY[:SEED]", env = "KV_EVENT_HASH_CHECK")]
    pub hash_check: Option<Hashing>,

    /// Where the engine says how busy its ranks are: http://HOST:PORT/metrics of vLLM or SGLang, or SGLang's /v1/loads [default: it
    /// is not asked]
    ///
    /// Each rank's load goes with its batches and heartbeats.
    #[arg(long, value_name = "URL", value_parser = http)]
    pub load_url: Option<Url>,

    /// How often it is asked, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds, requires = "load_url")]
    pub load_every: Duration,

    /// The engine announces again what it has (vLLM in the full report mode): a second announcement is no second copy
    #[arg(long)]
    pub set_copies: bool,
}

/// When a relay subscribes to its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Start {
    /// When it starts.
    Boot,
    /// When its first reader subscribes.
    Lazy,
}

impl Options {
    pub(super) fn relay(&self) -> relay::Options {
        relay::Options {
            ranks: self.ranks,
            replays: self.replay.is_some(),
            copies: if self.set_copies { CopyRule::Reannounced } else { CopyRule::Counted },
            history_batches: self.history_batches,
            history_bytes: self.history_bytes,
            hash_check: self.hash_check,
            ..relay::Options::default()
        }
    }

    pub(super) fn intake(&self) -> IntakeOptions {
        IntakeOptions {
            events: self.engine_events.clone(),
            replay: self.replay.clone(),
            bind: self.bind,
            subscriber: SubscriberOptions { topic: self.topic.clone().into_bytes(), ..SubscriberOptions::default() },
        }
    }
}

fn http(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("expected http://HOST:PORT/PATH: {error}"))?;
    if url.scheme() == "http" { Ok(url) } else { Err(format!("expected http://HOST:PORT/PATH, got {}://", url.scheme())) }
}

/// From a tenth of a second to an hour: shorter is work for the engine, and longer is no load.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("expected a number of seconds, got {text:?}"))?;
    let in_range = (0.1..=3600.0).contains(&seconds);
    in_range.then(|| Duration::from_secs_f64(seconds)).ok_or_else(|| format!("expected 0.1 to 3600 seconds, got {text}"))
}

const EXAMPLES: &str = "\
Examples:
  relay --engine-events tcp://*:5557 --replay tcp://*:5657
      beside one vLLM server started with
        --kv-events-config '{\"enable_kv_cache_events\":true,\"publisher\":\"zmq\",
        \"endpoint\":\"tcp://*:5557\",\"replay_endpoint\":\"tcp://*:5657\"}'
  relay --engine-events tcp://*:5557 --replay tcp://*:5657 --ranks 8 --listen 0.0.0.0:5600 --metrics 0.0.0.0:5601
      all ranks of a data-parallel engine, for gateways on other machines
  relay --engine-events tcp://*:5557 --replay tcp://*:5657 --load-url http://127.0.0.1:8000/metrics
      tells its readers how busy the engine is, asking it every second
  gateway --engine http://10.0.0.1:8000,events=grpc://10.0.0.1:5600
      a gateway that reads it

Services: kv_events.v1.KvEvents/Subscribe, and SubscribeKvEvents of vllm.grpc.engine.VllmEngine,
sglang.grpc.scheduler.SglangScheduler, trtllm.TrtllmService and tokenspeed.grpc.scheduler.TokenSpeedScheduler.

RUST_LOG=debug shows every change of a socket.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, clap::Error> {
        Options::try_parse_from(["relay", "--engine-events", "tcp://*:5557"].iter().chain(arguments))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
        let options = parse(&["--replay", "tcp://*:5657", "--ranks", "2", "--history-batches", "5"]).unwrap();
        assert_eq!((options.relay().ranks, options.relay().replays, options.relay().history_batches), (2, true, 5));
        assert!(!parse(&[]).unwrap().relay().replays);
    }

    #[test]
    fn the_check_the_start_and_the_polls_are_off_until_they_are_asked_for() {
        let options = parse(&[]).unwrap();
        assert_eq!((options.start, options.relay().hash_check, options.load_url), (Start::Boot, None, None));
        let asked =
            ["--start", "lazy", "--hash-check", "vllm-sha256-cbor:0", "--load-url", "http://h:1/metrics", "--load-every", "0.5"];
        let options = parse(&asked).unwrap();
        assert_eq!((options.start, options.relay().hash_check), (Start::Lazy, "vllm-sha256-cbor:0".parse().ok()));
        assert_eq!((options.load_every, options.load_url.unwrap().path()), (Duration::from_millis(500), "/metrics"));
        let command = Options::command();
        let env = |name: &str| command.get_arguments().find(|argument| argument.get_id() == name).and_then(clap::Arg::get_env);
        assert_eq!(env("start").unwrap(), "KV_EVENT_RELAY_START");
        assert_eq!(env("hash_check").unwrap(), "KV_EVENT_HASH_CHECK");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refusal = |arguments: &[&str]| parse(arguments).unwrap_err().to_string();
        assert!(refusal(&["--ranks", "0"]).contains("1..=1024"));
        assert!(refusal(&["--replay", "127.0.0.1:5"]).contains("expected tcp://HOST:PORT or ipc://PATH"));
        assert!(refusal(&["--hash-check", "md5"]).contains("expected sglang, or vllm-sha256"));
        assert!(refusal(&["--start", "never"]).contains("boot, lazy"));
        assert!(refusal(&["--load-url", "ftp://h:1/"]).contains("expected http://HOST:PORT/PATH, got ftp://"));
        assert!(refusal(&["--load-url", "http://h:1/", "--load-every", "0"]).contains("expected 0.1 to 3600 seconds"));
        assert!(Options::try_parse_from(["relay"]).unwrap_err().to_string().contains("--engine-events"));
    }
}
