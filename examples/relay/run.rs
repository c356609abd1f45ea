//! The program: from its options to its end.

use std::io;

use thiserror::Error;
use tracing_subscriber::EnvFilter;

use super::options::Options;
use super::sidecar::{Sidecar, StartError};
use crate::signals::{INTERRUPTED, Signals};

/// Why the program did not run to an ordered end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The relay did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The system gives no signals.
    #[error("cannot wait for signals: {0}")]
    Signals(#[from] io::Error),
}

/// Runs the relay until Ctrl-C or SIGTERM. A second signal ends the process at once.
///
/// # Errors
/// [`RunError`], before anything is served.
pub async fn run(options: &Options) -> Result<(), RunError> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    // Only a process's first call does it.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(io::stderr).try_init();
    let mut signals = Signals::new()?;
    let relay = Sidecar::start(options).await?;
    println!("{}", relay.greeting());
    signals.next().await;
    println!("Stopping. Again to stop at once.");
    tokio::select! {
        () = relay.stop() => Ok(()),
        // Not by returning: the runtime would wait for what still blocks.
        () = signals.next() => std::process::exit(INTERRUPTED),
    }
}
