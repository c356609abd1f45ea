//! `/metrics`, for Prometheus.
//!
//! What is counted for each rank lives in its tally and its stream's state; here it is only put into Prometheus' words,
//! when somebody asks. The recorder belongs to one gateway and not to the process, so that several can run in one.

mod decision;

use kv_index::lanes::PoolMetrics;
use kv_routing::liveness::{Cause, Veto};
use metrics::{Label, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram, with_local_recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use super::app::App;
use super::fleet::{Engine, Rank, StreamState, Trust};
use super::request::Untokenized;

/// The recorder of one gateway.
pub(crate) struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
}

impl Default for Metrics {
    fn default() -> Self {
        let differences = Matcher::Full(DIFFERENCE.to_owned());
        let builder = PrometheusBuilder::new().set_buckets_for_metric(differences, &DIFFERENCE_BUCKETS);
        let recorder = builder.expect("there are buckets").build_recorder();
        with_local_recorder(&recorder, describe);
        Self { handle: recorder.handle(), recorder }
    }
}

impl Metrics {
    /// One answer that told its cached tokens.
    pub(crate) fn difference(&self, worker: &str, rank: u32, predicted_tokens: u64, cached_tokens: u64) {
        let difference = signed_difference(predicted_tokens, cached_tokens);
        with_local_recorder(&self.recorder, || histogram!(DIFFERENCE, labels(worker, rank)).record(difference));
    }

    /// A request that was routed without its tokens.
    pub(crate) fn unpredicted(&self, reason: Untokenized) {
        with_local_recorder(&self.recorder, || counter!(UNPREDICTED, "reason" => reason.as_str()).increment(1));
    }

    /// A request that the gateway refused or failed.
    pub(crate) fn refused(&self, code: &'static str) {
        with_local_recorder(&self.recorder, || counter!(REFUSED, "code" => code).increment(1));
    }

    /// The text that Prometheus reads.
    pub(crate) fn render(&self, app: &App) -> String {
        let fleet = &app.fleet;
        with_local_recorder(&self.recorder, || {
            for engine in fleet.engines() {
                gauge!("kv_engine_ready", "worker" => engine.name().to_owned()).set(u32::from(engine.is_ready()));
                engine.ranks().iter().for_each(|rank| show_rank(app, engine, rank));
                decision::show_polls(engine);
                decision::show_checks(engine);
            }
            let degraded = fleet.engines().iter().flat_map(|engine| engine.ranks()).filter(|rank| is_degraded(rank)).count();
            gauge!("kv_degraded_ranks").set(as_float(degraded as u64));
            for cause in Cause::ALL {
                let count = fleet.life().counts().transitions(cause);
                counter!("kv_veto_transitions_total", "cause" => cause.as_str()).absolute(count);
            }
            decision::show_decisions(app);
            show_lanes(&app.index.lanes());
        });
        self.handle.render()
    }
}

fn show_rank(app: &App, engine: &Engine, rank: &Rank) {
    let labels = labels(engine.name(), rank.number);
    let (tally, stream) = (&rank.tally, rank.stream());
    let counters = [
        ("kv_requests_total", &tally.requests),
        ("kv_request_failures_total", &tally.failures),
        ("kv_answers_compared_total", &tally.compared),
        ("kv_answers_equal_total", &tally.equal),
        ("kv_prompt_tokens_total", &tally.prompt_tokens),
        ("kv_predicted_tokens_total", &tally.predicted_tokens),
        ("kv_cached_tokens_total", &tally.cached_tokens),
    ];
    for (name, count) in counters {
        counter!(name, labels.clone()).absolute(count.value());
    }
    let difference = signed_difference(tally.predicted_tokens.value(), tally.cached_tokens.value());
    gauge!("kv_predicted_minus_cached_tokens", labels.clone()).set(difference);
    gauge!("kv_blocks", labels.clone()).set(as_float(app.blocks(&stream)));
    decision::show_rank(app, &labels, rank);
    for veto in Veto::ALL {
        gauge!("kv_vetoed", with(&labels, "reason", veto.as_str())).set(u32::from(rank.pulse.veto() == Some(veto)));
    }
    show_stream(&labels, &stream);
    engine.check_up(rank);
    for (cause, is_found) in rank.causes() {
        gauge!("kv_diagnosis", with(&labels, "cause", cause.as_str())).set(u32::from(is_found));
    }
}

