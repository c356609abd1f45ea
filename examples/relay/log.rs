//! What is logged of a relay: changes of its sockets, and now and then how it stands.

use kv_events::HashCounts;
use kv_events::adapter::hub::Hub;
use kv_events::adapter::zmq::IntakeStatus;
use tokio::sync::watch;
use tokio::time::sleep;

use super::limits::SUMMARY_EVERY;

/// Logs what changes about the sockets of `rank`.
pub(super) async fn keep_logged(rank: u32, mut status: watch::Receiver<IntakeStatus>) {
    let mut before = status.borrow_and_update().clone();
    while status.changed().await.is_ok() {
        let now = status.borrow_and_update().clone();
        let reason = now.last_error.as_deref().unwrap_or_default();
        if now.connections > before.connections {
            tracing::info!(rank, "subscribed");
        } else if before.connected && !now.connected {
            tracing::warn!(rank, reason, "the engine is gone, connecting again");
        } else if now.lagged > before.lagged {
            tracing::warn!(rank, lost = now.lagged - before.lagged, "too slow for the engine");
        } else if now.last_error != before.last_error {
            tracing::debug!(rank, reason, "a socket failed");
        }
        before = now;
    }
}

/// Logs how the ranks stand.
pub(super) async fn keep_summarized(hub: Hub) {
    loop {
        sleep(SUMMARY_EVERY).await;
        let Ok((ranks, readers)) = hub.status().await else { return };
        for (rank, status) in ranks.iter().enumerate() {
            let counts = &status.counts;
            tracing::info!(
                rank,
                readers,
                last = status.last,
                blocks = status.live_blocks,
                history_batches = status.history_batches,
                live = counts.live,
                replayed = counts.replayed,
                gaps = counts.gaps,
                lost = status.lost,
                unknown_before = status.unknown_before,
                "relayed"
            );
            if let Some(hashes) = status.hashes {
                show_hashes(rank, &hashes);
            }
        }
    }
}

/// Logs what the check of the engine's hashes found: loudly, if it is not hashed as it is believed to be.
fn show_hashes(rank: usize, hashes: &HashCounts) {
    let HashCounts { matched, mismatched, unverifiable, first, .. } = *hashes;
    let Some(first) = first else {
        return tracing::info!(rank, matched, unverifiable, "hashes checked");
    };
    let (expected, got) = (format!("{:016x}", first.expected), format!("{:016x}", first.got));
    let actual = first.actual.unwrap_or("unknown");
    tracing::warn!(rank, matched, mismatched, unverifiable, %expected, %got, actual, "the engine hashes otherwise");
}
