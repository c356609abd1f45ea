//! Where an engine listens, and the connection to it.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use tonic::codegen::http::uri::Authority;
use tonic::transport::{Channel, Endpoint};

use crate::limits::{GRPC_CONNECT_MAX, GRPC_KEEPALIVE};

/// Where an engine listens: `grpc://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EngineAddress {
    authority: String,
}

/// A text that is no engine's address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected grpc://HOST:PORT, got {got:?}")]
pub struct AddressError {
    /// The text.
    pub got: String,
}

/// A connection that is made when it is first needed, and again whenever it is lost. Pings say that it stands. Whoever needs TLS brings a
/// channel of their own; pings more often than every 30 s are refused by servers built on grpc-core.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn connect(address: &EngineAddress) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", address.authority)).expect("the address was checked");
    let (every, answered_within) = GRPC_KEEPALIVE;
    // No timeout for calls: tonic reports its own as CANCELLED, which would pass for a transport failure.
    endpoint
        .connect_timeout(GRPC_CONNECT_MAX)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(every)
        .keep_alive_timeout(answered_within)
        .keep_alive_while_idle(true)
        .connect_lazy()
}

impl FromStr for EngineAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError { got: text.to_owned() };
        let authority = text.strip_prefix("grpc://").ok_or_else(wrong)?;
        let parsed: Authority = authority.parse().map_err(|_| wrong())?;
        let is_plain = parsed.port_u16().is_some() && !parsed.host().is_empty() && !authority.contains('@');
        if is_plain { Ok(Self { authority: authority.to_owned() }) } else { Err(wrong()) }
    }
}

impl fmt::Display for EngineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "grpc://{}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for text in ["grpc://127.0.0.1:50051", "grpc://engine.pods:1", "grpc://[::1]:50051"] {
            assert_eq!(text.parse::<EngineAddress>().unwrap().to_string(), text);
        }
        for text in
            ["", "grpc://", "grpc://host", "http://host:1", "grpc://host:70000", "grpc://host:1/x", "grpc://a@host:1", "host:1"]
        {
            let error = text.parse::<EngineAddress>().unwrap_err();
            assert_eq!(error.to_string(), format!("expected grpc://HOST:PORT, got {text:?}"));
        }
    }
}
