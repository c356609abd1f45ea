//! What the tracker is told by channels other than requests.

use std::time::Duration;

/// How a worker was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Contact {
    /// Anything that serving needs: a subscription, a batch, an answer.
    Traffic,
    /// A health check that passed.
    Probe,
}

/// A load report, as far as it says whether the worker moves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Requests that run, over all ranks.
    pub running: u32,
    /// Requests that wait, over all ranks.
    pub waiting: u32,
    /// The worker sent it by itself. Polls say nothing of how often to expect one.
    pub pushed: bool,
    /// What the engine says of its own steps, if its wire does.
    pub engine: Option<EngineSilence>,
}

/// How long an engine has not taken a step, by its own clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineSilence {
    /// Since its last sign of a step.
    pub silence: Duration,
    /// Every step gives a sign. Else only some do, and a long prefill looks like silence.
    pub reports_steps: bool,
    /// Prompt tokens that it has still to compute.
    pub prefill_tokens: u64,
}

impl Report {
    /// An engine without requests takes no steps, and that is no silence.
    pub(super) fn has_work(&self) -> bool {
        self.running > 0 || self.waiting > 0
    }
}