fn show_stream(labels: &[Label], stream: &StreamState) {
    let batches = &stream.batches;
    let dispositions = [
        ("live", batches.live),
        ("replayed", batches.replayed),
        ("stale", batches.stale),
        ("foreign", batches.foreign),
        ("missed", batches.missed),
        ("unreadable", batches.unreadable),
    ];
    for (disposition, count) in dispositions {
        counter!("kv_event_batches_total", with(labels, "disposition", disposition)).absolute(count);
    }
    counter!("kv_publisher_restarts_total", labels.to_vec()).absolute(batches.restarts);
    counter!("kv_replays_total", labels.to_vec()).absolute(batches.replays);
    counter!("kv_resyncs_total", labels.to_vec()).absolute(batches.resyncs);
    counter!("kv_stream_failures_total", labels.to_vec()).absolute(batches.failures);
    let hashes = stream.hashes.iter();
    for (outcome, count) in hashes.flat_map(|hashes| {
        [("matched", hashes.matched), ("mismatched", hashes.mismatched), ("unverifiable", hashes.unverifiable)]
    }) {
        counter!("kv_hash_checks_total", with(labels, "outcome", outcome)).absolute(count);
    }
    for (loss, count) in stream.counts.losses.iter() {
        counter!("kv_losses_total", with(labels, "reason", loss.as_str())).absolute(count);
    }
}

fn show_lanes(pool: &PoolMetrics) {
    gauge!("kv_lane_queued_steps").set(as_float(pool.held.events as u64));
    gauge!("kv_lane_queued_bytes").set(as_float(pool.held.cost));
    let outcomes = [
        ("accepted", pool.counts.accepted),
        ("returned", pool.counts.returned),
        ("applied", pool.counts.applied),
        ("panicked", pool.counts.panicked),
        ("unapplied", pool.counts.unapplied),
    ];
    for (outcome, count) in outcomes {
        counter!("kv_lane_steps_total", "outcome" => outcome).absolute(count);
    }
    for (number, lane) in pool.lanes.iter().enumerate() {
        let labels = vec![Label::new("lane", number.to_string())];
        gauge!("kv_lane_ready_streams", labels.clone()).set(as_float(lane.ready as u64));
        counter!("kv_lane_turns_total", labels.clone()).absolute(lane.turns);
        counter!("kv_lane_stolen_turns_total", labels.clone()).absolute(lane.stolen);
        counter!("kv_lane_applied_total", labels.clone()).absolute(lane.applied);
        counter!("kv_lane_parks_total", labels).absolute(lane.parked);
    }
}

fn describe() {
    describe_counter!("kv_requests_total", "Requests sent to a rank");
    describe_counter!("kv_request_failures_total", "Requests that a rank did not answer, or not to the end");
    describe_counter!("kv_answers_compared_total", "Answers whose cached tokens were both predicted and reported");
    describe_counter!("kv_answers_equal_total", "Those of them where both were equal");
    describe_counter!("kv_prompt_tokens_total", "Prompt tokens of the compared answers");
    describe_counter!("kv_predicted_tokens_total", "Cached tokens predicted for the compared answers");
    describe_counter!("kv_cached_tokens_total", "Cached tokens reported with the compared answers");
    describe_gauge!("kv_predicted_minus_cached_tokens", "Predicted less reported cached tokens, over all compared answers");
    describe_histogram!(DIFFERENCE, "Predicted less reported cached tokens, of each compared answer");
    decision::describe();
    describe_gauge!("kv_blocks", "KV blocks that the index holds for a rank");
    describe_gauge!(
        "kv_engine_ready",
        "Whether an engine answers its health and model questions, and its gRPC health, where it has one, is not NOT_SERVING"
    );
    describe_gauge!("kv_degraded_ranks", "Ranks whose events were not all received");
    describe_counter!("kv_event_batches_total", "Event batches by what became of them");
    describe_counter!("kv_publisher_restarts_total", "Times that a rank's publisher started again");
    describe_counter!("kv_replays_total", "Questions to a rank's replay socket");
    describe_counter!("kv_resyncs_total", "Times that a rank's stream was cleared and replayed because it could not be believed");
    describe_counter!("kv_stream_failures_total", "Times that applying a rank's events panicked");
    describe_gauge!("kv_lane_queued_steps", "Batches and clears that wait for a lane or are being applied");
    describe_gauge!("kv_lane_queued_bytes", "Bytes of the messages that these came in");
    describe_counter!("kv_lane_steps_total", "Batches and clears by what became of them: returned ones are offered again");
    describe_gauge!("kv_lane_ready_streams", "Streams on a lane's list; the last lane works in a shutdown only");
    describe_counter!("kv_lane_turns_total", "Turns that a lane gave to streams");
    describe_counter!("kv_lane_stolen_turns_total", "Of these, turns with a stream from another lane's list");
    describe_counter!("kv_lane_applied_total", "Batches and clears that a lane applied");
    describe_counter!("kv_lane_parks_total", "Times that a lane found nothing to do and slept");
    describe_counter!("kv_losses_total", "Events or parts of them that were not used, by reason");
    describe_counter!(
        "kv_hash_checks_total",
        "Announced blocks by whether they are called as the engine's hash, recomputed, says"
    );
    describe_gauge!("kv_diagnosis", "Whether something is wrong with a rank, by its cause: see /debug/workers for what shows it");
    describe_counter!(UNPREDICTED, "Requests that were routed without their tokens, by reason");
    for reason in Untokenized::ALL {
        counter!(UNPREDICTED, "reason" => reason.as_str()).absolute(0);
    }
    describe_counter!(REFUSED, "Requests that the gateway refused or failed, by the code of its error");
}

