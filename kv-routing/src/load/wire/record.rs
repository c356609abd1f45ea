//! The record that a relay puts on its batches.

use std::time::Duration;

use kv_events::relay::{LoadCore, LoadSample, Telemetry};

use crate::liveness::{EngineSilence, Report};
use crate::load::Sample;

/// The sample of a relay's record, received at `received_at`, which is `age` old by its own account.
///
/// The record has no place for "not told": no tokens queued though requests wait is that.
#[expect(clippy::cast_precision_loss, reason = "queues are far shorter than 2^52 tokens")]
pub fn record(sample: &LoadSample, received_at: Duration, age: Duration) -> Sample {
    let core = &sample.core;
    Sample {
        number: Some(sample.sample),
        running: core.running.into(),
        waiting: core.waiting.into(),
        queued_tokens: (core.queued_tokens > 0 || core.waiting == 0).then_some(core.queued_tokens as f64),
        kv_usage: Some(core.kv_usage),
        tokens_per_s: Some(core.tokens_per_s),
        ..Sample::pushed(received_at, age)
    }
}

/// What the record says of the rank's life, for [`Tracker::handle_load_report`](crate::liveness::Tracker::handle_load_report). Only records with
/// telemetry tell of the engine's own steps.
pub fn record_report(sample: &LoadSample) -> Report {
    let LoadCore { running, waiting, .. } = sample.core;
    Report { running, waiting, pushed: true, engine: sample.telemetry.as_ref().and_then(engine_silence) }
}

/// What telemetry says of the engine's own steps: `engine_silence_ms`, with `engine_reports_steps` (not 0 if every step gives a sign) and
/// `prefill_pending_tokens`. Nothing if the first is not there or no time.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` takes what is out of range for the nearest")]
pub fn engine_silence(telemetry: &Telemetry) -> Option<EngineSilence> {
    let named = |wanted: &str| telemetry.iter().find(|(name, _)| &**name == wanted).map(|&(_, value)| value);
    let silence = Duration::try_from_secs_f64(named("engine_silence_ms")? / 1_000.0).ok()?;
    let reports_steps = named("engine_reports_steps").is_some_and(|value| value != 0.0);
    Some(EngineSilence { silence, reports_steps, prefill_tokens: named("prefill_pending_tokens").unwrap_or(0.0) as u64 })
}
