//! Starting and stopping a gateway.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt;
use kv_index::lanes::PoolError;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::api::router;
use super::app::App;
use super::decide::keep;
use super::fleet::{Fleet, WatchError, sensible_lanes};
use super::index::FleetIndex;
use super::limits::{GRACE, GRACE_LAST};
use super::proxy::Proxy;
use super::settings::Settings;
use super::table::Table;
use super::tokens::{TokenFilesError, Tokens};

/// A gateway that serves.
pub struct Gateway {
    app: Arc<App>,
    address: SocketAddr,
    /// Cancelled when no further connection is taken.
    closing: CancellationToken,
    /// Cancelled when running answers have had their time.
    cut: CancellationToken,
    serving: JoinHandle<std::io::Result<()>>,
    watching: JoinSet<()>,
}

/// Why a gateway did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// `HOST:PORT`
        address: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The tokenizer or its template.
    #[error("cannot tokenize: {0}")]
    Tokens(#[from] TokenFilesError),
    /// The lanes.
    #[error("cannot apply events: {0}")]
    Lanes(#[from] PoolError),
    /// The engines' events.
    #[error(transparent)]
    Watch(#[from] WatchError),
}

impl Gateway {
    /// Binds the address and begins to serve and to watch the engines. An engine that does not answer is retried, and is
    /// no error.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let refused = |source| StartError::Listen { address: settings.listen.clone(), source };
        let listener = TcpListener::bind(&settings.listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let (closing, cut, mut watching) = (CancellationToken::new(), CancellationToken::new(), JoinSet::new());
        let proxy = Proxy::new(settings.max_wait, settings.api_key.as_ref(), cut.clone());
        let tokens = Tokens::open(settings.tokenizer.as_deref(), settings.chat_template.as_deref(), proxy.questions().clone())?;
        let index = FleetIndex::new(settings.kv_index, settings.lanes.unwrap_or_else(sensible_lanes))?;
        let fleet = Fleet::new(&settings.engines, settings.liveness, &settings.decision)?;
        index.watch(&fleet, proxy.questions(), &mut watching).await?;
        let app = Arc::new(App::new(settings, fleet, index, tokens, proxy));
        watching.spawn(keep(app.clone()));
        let serving = tokio::spawn(serve(listener, app.clone(), closing.clone()));
        Ok(Self { app, address, closing, cut, serving, watching })
    }

    /// Where it listens, with the port that the system chose where that was left to it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What serves where and by what, in words for whoever started it.
    pub fn greeting(&self) -> String {
        let settings = &self.app.settings;
        // One of those that the metrics tell of works in a shutdown only.
        let lanes = self.app.index.lanes().lanes.len() - 1;
        let written = format!("written by {lanes} lane{}", if lanes == 1 { "" } else { "s" });
        let policy = format!("policy {:?}, index {:?} {written}", settings.policy, settings.kv_index);
        let head = format!("Gateway at http://{}, {policy}.\nTokens come from {}.", self.address, self.app.tokens.describe());
        let engines = settings.engines.iter().map(ToString::to_string);
        [head].into_iter().chain(engines).collect::<Vec<_>>().join("\n")
    }

    /// A view of all ranks: blocks, requests, hit rate, predicted against reported.
    pub(super) fn table(&self) -> Table {
        Table::of(self.app.clone())
    }

    /// Ends when every engine answers and every event stream is connected.
    pub fn all_ready(&self) -> impl Future<Output = ()> + 'static {
        let app = self.app.clone();
        async move {
            while !app.fleet.engines().iter().all(|engine| engine.is_ready() && engine.streams_connected()) {
                sleep(READY_POLL).await;
            }
        }
    }

    /// Takes no further connection, lets running answers finish for a few seconds, tells those that did not, applies the events
    /// that have come, and closes all sockets.
    pub async fn stop(mut self) {
        self.closing.cancel();
        if timeout(GRACE, &mut self.serving).await.is_err() {
            self.cut.cancel();
            // What a client does not read by then, it will not.
            _ = timeout(GRACE_LAST, &mut self.serving).await;
        }
        self.serving.abort();
        // What was taken from engines is applied before the feeds go, and the streams with them.
        match timeout(GRACE_LAST, self.app.index.drain()).await {
            Ok(drained) if drained.lost == 0 => {}
            undrained => tracing::warn!(?undrained, "not all events were applied"),
        }
        self.watching.shutdown().await;
    }
}

/// How often a start-up that is waited for is looked at.
const READY_POLL: Duration = Duration::from_millis(20);

impl Drop for Gateway {
    /// Ends it at once, for whoever does not wait.
    fn drop(&mut self) {
        self.closing.cancel();
        self.cut.cancel();
    }
}

async fn serve(listener: TcpListener, app: Arc<App>, closing: CancellationToken) -> std::io::Result<()> {
    // Each token of a stream is a small write, and waits for the one before it unless told not to.
    let listener = listener.tap_io(|connection| _ = connection.set_nodelay(true));
    axum::serve(listener, router(app)).with_graceful_shutdown(closing.cancelled_owned()).await
}
