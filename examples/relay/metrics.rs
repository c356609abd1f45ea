//! `/metrics`, for Prometheus, and `/health`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use kv_events::adapter::grpc::smg::{SmgCounts, Unsaid};
use kv_events::adapter::hub::Hub;
use kv_events::adapter::zmq::IntakeStatus;
use kv_events::relay::{RankStatus, Restart};
use metrics::{Label, counter, describe_counter, describe_gauge, gauge, with_local_recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::load::LoadCounts;

/// The recorder of one relay.
pub(super) struct Metrics {
    hub: Hub,
    intakes: Vec<watch::Receiver<IntakeStatus>>,
    smg: Arc<SmgCounts>,
    loads: Arc<LoadCounts>,
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
}

impl Metrics {
    pub(super) fn new(
        hub: Hub,
        intakes: Vec<watch::Receiver<IntakeStatus>>,
        smg: Arc<SmgCounts>,
        loads: Arc<LoadCounts>,
    ) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        with_local_recorder(&recorder, describe);
        Self { hub, intakes, smg, loads, handle: recorder.handle(), recorder }
    }

    fn render(&self, ranks: &[RankStatus], readers: usize) -> String {
        with_local_recorder(&self.recorder, || {
            gauge!("kv_relay_readers").set(as_float(readers as u64));
            for (number, (status, intake)) in ranks.iter().zip(&self.intakes).enumerate() {
                let labels = vec![Label::new("rank", number.to_string())];
                show_rank(&labels, status);
                show_intake(&labels, &intake.borrow());
            }
            for (reason, count) in Unsaid::ALL.into_iter().zip(self.smg.all()) {
                counter!("kv_relay_smg_unsaid_total", "reason" => reason.as_str()).absolute(count);
            }
            for (outcome, count) in self.loads.all() {
                counter!("kv_relay_load_polls_total", "outcome" => outcome).absolute(count);
            }
        });
        self.handle.render()
    }
}

fn show_rank(labels: &[Label], status: &RankStatus) {
    let RankStatus { counts, live_counts, .. } = status;
    let gauges = [
        ("kv_relay_blocks", status.live_blocks as u64),
        ("kv_relay_copies", status.live_copies),
        ("kv_relay_waiting_blocks", status.waiting_blocks as u64),
        ("kv_relay_history_batches", status.history_batches as u64),
        ("kv_relay_history_bytes", status.history_bytes as u64),
        ("kv_relay_unknown_before_batches", status.unknown_before),
        ("kv_relay_lost_batches", status.lost),
        ("kv_relay_doubted", u64::from(status.doubted)),
    ];
    for (name, value) in gauges {
        gauge!(name, labels.to_vec()).set(as_float(value));
    }
    let batches = [
        ("live", counts.live),
        ("replayed", counts.replayed),
        ("duplicate", counts.duplicates),
        ("lost", counts.lost),
        ("overflowed", counts.overflowed),
        ("outlived", counts.outlived),
        ("unreadable_number", counts.unreadable),
        ("oversized", counts.oversized),
        ("late_answer", counts.answers_ignored),
    ];
    for (disposition, count) in batches {
        counter!("kv_relay_batches_total", with(labels, "disposition", disposition)).absolute(count);
    }
    counter!("kv_relay_gaps_total", labels.to_vec()).absolute(counts.gaps);
    counter!("kv_relay_replays_total", labels.to_vec()).absolute(counts.asked);
    for (restart, count) in Restart::ALL.into_iter().zip(counts.restarts) {
        counter!("kv_relay_restarts_total", with(labels, "reason", restart.as_str())).absolute(count);
    }
    for (loss, count) in live_counts.losses.iter() {
        counter!("kv_relay_losses_total", with(labels, "reason", loss.as_str())).absolute(count);
    }
    let hashes = status
        .hashes
        .map(|hashes| [("matched", hashes.matched), ("mismatched", hashes.mismatched), ("unverifiable", hashes.unverifiable)]);
    for (outcome, count) in hashes.into_iter().flatten() {
        counter!("kv_relay_hash_checks_total", with(labels, "outcome", outcome)).absolute(count);
    }
}

