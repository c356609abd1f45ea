//! A running relay.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;

use kv_events::adapter::grpc;
use kv_events::adapter::grpc::smg::SmgCounts;
use kv_events::adapter::hub::Hub;
use kv_events::adapter::zmq::{Intake, IntakeError, IntakeOptions, IntakeStatus};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::limits::GRACE;
use super::load::{LoadCounts, LoadPolls};
use super::log;
use super::metrics::{Metrics, serve_metrics};
use super::options::{Options, Start};

/// A running relay. Dropping it ends it at once; [`stop`](Self::stop) waits.
#[derive(Debug)]
pub struct Sidecar {
    options: Options,
    address: SocketAddr,
    metrics: Option<SocketAddr>,
    hub: Hub,
    closing: CancellationToken,
    /// Sockets, logs and metrics.
    tasks: JoinSet<()>,
    serving: JoinHandle<()>,
}

/// Why a relay does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address for readers or for metrics.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// What asks the engine how busy it is.
    #[error("cannot ask for the load: {0}")]
    Load(#[from] reqwest::Error),
    /// The engine's sockets.
    #[error("cannot follow rank {rank}: {source}")]
    Engine {
        /// The rank.
        rank: u32,
        /// Why.
        source: IntakeError,
    },
}

impl Sidecar {
    /// Listens, and begins to follow the engine. An engine that is not there is waited for, and is no error.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(options: &Options) -> Result<Self, StartError> {
        let (listener, address) = listen(&options.listen).await?;
        let metrics_listener = match &options.metrics {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        let metrics = metrics_listener.as_ref().map(|listening| listening.1);
        let (hub, _) = Hub::spawn(random(), options.relay());
        let closing = CancellationToken::new();
        let (mut tasks, mut statuses) = (JoinSet::new(), Vec::new());
        for rank in 0..options.ranks {
            let (status, shown) = watch::channel(IntakeStatus::default());
            statuses.push(shown.clone());
            tasks.spawn(log::keep_logged(rank, shown));
            match options.start {
                Start::Boot => {
                    let intake = Intake::open(hub.clone(), rank, &options.intake()).await;
                    let intake = intake.map_err(|source| StartError::Engine { rank, source })?;
                    tasks.spawn(follow(intake, status));
                }
                Start::Lazy => _ = tasks.spawn(follow_when_read(hub.clone(), rank, options.intake(), status)),
            }
        }
        let load_counts = Arc::<LoadCounts>::default();
        if let Some(url) = &options.load_url {
            tasks.spawn(LoadPolls::new(url.clone(), hub.clone(), load_counts.clone())?.run(options.load_every));
        }
        tasks.spawn(log::keep_summarized(hub.clone()));
        let smg = Arc::<SmgCounts>::default();
        if let Some((listener, _)) = metrics_listener {
            let metrics = Metrics::new(hub.clone(), statuses, smg.clone(), load_counts);
            tasks.spawn(serve_metrics(listener, metrics, closing.clone()));
        }
        let server = grpc::serve(listener, hub.clone(), smg, closing.clone().cancelled_owned());
        let serving = tokio::spawn(async {
            if let Err(error) = server.await {
                tracing::error!(%error, "no reader is served any more");
            }
        });
        Ok(Self { options: options.clone(), address, metrics, hub, closing, tasks, serving })
    }

    /// Where readers connect, with the port that the system chose where that was left to it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where metrics are served, if they are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// The relay itself, for whoever asks how it stands.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// What is served where, in words for whoever started it.
    pub fn greeting(&self) -> String {
        let Options { engine_events, replay, ranks, .. } = &self.options;
        let replay =
            replay.as_ref().map_or_else(|| "no replay: what is lost stays lost".to_owned(), |replay| format!("replay {replay}"));
        let ranks = if *ranks > 1 { format!(", {ranks} ranks on ports that count up") } else { String::new() };
        let metrics = self.metrics.map(|at| format!("\nMetrics at http://{at}/metrics.")).unwrap_or_default();
        format!("Relay at grpc://{}, of the engine at {engine_events}, {replay}{ranks}.{metrics}", self.address)
    }

    /// Leaves the engine, ends every reader's stream with `UNAVAILABLE`, and closes all sockets.
    pub async fn stop(mut self) {
        self.closing.cancel();
        self.hub.stop();
        if timeout(GRACE, &mut self.serving).await.is_err() {
            tracing::warn!("a reader does not let go of its stream");
        }
        self.serving.abort();
        self.tasks.shutdown().await;
    }
}

impl Drop for Sidecar {
    /// Ends it at once, for whoever does not wait. The server closes its connections by itself.
    fn drop(&mut self) {
        self.closing.cancel();
        self.hub.stop();
    }
}

/// Follows a rank, and shows how its sockets fare.
async fn follow(intake: Intake, shown: watch::Sender<IntakeStatus>) {
    let mut status = intake.status();
    let show = async {
        while status.changed().await.is_ok() {
            let now = status.borrow_and_update().clone();
            shown.send_replace(now);
        }
    };
    tokio::select! {
        () = intake.run() => {}
        () = show => {}
    }
}

/// The same, from the first subscription on.
async fn follow_when_read(hub: Hub, rank: u32, options: IntakeOptions, shown: watch::Sender<IntakeStatus>) {
    if hub.subscriptions().wait_for(|count| *count > 0).await.is_err() {
        return;
    }
    match Intake::open(hub, rank, &options).await {
        Ok(intake) => follow(intake, shown).await,
        Err(error) => {
            tracing::error!(rank, %error, "cannot follow the engine");
            shown.send_modify(|status| status.last_error = Some(error.to_string()));
        }
    }
}

async fn listen(address: &str) -> Result<(TcpListener, SocketAddr), StartError> {
    let refused = |source| StartError::Listen { address: address.to_owned(), source };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    Ok((listener, bound))
}

/// A number that no other process draws: the seed of the standard library's hash tables is random.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
