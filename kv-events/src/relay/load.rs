//! How busy a rank is, as its batches carry it, and when a quiet stream says so by itself.

use std::sync::Arc;
use std::time::Duration;

use crate::limits::{HEARTBEAT_AFTER, HEARTBEAT_AFTER_IDLE, LOAD_TICK};

/// Numbers by name.
pub type Telemetry = Arc<[(Box<str>, f64)]>;

/// A rank's load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// What a router decides by.
    pub core: LoadCore,
    /// Whatever else is measured, by name. Sent with heartbeats only.
    pub telemetry: Telemetry,
}

/// What a router decides by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadCore {
    /// Requests that run.
    pub running: u32,
    /// Requests that wait.
    pub waiting: u32,
    /// Tokens of those that wait, as far as they are not cached.
    pub queued_tokens: u64,
    /// Tokens that the engine takes in one step.
    pub window_tokens: u64,
    /// The share of the cache in use, from 0 to 1.
    pub kv_usage: f64,
    /// Tokens generated in a second.
    pub tokens_per_s: f64,
}

/// A load as it is sent with one message of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadSample {
    /// What a router decides by.
    pub core: LoadCore,
    /// With heartbeats, and with the first message that carries a load.
    pub telemetry: Option<Telemetry>,
    /// How many samples this stream had before.
    pub sample: u64,
}

/// One rank of one subscriber: what was said of its load, and when it must be said again.
///
/// ```text
///            a batch is sent                    1 s, or a changed load
///  (silent) -----------------> counting 1 s --------------------------> heartbeat
///                                    ^  ^           changed               |   | the same load twice
///                                    |  +---------------------------------+   v
///                                    +------- changed, or a batch ----- counting 5 s
/// ```
/// Besides, whether the relay can vouch for the stream, and whether it doubts, is told at once. Never before there is a number to repeat: that
/// of something that was sent on the stream, or of the position where it was resumed.
#[derive(Clone, Debug, Default)]
pub(super) struct Pulse {
    /// When something was sent last, and when the load was looked at last.
    sent: Option<(Duration, Duration)>,
    last: Option<LoadCore>,
    unchanged: u32,
    samples: u64,
}

impl LoadCore {
    /// Whether a router would decide otherwise by `self` than by `before`.
    pub fn differs_from(&self, before: &Self) -> bool {
        let counts = |core: &Self| (core.running, core.waiting, core.queued_tokens, core.window_tokens);
        let rate = (self.tokens_per_s - before.tokens_per_s).abs();
        counts(self) != counts(before)
            || (self.kv_usage - before.kv_usage).abs() > KV_USAGE_STEP
            || rate > RATE_STEP_PER_S
            || rate > RATE_STEP_SHARE * before.tokens_per_s.abs()
    }
}

impl Pulse {
    /// Of a stream that was resumed now: its reader has the last batch.
    pub(super) fn resumed(now: Duration) -> Self {
        Self { sent: Some((now, now)), ..Self::default() }
    }

    /// What a batch that is sent now carries.
    pub(super) fn with_batch(&mut self, now: Duration, load: Option<&Load>) -> Option<LoadSample> {
        self.unchanged = 0;
        self.say(now, load, false)
    }

    /// Whether it is time for a heartbeat.
    pub(super) fn is_due(&mut self, now: Duration, load: Option<&Load>) -> bool {
        let Some((sent, looked)) = self.sent.as_mut() else { return false };
        let changed = if now >= *looked + LOAD_TICK {
            *looked = now;
            load.is_some_and(|load| self.last.as_ref().is_none_or(|last| load.core.differs_from(last)))
        } else {
            false
        };
        let quiet = if self.unchanged >= UNCHANGED_BEATS { HEARTBEAT_AFTER_IDLE } else { HEARTBEAT_AFTER };
        if !changed && now < *sent + quiet {
            return false;
        }
        self.unchanged = if changed { 0 } else { self.unchanged + 1 };
        true
    }

    /// What a heartbeat that is sent now carries.
    pub(super) fn beat(&mut self, now: Duration, load: Option<&Load>) -> Option<LoadSample> {
        self.say(now, load, true)
    }

    /// When to look again.
    pub(super) fn next(&self) -> Option<Duration> {
        self.sent.map(|(_, looked)| looked + LOAD_TICK)
    }

    fn say(&mut self, now: Duration, load: Option<&Load>, heartbeat: bool) -> Option<LoadSample> {
        self.sent = Some((now, now));
        let load = load?;
        let first = self.last.replace(load.core).is_none();
        let sample = self.samples;
        self.samples += 1;
        let telemetry = (heartbeat || first).then(|| Arc::clone(&load.telemetry));
        Some(LoadSample { core: load.core, telemetry, sample })
    }
}

