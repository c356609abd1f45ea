//! When affinity has to step back: a worker that is out of line, and a fleet whose memory runs out somewhere.

use serde::{Deserialize, Serialize};

use crate::limits::{BALANCE_ABS, BALANCE_REL};
use crate::{Candidate, Fleet, Threshold};

/// The gates of `cache-aware`. `blend` needs none: its costs rise where these shut.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gates {
    /// A holder is passed over when its requests in flight are this many times the mean,
    pub balance_rel: Threshold,
    /// and this many above it. Off turns the pair off.
    pub balance_abs: Threshold,
    /// Affinity is left aside when one worker uses more of its KV memory, 0 to 1. At 1, the default, never.
    pub kv_usage: Threshold,
    /// Affinity is left aside when two workers' use differs by more. At 1, the default, never.
    pub kv_usage_spread: Threshold,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            balance_rel: Threshold::Above(BALANCE_REL),
            balance_abs: Threshold::Above(BALANCE_ABS),
            kv_usage: Threshold::Above(1.0),
            kv_usage_spread: Threshold::Above(1.0),
        }
    }
}

impl Gates {
    /// Whether the worker has so much more to do than others that its prefix does not count.
    pub fn is_out_of_line(&self, fleet: &Fleet, candidate: &Candidate) -> bool {
        let (load, mean) = (f64::from(candidate.load.in_flight), fleet.in_flight_mean);
        let over_rel = match self.balance_rel {
            Threshold::Above(times) => load > times * mean,
            Threshold::Off => false,
        };
        over_rel && self.balance_abs.is_crossed_by(load - mean)
    }

    /// Whether KV memory is so short, or so unevenly used, that only load may decide. Workers that do not tell are left out.
    pub fn memory_is_short(&self, eligible: impl Iterator<Item = Candidate>) -> bool {
        let usages = eligible.filter_map(|candidate| candidate.load.usage());
        let range = usages.fold(None, |range: Option<(f64, f64)>, usage| {
            Some(range.map_or((usage, usage), |(low, high)| (low.min(usage), high.max(usage))))
        });
        range.is_some_and(|(low, high)| self.kv_usage.is_crossed_by(high) || self.kv_usage_spread.is_crossed_by(high - low))
    }

    /// Whether usage can shut a gate at all: no usage and no difference of two is above 1.
    pub fn read_memory(&self) -> bool {
        self.kv_usage.is_crossed_by(1.0) || self.kv_usage_spread.is_crossed_by(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Load;

    fn candidate(in_flight: u32, kv_usage: Option<f32>) -> Candidate {
        Candidate { load: Load { in_flight, kv_usage, ..Load::default() }, ..Candidate::default() }
    }

    #[test]
    fn out_of_line_takes_both_thresholds() {
        let gates = Gates { balance_abs: Threshold::Above(64.0), ..Gates::default() };
        let out = |in_flight, in_flight_mean| {
            gates.is_out_of_line(&Fleet { in_flight_mean, ..Fleet::default() }, &candidate(in_flight, None))
        };
        assert!(out(65, 0.5) && !out(64, 0.5), "64 above the mean");
        assert!(!out(290, 200.0) && out(301, 200.0), "one and a half times the mean");
        let off = Gates { balance_abs: Threshold::Off, ..gates };
        assert!(!off.is_out_of_line(&Fleet::default(), &candidate(u32::MAX, None)));
    }

    #[test]
    fn memory_is_short_by_its_highest_use_or_its_spread() {
        let short =
            |gates: &Gates, usages: &[Option<f32>]| gates.memory_is_short(usages.iter().map(|&usage| candidate(0, usage)));
        let usage = Gates { kv_usage: Threshold::Above(0.8), ..Gates::default() };
        assert!(short(&usage, &[None, Some(0.9)]) && !short(&usage, &[Some(0.7), Some(0.0), None]));
        let spread = Gates { kv_usage_spread: Threshold::Above(0.5), ..Gates::default() };
        assert!(short(&spread, &[Some(0.7), Some(0.1)]) && !short(&spread, &[Some(0.9), Some(0.8), None, Some(f32::NAN)]));
        assert!(!short(&Gates::default(), &[Some(7.0), Some(0.0)]) && !Gates::default().read_memory());
        assert!(usage.read_memory() && spread.read_memory());
    }
}
