//! The program: from its options to its end.

use std::io;

use thiserror::Error;
use tokio::task::JoinSet;

use super::demo;
use super::limits::GRACE;
use super::screen::Screen;
use super::server::{Gateway, StartError};
use super::settings::{EngineSpecError, Options, Settings, SettingsError};
use crate::mock_engine::{MockError, MockFleet};
use crate::signals::{INTERRUPTED, Signals};

/// Why the program did not run to an ordered end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The options or the configuration file.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The gateway did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The demonstration's engines did not start.
    #[error("the demonstration: {0}")]
    Engines(#[from] MockError),
    /// The demonstration's engines cannot be reached.
    #[error("the demonstration: {0}")]
    Specs(#[from] EngineSpecError),
    /// The system gives no signals.
    #[error("cannot wait for signals: {0}")]
    Signals(#[from] io::Error),
}

/// Runs the gateway until Ctrl-C or SIGTERM; without engines in the options, with mock engines and a demonstration. A
/// second signal ends the process at once.
///
/// # Errors
/// [`RunError`], before anything is served.
pub async fn run(options: &Options) -> Result<(), RunError> {
    let screen = Screen::new();
    screen.start_log();
    let mut signals = Signals::new()?;
    let mut settings = Settings::resolve(options)?;
    let engines = if settings.engines.is_empty() { Some(demo::start_engines(options).await?) } else { None };
    if let Some(engines) = &engines {
        settings.engines = demo::specs(engines)?;
    }
    let gateway = Gateway::start(settings).await?;
    screen.print(&gateway.greeting());
    let mut helpers = JoinSet::new();
    helpers.spawn(gateway.table().keep_shown(screen.clone()));
    if let Some(engines) = &engines {
        helpers.spawn(demonstrate(&gateway, engines, options, screen.clone()));
    }
    signals.next().await;
    helpers.shutdown().await;
    screen.finish();
    screen.print(&gateway.table().render());
    screen.print(&format!("Stopping: running answers have {} s. Again to stop at once.", GRACE.as_secs()));
    tokio::select! {
        () = stop(gateway, engines) => Ok(()),
        // Not by returning: the runtime would wait for what still blocks.
        () = signals.next() => std::process::exit(INTERRUPTED),
    }
}

async fn stop(gateway: Gateway, engines: Option<MockFleet>) {
    gateway.stop().await;
    if let Some(engines) = engines {
        engines.shutdown().await;
    }
}

/// The demonstration's load, and then what there is to try.
fn demonstrate(gateway: &Gateway, engines: &MockFleet, options: &Options, screen: Screen) -> impl Future<Output = ()> + 'static {
    let (address, model) = (gateway.address().to_string(), engines.config().model.clone());
    let (table, ready, requests) =
        (gateway.table(), gateway.all_ready(), if options.no_demo_load { 0 } else { options.demo_requests });
    async move {
        ready.await;
        if requests > 0 {
            screen.print(&format!("Sending {requests} chat requests of users who share system prompts ..."));
            screen.print(&demo::send(address.clone(), model.clone(), requests).await);
            screen.show(&table.render());
        }
        screen.print(&demo::curl_lines(&address, &model));
    }
}
