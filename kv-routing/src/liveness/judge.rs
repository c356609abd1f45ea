//! The rules: what one worker's signs amount to.

use std::time::Duration;

use super::work::{WorkNow, prefill_time};
use super::{Cause, Contact, EngineSilence, Options, Report, Veto};
use crate::limits::{PILE_MIN, STALE_AFTER, WEDGE_BOUND_MAX};

/// What is known of one worker. Every input returns the veto that it leads to and why, if it leads to another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge {
    veto: Option<Veto>,
    /// The last contact; at first, when the worker was added.
    contact: Duration,
    /// The last progress; at first, the same.
    progress: Duration,
    /// The connection failed since the last contact.
    failed: bool,
    /// It has pushed load records.
    pushes: bool,
    /// When its engine said last that it does not move, unless it has said or shown since that it does.
    says_silent: Option<Duration>,
    /// Streams at the last sweep.
    tracked_before: u32,
}

/// The new veto, and why.
pub(super) type Change = Option<(Option<Veto>, Cause)>;

impl Judge {
    pub(super) fn new(now: Duration) -> Self {
        Self { veto: None, contact: now, progress: now, failed: false, pushes: false, says_silent: None, tracked_before: 0 }
    }

    pub(super) fn veto(&self) -> Option<Veto> {
        self.veto
    }

    /// Contact ends unreachable, and the failure that could lead to it.
    pub(super) fn contact(&mut self, now: Duration, contact: Contact) -> Change {
        self.contact = now;
        self.failed = false;
        let cause = if contact == Contact::Probe { Cause::Probe } else { Cause::Contact };
        if self.veto == Some(Veto::Unreachable) { Some(self.turn(None, cause)) } else { None }
    }

    /// Progress, made at `at`, ends whatever there is.
    pub(super) fn progress(&mut self, now: Duration, at: Duration) -> Change {
        let at = at.min(now);
        self.contact = self.contact.max(at);
        self.progress = self.progress.max(at);
        self.failed = false;
        self.says_silent = None;
        if self.veto.is_some() { Some(self.turn(None, Cause::Progress)) } else { None }
    }

    pub(super) fn transport_failure(&mut self, now: Duration, options: &Options) -> Change {
        self.failed = true;
        self.reach(now, options)
    }

    /// What a load report says of movement. That it came is contact, which is told first.
    pub(super) fn report(&mut self, now: Duration, report: &Report, work: &WorkNow, options: &Options) -> Change {
        self.pushes |= report.pushed;
        let wedge = options.wedge?;
        if report.pushed {
            let silent = report.engine.filter(|engine| report.has_work() && self.is_silent(now, engine, work, wedge));
            self.says_silent = silent.map(|_| now);
        }
        let says_silent = self.engine_says_silent(now, options);
        let moves = work.tracked == 0 || self.silence(now, work) < bound(wedge, work);
        match self.veto {
            None if says_silent && report.pushed => Some(self.turn(Some(Veto::Wedged), Cause::EngineSilent)),
            None if !moves && report.waiting > 0 => Some(self.turn(Some(Veto::Wedged), Cause::Queue)),
            Some(Veto::Wedged) if moves && !says_silent => Some(self.turn(None, Cause::Recovered)),
            _ => None,
        }
    }

    /// What only time brings.
    pub(super) fn sweep(&mut self, now: Duration, work: &WorkNow, options: &Options) -> Change {
        let grew = work.tracked > self.tracked_before;
        self.tracked_before = work.tracked;
        if let Some(change) = self.reach(now, options) {
            return Some(change);
        }
        let says_silent = self.engine_says_silent(now, options);
        match (self.veto, options.wedge) {
            (Some(Veto::Wedged), _) if work.tracked == 0 && !says_silent => Some(self.turn(None, Cause::Drained)),
            (None, Some(wedge)) if work.tracked >= PILE_MIN || (work.tracked > 0 && grew) => {
                if self.silence(now, work) >= bound(wedge, work) {
                    Some(self.turn(Some(Veto::Wedged), Cause::Pile))
                } else {
                    None
                }
            }
            _ => None,
        }
    }

    /// Whether the worker has become unreachable.
    fn reach(&mut self, now: Duration, options: &Options) -> Change {
        if self.veto == Some(Veto::Unreachable) {
            return None;
        }
        let unheard = age(&mut self.contact, now);
        let cause = if self.failed && unheard >= options.stall {
            Cause::ConnectionLost
        } else if self.pushes && options.stale.is_some_and(|stale| unheard >= stale) {
            Cause::Unheard
        } else {
            return None;
        };
        // What the engine said of itself came by the channel that is gone.
        self.says_silent = None;
        Some(self.turn(Some(Veto::Unreachable), cause))
    }

    /// How long nothing of the streams under way has moved.
    fn silence(&mut self, now: Duration, work: &WorkNow) -> Duration {
        age(&mut self.progress, now).min(now.saturating_sub(work.run_since))
    }

    /// Whether an engine's own silence is one. Progress that was seen since is better evidence than a report.
    fn is_silent(&mut self, now: Duration, engine: &EngineSilence, work: &WorkNow, wedge: Duration) -> bool {
        let silence = engine.silence.min(age(&mut self.progress, now));
        if engine.reports_steps {
            return silence >= wedge;
        }
        let Some(rate) = work.measured else { return false };
        let prefill = prefill_time(engine.prefill_tokens, rate).saturating_mul(2);
        silence >= prefill.clamp(wedge, WEDGE_BOUND_MAX.max(wedge))
    }

    /// Whether what the engine said of its silence still holds: it must be said again and again.
    fn engine_says_silent(&mut self, now: Duration, options: &Options) -> bool {
        let lapses = options.stale.unwrap_or(STALE_AFTER);
        self.says_silent.as_mut().is_some_and(|said| age(said, now) < lapses)
    }

    fn turn(&mut self, veto: Option<Veto>, cause: Cause) -> (Option<Veto>, Cause) {
        self.veto = veto;
        (veto, cause)
    }
}

/// How long streams may show nothing.
fn bound(wedge: Duration, work: &WorkNow) -> Duration {
    work.backlog().clamp(wedge, WEDGE_BOUND_MAX.max(wedge))
}

/// How long ago a moment was. One that lies ahead, because the clock went back, is now.
fn age(moment: &mut Duration, now: Duration) -> Duration {
    *moment = (*moment).min(now);
    now.saturating_sub(*moment)
}
