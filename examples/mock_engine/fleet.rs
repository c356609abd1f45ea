//! Starts and stops a fleet of engines.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::config::MockConfig;
use super::engine::MockEngine;
use super::engine_core::{Command, Submission};
use super::error::MockError;
use super::generation::Generation;
use super::http;
use super::limits;
use super::listen::listen_in_a_row;
use super::log::{LogEntry, RequestLog};
use super::sequence::{Prompt, Request};

/// A running fleet. Dropping it stops it without waiting; [`MockFleet::shutdown`] waits.
#[derive(Debug)]
pub struct MockFleet {
    shared: Arc<Fleet>,
    servers: JoinSet<()>,
    stop: CancellationToken,
}

impl MockFleet {
    /// Binds every socket, then serves. When this returns, requests are answered and subscribers are heard.
    ///
    /// # Errors
    /// [`MockError`], if a setting is out of range or an address cannot be bound.
    pub async fn start(config: MockConfig) -> Result<Self, MockError> {
        config.check()?;
        let stop = CancellationToken::new();
        let on_failure = stop.clone().drop_guard();
        let log = Arc::new(RequestLog::default());
        let (mut engines, mut listeners) = (Vec::new(), Vec::new());
        for index in 0..config.engines {
            let (listener, address) = http_listener(&config, index)?;
            engines.push(MockEngine::start(&config, index, address, &log, &stop).await?);
            listeners.push(listener);
        }
        on_failure.disarm();
        let shared = Arc::new(Fleet { config, engines, log, next_id: AtomicU64::new(0) });
        let mut servers = JoinSet::new();
        for (index, listener) in listeners.into_iter().enumerate() {
            servers.spawn(http::serve(Arc::clone(&shared), index, listener, stop.clone()));
        }
        Ok(Self { shared, servers, stop })
    }

    /// The engines, by index.
    pub fn engines(&self) -> &[MockEngine] {
        &self.shared.engines
    }

    /// What the fleet was started with.
    pub fn config(&self) -> &MockConfig {
        &self.shared.config
    }

    /// How many of `tokens` engine `index` would serve from its cache now, best rank.
    ///
    /// # Panics
    /// If there is no engine `index`.
    pub async fn truth(&self, index: usize, tokens: &[u32]) -> usize {
        let served = self.shared.engines[index].truth(tokens, self.shared.config.block_size).await;
        served.into_iter().max().unwrap_or(0)
    }

    /// The requests started so far, at most the last half million, in order of start.
    pub fn requests(&self) -> Vec<LogEntry> {
        let mut entries: Vec<LogEntry> = Vec::new();
        loop {
            let since = entries.last().map_or(0, |entry| entry.sequence + 1);
            let page = self.shared.log.page(since, limits::LOG_PAGE);
            if page.is_empty() {
                return entries;
            }
            entries.extend(page);
        }
    }

    /// Ends running answers, closes every socket, and waits for the servers, 2 s at most.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        let drained = async { while self.servers.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(limits::DRAIN, drained).await;
    }
}

impl Drop for MockFleet {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What every part of a fleet can see.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) config: MockConfig,
    pub(super) engines: Vec<MockEngine>,
    pub(super) log: Arc<RequestLog>,
    next_id: AtomicU64,
}

impl Fleet {
    /// Hands a prompt to a rank. The oracle looks at all engines first: what it sees is the state at arrival.
    pub(super) fn submit(&self, engine: &MockEngine, rank: usize, prompt: Prompt, max_tokens: usize) -> Generation {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let best = self.engines.iter().map(|engine| engine.best_match(prompt.servable())).max();
        let (updates, inbox) = mpsc::unbounded_channel();
        let submission = Submission {
            request: Request { id, prompt, max_tokens },
            updates,
            answer_id: answer_id(engine, id),
            oracle_tokens: best.unwrap_or(0) * self.config.block_size,
            arrived: Instant::now(),
        };
        let commands = &engine.ranks[rank].commands;
        // If the rank has stopped, dropping the submission ends the generation at once.
        let _ = commands.send(Command::Submit(submission));
        Generation::new(id, inbox, commands.clone())
    }
}

/// The part of an answer's `id` that the request log has too. The port makes it unique among fleets on one machine.
pub(super) fn answer_id(engine: &MockEngine, id: u64) -> String {
    format!("{}-{id}", engine.address().port())
}

fn http_listener(config: &MockConfig, index: usize) -> Result<(TcpListener, SocketAddr), MockError> {
    let offset = u16::try_from(index).expect("the config's engines were checked");
    let port = if config.http_port == 0 { 0 } else { config.http_port + offset };
    let refused = |source| MockError::Listen { purpose: "HTTP", address: SocketAddr::new(config.host, port).to_string(), source };
    let listener = listen_in_a_row("HTTP", config.host, port, 1)?.remove(0);
    let address = listener.local_addr().map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    Ok((TcpListener::from_std(listener).map_err(refused)?, address))
}
