//! The key with which the gateway asks engines that want one.

use std::fmt;

use reqwest::header::HeaderValue;
use thiserror::Error;

/// An engine's API key, as the header that carries it. It prints nothing of itself.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(HeaderValue);

/// Why there is no key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected an API key in the environment variable {variable}: {reason}")]
pub struct ApiKeyError {
    /// The variable.
    pub variable: String,
    /// What is wrong with it. Never the key.
    pub reason: &'static str,
}

impl ApiKey {
    /// Reads the key from the environment: an option would show it to everybody on the machine.
    ///
    /// # Errors
    /// [`ApiKeyError`] when the variable is absent, or holds what no header can.
    pub fn from_variable(variable: &str) -> Result<Self, ApiKeyError> {
        let wrong = |reason| ApiKeyError { variable: variable.to_owned(), reason };
        let key = std::env::var(variable).map_err(|_| wrong("it is not set, or no text"))?;
        Self::new(&key).ok_or_else(|| wrong("it is empty, or holds characters that a header cannot"))
    }

    /// The header's value.
    pub(crate) fn bearer(&self) -> HeaderValue {
        self.0.clone()
    }

    fn new(key: &str) -> Option<Self> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", key.trim())).ok().filter(|_| !key.trim().is_empty())?;
        value.set_sensitive(true);
        Some(Self(value))
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_header_and_does_not_print_itself() {
        let key = ApiKey::new(" secret\n").unwrap();
        assert_eq!(key.bearer(), "Bearer secret");
        assert!(!format!("{key:?} {:?}", key.bearer()).contains("secret"));
        assert_eq!(ApiKey::new(" "), None);
        assert_eq!(ApiKey::new("a\nb"), None);
    }

    #[test]
    fn an_absent_variable_is_named() {
        let error = ApiKey::from_variable("KV_GATEWAY_TEST_ABSENT").unwrap_err().to_string();
        assert!(error.contains("variable KV_GATEWAY_TEST_ABSENT: it is not set"), "{error}");
    }
}
