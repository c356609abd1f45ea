//! A request in progress, as its client sees it.

use tokio::sync::mpsc;

use super::engine_core::Command;

/// Tokens that became visible together. The engine makes one for each pass; a client that reads late gets several at
/// once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Output tokens, never empty.
    pub(super) tokens: Vec<u32>,
    /// Prompt tokens that came from the cache.
    pub(super) cached_tokens: usize,
    /// Whether nothing follows.
    pub(super) finished: bool,
}

/// One output token on its way to the client.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) token: u32,
    pub(super) cached_tokens: usize,
    pub(super) last: bool,
}

/// The client's end of a request. Dropping it before the last token cancels the request and frees its blocks.
#[derive(Debug)]
pub(super) struct Generation {
    id: u64,
    updates: mpsc::UnboundedReceiver<Update>,
    commands: mpsc::UnboundedSender<Command>,
    finished: bool,
}

impl Generation {
    /// The queue of updates is bounded by the request's `max_tokens`, so a client that does not read costs no more
    /// than its own answer.
    pub(super) fn new(id: u64, updates: mpsc::UnboundedReceiver<Update>, commands: mpsc::UnboundedSender<Command>) -> Self {
        Self { id, updates, commands, finished: false }
    }

    /// Unique within the fleet.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The next tokens, all that are there. `None` after the last one, or when the engine stopped.
    pub(super) async fn next(&mut self) -> Option<Progress> {
        let mut update = self.updates.recv().await?;
        let mut progress = Progress::default();
        loop {
            progress.tokens.push(update.token);
            progress.cached_tokens = update.cached_tokens;
            progress.finished = update.last;
            self.finished = update.last;
            match self.updates.try_recv() {
                Ok(next) => update = next,
                Err(_) => return Some(progress),
            }
        }
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        if !self.finished {
            let _ = self.commands.send(Command::Cancel(self.id));
        }
    }
}