fn is_degraded(rank: &Rank) -> bool {
    matches!(rank.stream().trust(), Trust::Degraded | Trust::Disconnected)
}

fn labels(worker: &str, rank: u32) -> Vec<Label> {
    vec![Label::new("worker", worker.to_owned()), Label::new("rank", rank.to_string())]
}

fn with(labels: &[Label], name: &'static str, value: &'static str) -> Vec<Label> {
    labels.iter().cloned().chain([Label::from_static_parts(name, value)]).collect()
}

fn signed_difference(predicted: u64, cached: u64) -> f64 {
    as_float(predicted) - as_float(cached)
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53, and Prometheus has floats only")]
fn as_float(count: u64) -> f64 {
    count as f64
}

const DIFFERENCE: &str = "kv_prediction_difference_tokens";
const UNPREDICTED: &str = "kv_unpredicted_requests_total";
const REFUSED: &str = "kv_refusals_total";

/// Upper ends, in tokens. Zero has a bucket of its own: between the ones up to -1 and up to 0.
const DIFFERENCE_BUCKETS: [f64; 11] = [-4096.0, -1024.0, -256.0, -64.0, -1.0, 0.0, 16.0, 64.0, 256.0, 1024.0, 4096.0];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::settings::{EngineSpec, Settings};
    use kv_events::HashCounts;

    #[test]
    fn prometheus_is_told_of_every_rank() {
        let spec: EngineSpec = "http://h:1,name=a,ranks=2,events=tcp://h:5".parse().unwrap();
        let app = App::alone(Settings { engines: vec![spec], ..Settings::default() });
        let fleet = &app.fleet;
        let tally = &fleet.engines()[0].ranks()[1].tally;
        tally.compare(100, 64, 48);
        let (rank, hashes) =
            (&fleet.engines()[0].ranks()[0], HashCounts { mismatched_roots: 2, mismatched: 2, ..HashCounts::default() });
        rank.publish(|stream| stream.hashes = Some(hashes));
        let metrics = &app.metrics;
        metrics.difference("a", 1, 64, 48);
        metrics.unpredicted(Untokenized::Multimodal);
        metrics.refused("model_not_found");
        let text = metrics.render(&app);
        for line in [
            "kv_predicted_tokens_total{worker=\"a\",rank=\"1\"} 64",
            "kv_cached_tokens_total{worker=\"a\",rank=\"1\"} 48",
            "kv_predicted_minus_cached_tokens{worker=\"a\",rank=\"1\"} 16",
            "kv_blocks{worker=\"a\",rank=\"0\"} 0",
            "kv_in_flight{worker=\"a\",rank=\"1\"} 0",
            "kv_overloaded{worker=\"a\",rank=\"1\"} 0",
            "kv_load_samples_total{worker=\"a\",rank=\"1\",outcome=\"not_a_number\"} 0",
            "kv_index_drift{worker=\"a\",rank=\"0\",state=\"sound\"} 1",
            "kv_decisions_total{branch=\"warmup_slice\"} 0",
            "kv_request_outcomes_total{outcome=\"vanished\"} 0",
            "kv_engine_ready{worker=\"a\"} 0",
            "kv_vetoed{worker=\"a\",rank=\"1\",reason=\"wedged\"} 0",
            "kv_veto_transitions_total{cause=\"pile\"} 0",
            "kv_event_batches_total{worker=\"a\",rank=\"0\",disposition=\"live\"} 0",
            "kv_unpredicted_requests_total{reason=\"multimodal\"} 1",
            "kv_hash_checks_total{worker=\"a\",rank=\"0\",outcome=\"mismatched\"} 2",
            "kv_diagnosis{worker=\"a\",rank=\"0\",cause=\"hashing_differs\"} 1",
            "kv_refusals_total{code=\"model_not_found\"} 1",
            "kv_prediction_difference_tokens_bucket{worker=\"a\",rank=\"1\",le=\"0\"} 0",
            "kv_prediction_difference_tokens_bucket{worker=\"a\",rank=\"1\",le=\"16\"} 1",
        ] {
            assert!(text.contains(line), "{line} is absent from:\n{text}");
        }
    }
}