/// Differences up to these are noise.
const KV_USAGE_STEP: f64 = 0.005;
const RATE_STEP_PER_S: f64 = 50.0;
const RATE_STEP_SHARE: f64 = 0.05;

/// Heartbeats that say nothing new before they come more rarely.
const UNCHANGED_BEATS: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn load(running: u32) -> Load {
        Load { core: LoadCore { running, ..LoadCore::default() }, telemetry: Arc::new([("watts".into(), 300.0)]) }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// When heartbeats come, looking every 50 ms.
    fn beats(pulse: &mut Pulse, from_ms: u64, to_ms: u64, load: &Load) -> Vec<u64> {
        let mut said = |at| pulse.is_due(ms(at), Some(load)) && pulse.beat(ms(at), Some(load)).is_some();
        (from_ms..to_ms).step_by(50).filter(|&at| said(at)).collect()
    }

    #[test]
    fn nothing_is_said_before_something_was_sent() {
        let mut pulse = Pulse::default();
        assert_eq!((beats(&mut pulse, 0, 20_000, &load(1)), pulse.next()), (vec![], None));
    }

    // A reader that was away learns on a quiet stream that it has missed nothing, and how busy the rank is.
    #[test]
    fn a_resumed_stream_beats_before_anything_was_sent() {
        let mut pulse = Pulse::resumed(ms(500));
        assert_eq!((pulse.is_due(ms(1_499), None), pulse.is_due(ms(1_500), None)), (false, true));
        let mut loaded = Pulse::resumed(ms(500));
        assert!(loaded.is_due(ms(600), Some(&load(1))), "a load that it was never told is a changed one");
    }

    #[test]
    fn a_quiet_stream_says_so_after_one_second_and_then_every_five() {
        let mut pulse = Pulse::default();
        let sample = pulse.with_batch(ms(0), Some(&load(1))).unwrap();
        assert_eq!((sample.sample, sample.telemetry.is_some()), (0, true), "the first carries all");
        assert_eq!(beats(&mut pulse, 50, 18_000, &load(1)), [1_000, 2_000, 7_000, 12_000, 17_000]);
        let sample = pulse.with_batch(ms(18_000), Some(&load(1))).unwrap();
        assert_eq!((sample.sample, sample.telemetry), (6, None), "an event batch carries the core");
        assert_eq!(beats(&mut pulse, 18_050, 20_000, &load(1)), [19_000], "a batch makes it lively again");
    }

    #[test]
    fn a_changed_load_is_said_within_a_tick_and_no_sooner() {
        let mut pulse = Pulse::default();
        pulse.with_batch(ms(0), Some(&load(1)));
        assert!(!pulse.is_due(ms(60), Some(&load(2))) && pulse.is_due(ms(100), Some(&load(2))));
        let sample = pulse.beat(ms(100), Some(&load(2))).unwrap();
        assert_eq!((sample.core.running, sample.sample, sample.telemetry.is_some()), (2, 1, true));
        assert_eq!((pulse.is_due(ms(250), Some(&load(2))), pulse.next()), (false, Some(ms(350))));
    }

    #[test]
    fn a_heartbeat_without_a_load_still_says_that_the_stream_lives() {
        let mut pulse = Pulse::default();
        assert_eq!(pulse.with_batch(ms(0), None), None);
        assert_eq!((pulse.is_due(ms(1_000), None), pulse.beat(ms(1_000), None)), (true, None));
    }

    #[test]
    fn noise_is_no_change() {
        let base = LoadCore { kv_usage: 0.5, tokens_per_s: 400.0, ..LoadCore::default() };
        assert!(!LoadCore { kv_usage: 0.504, tokens_per_s: 419.0, ..base }.differs_from(&base));
        let changes = [
            LoadCore { kv_usage: 0.506, ..base },
            LoadCore { tokens_per_s: 421.0, ..base },
            LoadCore { running: 1, ..base },
            LoadCore { waiting: 1, ..base },
            LoadCore { queued_tokens: 1, ..base },
            LoadCore { window_tokens: 1, ..base },
        ];
        assert!(changes.iter().all(|change| change.differs_from(&base)));
        let fast = LoadCore { tokens_per_s: 9_000.0, ..base };
        assert!(LoadCore { tokens_per_s: 9_051.0, ..fast }.differs_from(&fast), "50 tokens a second, though below 5 %");
    }
}
