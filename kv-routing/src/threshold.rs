//! A threshold that can be turned off, in configurations too.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A limit, or none: the one way to say so in all settings of this crate. An `Option` would be left out by formats without a null, TOML for one, and read back as the default: what was
/// turned off would be on again. So it is written as a number or as the word `"off"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// Crossed by what is greater; a limit that is no number is never crossed.
    Above(f64),
    /// Never crossed.
    Off,
}

impl Threshold {
    /// Whether `value` is over it.
    pub fn is_crossed_by(self, value: f64) -> bool {
        match self {
            Self::Above(limit) => value > limit,
            Self::Off => false,
        }
    }

    /// The same threshold: a limit that no number crosses, and for which JSON has none, is off.
    pub(crate) fn storable(self) -> Self {
        match self {
            Self::Above(limit) if limit.is_nan() || limit == f64::INFINITY => Self::Off,
            other => other,
        }
    }
}

impl Serialize for Threshold {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Above(limit) if self.storable() != Self::Off => serializer.serialize_f64(limit.max(f64::MIN)),
            Self::Above(_) | Self::Off => serializer.serialize_str(OFF),
        }
    }
}

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrOff)
    }
}

struct NumberOrOff;

impl Visitor<'_> for NumberOrOff {
    type Value = Threshold;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a number or {OFF:?}")
    }

    fn visit_f64<E: Error>(self, limit: f64) -> Result<Threshold, E> {
        Ok(Threshold::Above(limit))
    }

    fn visit_u64<E: Error>(self, limit: u64) -> Result<Threshold, E> {
        Ok(Threshold::Above(crate::cost::number(limit)))
    }

    #[expect(clippy::cast_precision_loss, reason = "thresholds are small")]
    fn visit_i64<E: Error>(self, limit: i64) -> Result<Threshold, E> {
        Ok(Threshold::Above(limit as f64))
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Threshold, E> {
        if word == OFF { Ok(Threshold::Off) } else { Err(E::invalid_value(serde::de::Unexpected::Str(word), &self)) }
    }

    fn visit_unit<E: Error>(self) -> Result<Threshold, E> {
        Ok(Threshold::Off)
    }
}

const OFF: &str = "off";

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Settings {
        usage: Threshold,
    }

    impl Default for Settings {
        fn default() -> Self {
            Self { usage: Threshold::Above(0.8) }
        }
    }

    // Defect 8.
    #[test]
    fn what_is_off_stays_off_through_json_and_toml() {
        for usage in [Threshold::Off, Threshold::Above(0.5), Threshold::Above(3.0), Threshold::Above(-1.0)] {
            let settings = Settings { usage };
            let json = serde_json::to_string(&settings).unwrap();
            assert_eq!(serde_json::from_str::<Settings>(&json).unwrap(), settings, "{json}");
            let toml = toml::to_string(&settings).unwrap();
            assert_eq!(toml::from_str::<Settings>(&toml).unwrap(), settings, "{toml}");
        }
        assert_eq!(serde_json::from_str::<Settings>(r#"{"usage":null}"#).unwrap().usage, Threshold::Off);
        assert_eq!(toml::from_str::<Settings>("usage = 1").unwrap().usage, Threshold::Above(1.0));
        assert_eq!(toml::from_str::<Settings>("").unwrap(), Settings::default());
        let refused = toml::from_str::<Settings>("usage = \"of\"").unwrap_err().to_string();
        assert!(refused.contains("expected a number or \"off\""), "{refused}");
    }

    #[test]
    fn no_number_is_no_limit() {
        for limit in [f64::NAN, f64::INFINITY] {
            assert!(!Threshold::Above(limit).is_crossed_by(1e300));
            assert_eq!(serde_json::to_string(&Threshold::Above(limit)).unwrap(), "\"off\"");
        }
        assert!(Threshold::Above(1.0).is_crossed_by(1.1) && !Threshold::Above(1.0).is_crossed_by(1.0));
    }
}