fn show_intake(labels: &[Label], intake: &IntakeStatus) {
    gauge!("kv_relay_connected", labels.to_vec()).set(u32::from(intake.connected));
    counter!("kv_relay_connections_total", labels.to_vec()).absolute(intake.connections);
    counter!("kv_relay_misframed_total", labels.to_vec()).absolute(intake.misframed);
    counter!("kv_relay_lagged_total", labels.to_vec()).absolute(intake.lagged);
    counter!("kv_relay_replays_broken_total", labels.to_vec()).absolute(intake.replays_broken);
}

fn describe() {
    describe_gauge!("kv_relay_readers", "Subscriptions");
    describe_gauge!("kv_relay_blocks", "KV blocks that the engine's rank holds now");
    describe_gauge!("kv_relay_copies", "Their copies on all tiers");
    describe_gauge!("kv_relay_waiting_blocks", "Blocks whose parents were not announced");
    describe_gauge!("kv_relay_history_batches", "Batches kept for readers that come back");
    describe_gauge!("kv_relay_history_bytes", "What these are charged for");
    describe_gauge!("kv_relay_unknown_before_batches", "Batches that were published before what is known: they hide blocks");
    describe_gauge!("kv_relay_lost_batches", "Batches lost since: what is told may be gone");
    describe_gauge!("kv_relay_doubted", "Whether the publisher may be another than before");
    describe_counter!("kv_relay_batches_total", "Batches by what became of them");
    describe_counter!("kv_relay_gaps_total", "Times that batches were missing");
    describe_counter!("kv_relay_replays_total", "Questions to the replay socket");
    describe_counter!("kv_relay_restarts_total", "Lives of the publisher, by how they were recognised");
    describe_counter!("kv_relay_losses_total", "Events that the relay's own state leaves out, by reason");
    describe_counter!("kv_relay_hash_checks_total", "Blocks whose names were recomputed, by what came out");
    describe_counter!(
        "kv_relay_load_polls_total",
        "Times that the engine was asked how busy it is, and ranks that it told of in vain"
    );
    describe_gauge!("kv_relay_connected", "Whether the live socket is connected");
    describe_counter!("kv_relay_connections_total", "Times that it was");
    describe_counter!("kv_relay_misframed_total", "Messages that were none of a publisher's");
    describe_counter!("kv_relay_lagged_total", "Live messages that the relay was too slow for");
    describe_counter!("kv_relay_replays_broken_total", "Replays that did not end with the end marker");
    describe_counter!("kv_relay_smg_unsaid_total", "What readers of the SMG family were not told, by reason");
}

/// Serves both until `stop`.
pub(super) async fn serve_metrics(listener: TcpListener, metrics: Metrics, stop: CancellationToken) {
    let router = Router::new().route("/metrics", get(render)).route("/health", get(health)).with_state(Arc::new(metrics));
    // `axum::serve` retries what a listener can report; it has no error to return.
    let _ = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await;
}

async fn render(State(metrics): State<Arc<Metrics>>) -> Result<String, StatusCode> {
    let (ranks, readers) = metrics.hub.status().await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(metrics.render(&ranks, readers))
}

/// It lives. Whether its engine does is in the metrics: a relay without its engine is still a good relay.
async fn health(State(metrics): State<Arc<Metrics>>) -> StatusCode {
    if metrics.hub.status().await.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

fn with(labels: &[Label], name: &'static str, value: &'static str) -> Vec<Label> {
    labels.iter().cloned().chain([Label::from_static_parts(name, value)]).collect()
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53, and Prometheus has floats only")]
fn as_float(count: u64) -> f64 {
    count as f64
}
