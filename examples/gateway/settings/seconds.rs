//! A time that people write in seconds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

/// A time, written as a number of seconds with or without a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Seconds(pub(super) Duration);

/// What is no time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected seconds, 0 or more, got {0:?}")]
pub struct SecondsError(String);

impl TryFrom<f64> for Seconds {
    type Error = SecondsError;

    fn try_from(seconds: f64) -> Result<Self, SecondsError> {
        Duration::try_from_secs_f64(seconds).map(Self).map_err(|_| SecondsError(seconds.to_string()))
    }
}

impl FromStr for Seconds {
    type Err = SecondsError;

    fn from_str(text: &str) -> Result<Self, SecondsError> {
        let seconds: f64 = text.parse().map_err(|_| SecondsError(text.to_owned()))?;
        Self::try_from(seconds)
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_from_0_on() {
        assert_eq!("1.5".parse(), Ok(Seconds(Duration::from_millis(1_500))));
        assert_eq!("0".parse(), Ok(Seconds(Duration::ZERO)));
        for odd in ["-1", "NaN", "inf", "1e99", "soon", ""] {
            let error = odd.parse::<Seconds>().unwrap_err().to_string();
            assert!(error.starts_with("expected seconds, 0 or more, got"), "{error}");
        }
    }
}
