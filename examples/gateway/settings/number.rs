//! Numbers that people write for decisions, checked where they are written.

use std::str::FromStr;

use axum::http::HeaderName;
use kv_routing::Threshold;
use serde::Deserialize;
use thiserror::Error;

/// A limit, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Threshold")]
pub struct Limit(pub(super) Threshold);

/// A share, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Share(pub(super) f64);

/// A number from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Measure(pub(super) f64);

/// The name of a header.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Header(pub(super) HeaderName);

/// What is not what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected {expected}, got {got:?}")]
pub struct NumberError {
    expected: &'static str,
    got: String,
}

impl TryFrom<Threshold> for Limit {
    type Error = NumberError;

    fn try_from(threshold: Threshold) -> Result<Self, NumberError> {
        match threshold {
            Threshold::Above(limit) if !(limit.is_finite() && limit >= 0.0) => Err(NumberError::new(LIMIT, &limit)),
            _ => Ok(Self(threshold)),
        }
    }
}

impl FromStr for Limit {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, NumberError> {
        if text == "off" {
            return Ok(Self(Threshold::Off));
        }
        let limit: f64 = text.parse().map_err(|_| NumberError::new(LIMIT, text))?;
        Self::try_from(Threshold::Above(limit))
    }
}

impl TryFrom<f64> for Share {
    type Error = NumberError;

    fn try_from(share: f64) -> Result<Self, NumberError> {
        if (0.0..=1.0).contains(&share) { Ok(Self(share)) } else { Err(NumberError::new(SHARE, &share)) }
    }
}

impl FromStr for Share {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, NumberError> {
        Self::try_from(text.parse::<f64>().map_err(|_| NumberError::new(SHARE, text))?)
    }
}

impl TryFrom<f64> for Measure {
    type Error = NumberError;

    fn try_from(measure: f64) -> Result<Self, NumberError> {
        if measure.is_finite() && measure >= 0.0 { Ok(Self(measure)) } else { Err(NumberError::new(MEASURE, &measure)) }
    }
}

impl FromStr for Measure {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, NumberError> {
        Self::try_from(text.parse::<f64>().map_err(|_| NumberError::new(MEASURE, text))?)
    }
}

impl TryFrom<String> for Header {
    type Error = NumberError;

    fn try_from(name: String) -> Result<Self, NumberError> {
        name.parse()
    }
}

impl FromStr for Header {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, NumberError> {
        text.parse().map(Self).map_err(|_| NumberError::new("the name of a header", text))
    }
}

impl NumberError {
    fn new(expected: &'static str, got: &(impl ToString + ?Sized)) -> Self {
        Self { expected, got: got.to_string() }
    }
}

const LIMIT: &str = "a number from 0 on, or off";
const SHARE: &str = "a share from 0 to 1";
const MEASURE: &str = "a number from 0 on";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_refused_by_option_and_file_alike() {
        assert_eq!(("off".parse(), "8".parse()), (Ok(Limit(Threshold::Off)), Ok(Limit(Threshold::Above(8.0)))));
        for odd in ["-1", "NaN", "inf", "of", ""] {
            let error = odd.parse::<Limit>().unwrap_err().to_string();
            assert!(error.starts_with("expected a number from 0 on, or off, got"), "{error}");
        }
        assert_eq!((Share::try_from(1.0), Measure::try_from(7.5)), (Ok(Share(1.0)), Ok(Measure(7.5))));
        assert!(["1.1", "-0.1", "NaN", "x"].iter().all(|odd| odd.parse::<Share>().is_err()));
        assert!(["-0.1", "NaN", "inf", "x"].iter().all(|odd| odd.parse::<Measure>().is_err()));
        assert_eq!("X-Session".parse(), Ok(Header(HeaderName::from_static("x-session"))));
        assert_eq!("a b".parse::<Header>().unwrap_err().to_string(), "expected the name of a header, got \"a b\"");
    }
}
