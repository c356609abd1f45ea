//! The price of waiting, as `blend` pays it.

use serde::{Deserialize, Serialize};

use crate::cost::weight_or_0;
use crate::limits::{PATIENCE_S, PATIENCE_SAVINGS, WAIT_WEIGHT};

/// How much waiting is worth avoiding.
///
/// `blend` weighs waiting against computing what another worker has. Computing takes the engine from everybody who comes after,
/// and evicts as much as it adds; a short wait costs one request its own time, and the queue is shorter for the reuse. So short waits
/// are cheap. Long ones are not: they are what users see, and a queue that long is filled faster than it empties, which another
/// holder of the prefix will mend. What is long is measured by what there is to wait for, the computing that the best holder saves:
/// so a burst of siblings waits for the first of them, and nobody waits for a short system prompt. In between the price
/// of a second rises without a step:
///
/// ```text
/// price(w) = w * (weight + (1 - weight) * w / (w + patience)),  patience = patience_savings * saved + patience_s
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Blend {
    /// What a second counts of a wait that is far shorter than the patience, 0 to 1; a second of computing counts 1.
    pub wait_weight: f64,
    /// The patience, in times of what the best holder saves: a wait that long counts half of the way from there to 1.
    pub patience_savings: f64,
    /// Beyond that, in seconds: where there is nothing to save.
    pub patience_s: f64,
}

impl Default for Blend {
    fn default() -> Self {
        Self { wait_weight: WAIT_WEIGHT, patience_savings: PATIENCE_SAVINGS, patience_s: PATIENCE_S }
    }
}

impl Blend {
    /// What a wait of `wait_s` seconds costs where the best holder saves `saved_s`, in seconds of computing.
    pub fn price_s(&self, wait_s: f64, saved_s: f64) -> f64 {
        let weight = weight_or_0(self.wait_weight).min(1.0);
        let patience_s = weight_or_0(self.patience_s) + weight_or_0(self.patience_savings) * saved_s;
        if wait_s <= 0.0 {
            return 0.0;
        }
        wait_s * (weight + (1.0 - weight) * wait_s / (wait_s + patience_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_waits_are_cheap_and_long_ones_are_not() {
        let blend = Blend { wait_weight: 0.1, patience_savings: 2.0, patience_s: 0.05 };
        let close = |wait_s, expected: f64| assert!((blend.price_s(wait_s, 0.1) - expected).abs() < 1e-9, "{wait_s}");
        close(0.0, 0.0);
        close(0.25, 0.25 * 0.55);
        assert!((blend.price_s(0.001, 0.1) - 0.000_1).abs() < 0.000_01);
        assert!(blend.price_s(10.0, 0.1) > 9.5 && blend.price_s(10.0, 0.1) < 10.0);
        assert!(blend.price_s(0.25, 0.0) > blend.price_s(0.25, 1.0) * 3.0, "where much is saved there is something to wait for");
        let steps: Vec<f64> = (0..100).map(|tenth| blend.price_s(f64::from(tenth) / 10.0, 0.1)).collect();
        assert!(steps.windows(2).all(|pair| pair[0] < pair[1]), "never cheaper to wait longer");
    }

    #[test]
    fn odd_settings_give_numbers() {
        for odd in [f64::NAN, -1.0, 0.0, f64::INFINITY] {
            let price = Blend { wait_weight: odd, patience_savings: odd, patience_s: odd }.price_s(2.0, 1.0);
            assert!(price.is_finite() && price >= 0.0, "{odd}: {price}");
        }
    }
}
