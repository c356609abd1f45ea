//! The open loop: every row at its time.

use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::{Outcome, PromptBody, Target};
use super::limits;
use super::prompt::PromptSource;
use super::trace::Row;

/// How rows become requests.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) rows: Vec<Row>,
    pub(super) prompts: PromptSource,
    pub(super) as_text: bool,
    /// Finite and above 0.
    pub(super) speedup: f64,
    pub(super) max_output: u64,
    pub(super) max_inflight: usize,
}

/// Sends every row and waits for the answers, which come back by row. Ctrl-C ends it early, with what has been answered.
pub(super) async fn drive(plan: &Plan, target: &Target, progress: &ProgressBar) -> Vec<Outcome> {
    let mut outcomes = Vec::with_capacity(plan.rows.len());
    let mut requests = JoinSet::new();
    let sending = async {
        send_all(plan, target, progress, &mut requests, &mut outcomes).await;
        while let Some(done) = requests.join_next().await {
            keep(&mut outcomes, done.ok(), progress);
        }
    };
    tokio::select! {
        () = sending => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    outcomes.sort_by_key(|outcome: &Outcome| outcome.row);
    outcomes
}

async fn send_all(
    plan: &Plan,
    target: &Target,
    progress: &ProgressBar,
    requests: &mut JoinSet<Outcome>,
    outcomes: &mut Vec<Outcome>,
) {
    let places = Arc::new(Semaphore::new(plan.max_inflight));
    let first_ms = plan.rows.first().map_or(0.0, |row| row.timestamp);
    let start = Instant::now();
    for (index, row) in plan.rows.iter().enumerate() {
        let due = start + due(row.timestamp, first_ms, plan.speedup);
        tokio::time::sleep_until(due).await;
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (target, prompt, max_tokens) = (target.clone(), plan.prompt(row), plan.max_tokens(row));
        requests.spawn(async move {
            let outcome = target.send(index, prompt, max_tokens, due).await;
            drop(place);
            outcome
        });
        while let Some(done) = requests.try_join_next() {
            keep(outcomes, done.ok(), progress);
        }
    }
}

/// A row is due when as much of the trace's time has passed as of ours, divided by the speedup. Rows from before the
/// first one are due at once.
fn due(timestamp_ms: f64, first_ms: f64, speedup: f64) -> Duration {
    let seconds = ((timestamp_ms - first_ms) / 1_000.0 / speedup).clamp(0.0, limits::DUE.as_secs_f64());
    Duration::try_from_secs_f64(seconds).unwrap_or(limits::DUE)
}

fn keep(outcomes: &mut Vec<Outcome>, outcome: Option<Outcome>, progress: &ProgressBar) {
    outcomes.extend(outcome);
    progress.inc(1);
}

impl Plan {
    fn prompt(&self, row: &Row) -> PromptBody {
        if self.as_text { PromptBody::Text(self.prompts.text(row)) } else { PromptBody::Tokens(self.prompts.tokens(row)) }
    }

    fn max_tokens(&self, row: &Row) -> u64 {
        row.output_length.clamp(1, self.max_output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_are_scaled_and_saturate() {
        assert_eq!(due(5_000.0, 1_000.0, 2.0), Duration::from_secs(2));
        assert_eq!(due(500.0, 1_000.0, 2.0), Duration::ZERO);
        assert_eq!(due(f64::MAX, 0.0, 1e-300), limits::DUE);
        assert_eq!(due(1_000.0, 0.0, f64::MIN_POSITIVE), limits::DUE);
    }
}
