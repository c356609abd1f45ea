//! `capture record`: a live engine's events and the requests beside them, in one file.
//!
//! # The file
//! JSON lines in the order of receipt, each with its `kind`; `t` is in seconds from the start of the recording. A reader skips
//! kinds and fields that it does not know.
//!
//! | kind | fields | |
//! |---|---|---|
//! | `meta` | `format` 1, `engine`, `version`, `case`, `note`, `model`, `ranks`, `events_port`, `replay_port`, `began` (Unix seconds) | the first line |
//! | `live` | `port`, `t`, `frames` | a message of a rank's publisher: topic, sequence, payload, each in hex |
//! | `replay-request`, `replay-response` | `socket` (`dealer`), `port`, `t`, `frames` | as the DEALER sent and saw them, with the empty delimiter |
//!
//! These are the lines of the captures in `../shared/data`, whose requests stand in a second file. Here they stand between
//! the messages:
//!
//! | kind | fields | |
//! |---|---|---|
//! | `request` | `name`, `t_start`, `t` (end), `status`, `model`, `rank` or null, `prompt_token_ids`, `max_tokens`, `output_token_ids`, `prompt_tokens`, `completion_tokens`, `cached_tokens`, `extra` (the other fields of the request's body) | `status` is 502 when no answer came to its end, and 499 when the client hung up before; what the engine did not say is null, `cached_tokens` also where it writes null for 0; `prompt_token_ids` is missing for a text that came back without its ids |
//! | `request` | `name` `clear`, `path`, `t_start`, `t`, `status` | the cache was emptied over HTTP |
//! | `link` | `port`, `t`, `state` (`connected`, `disconnected`, `unreachable`), `cause` | what became of a subscription |
//! | `lagged` | `port`, `t`, `lost` | messages that came faster than they could be written |
//! | `replay-end` | `port`, `t`, `end` | how a replay ended: `complete`, or why not |
//!
//! `port` tells ranks apart: `events_port` plus rank, `replay_port` plus rank; on ipc it is the rank. A recording asks the replay
//! sockets twice: once the subscriptions stand, for what was published before, and at the end, for all.

mod engine;
mod events;
mod journal;
mod load;
mod proxy;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use kv_events::adapter::zmq::{Endpoint, EndpointError};
use thiserror::Error;
use tokio::time::timeout;

use engine::Engine;
use events::Streams;
pub use journal::Counts;
use journal::Journal;
pub use load::LoadOptions;

/// What to record, and what to send meanwhile.
#[derive(Args, Clone, Debug)]
pub struct RecordOptions {
    /// The engine's HTTP address.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8000")]
    pub engine: reqwest::Url,
    /// Rank 0's publisher, as the engine's configuration names it; a wildcard becomes the engine's host.
    #[arg(long, value_name = "tcp://HOST:PORT", default_value = "tcp://*:5557")]
    pub events: Endpoint,
    /// Rank 0's replay socket, if the engine has one.
    #[arg(long, value_name = "tcp://HOST:PORT")]
    pub replay: Option<Endpoint>,
    /// Data-parallel ranks, each at the next port.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub ranks: u32,
    /// Only events whose topic starts with this.
    #[arg(long, default_value = "")]
    pub topic: String,
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// The recording's name in its first line.
    #[arg(long, default_value = "recording")]
    pub case: String,
    /// Anything a reader should know, in the first line.
    #[arg(long, default_value = "")]
    pub note: String,
    /// Accept requests here, pass them to the engine and record them. Runs until Ctrl-C, or for --duration-s.
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Record for this long where nothing else ends it.
    #[arg(long, value_name = "SECONDS")]
    pub duration_s: Option<u64>,
    /// The built-in load.
    #[command(flatten)]
    pub load: LoadOptions,
}

/// Why a recording could not be made.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The engine does not answer.
    #[error("expected an engine at {url}: {source}")]
    Engine {
        /// Its address.
        url: reqwest::Url,
        /// What went wrong.
        source: reqwest::Error,
    },
    /// The engine serves no model.
    #[error("expected a model in the list at {url}, got none")]
    NoModel {
        /// The list's address.
        url: reqwest::Url,
    },
    /// No publisher answers.
    #[error("expected a publisher at {endpoint} within {within_s} s: {cause}")]
    NoPublisher {
        /// Where it should be.
        endpoint: Endpoint,
        /// How long it was waited for.
        within_s: u64,
        /// The last failure.
        cause: String,
    },
    /// The ranks' ports do not exist.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The proxy's address cannot be used.
    #[error("expected to listen at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("expected to write the recording: {0}")]
    Write(#[from] io::Error),
}

/// Records until the load is done, the time is over or Ctrl-C, and writes a file that is valid wherever it ends.
///
/// # Errors
/// [`RecordError`]; what was recorded until then stands in `out`.
pub async fn record(options: &RecordOptions, out: impl Write) -> Result<Counts, RecordError> {
    let engine = Arc::new(Engine::discover(&options.engine).await?);
    let (journal, lines) = Journal::begin(journal::Meta::new(options, &engine));
    let work = drive(options, engine, journal);
    let ((), counts) = tokio::try_join!(work, async { Ok(lines.write(out).await?) })?;
    Ok(counts)
}

/// Everything that makes lines.
async fn drive(options: &RecordOptions, engine: Arc<Engine>, journal: Journal) -> Result<(), RecordError> {
    let mut streams = Streams::open(options, &journal)?;
    streams.connected().await?;
    streams.replay(&journal).await;
    tokio::select! {
        sent = send(options, engine, &journal) => sent?,
        _ = tokio::signal::ctrl_c() => eprintln!("stopping"),
    }
    streams.quiet(&journal).await;
    streams.replay(&journal).await;
    journal.end().await;
    Ok(())
}

async fn send(options: &RecordOptions, engine: Arc<Engine>, journal: &Journal) -> Result<(), RecordError> {
    match options.listen {
        Some(address) => within(options.duration_s, proxy::serve(address, engine, journal.clone())).await.unwrap_or(Ok(())),
        None if options.load.load > 0 => {
            load::send(&options.load, options.ranks, engine, journal).await;
            Ok(())
        }
        None => within(options.duration_s, std::future::pending()).await.unwrap_or(Ok(())),
    }
}

async fn within<T>(seconds: Option<u64>, future: impl Future<Output = T>) -> Option<T> {
    match seconds {
        Some(seconds) => timeout(Duration::from_secs(seconds), future).await.ok(),
        None => Some(future.await),
    }
}
