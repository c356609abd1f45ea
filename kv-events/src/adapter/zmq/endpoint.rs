//! ZeroMQ endpoints as engines write them in their configuration.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

/// Where a publisher or its replay socket is: `tcp://HOST:PORT` or `ipc://PATH`.
///
/// Engines print the endpoint that they *bind*, so the host is often a wildcard (`*`, `0.0.0.0`, `::`). A wildcard is dialled as
/// 127.0.0.1; for an engine elsewhere give it that engine's host first ([`on_host`](Self::on_host)).
///
/// ```
/// # use kv_events::adapter::zmq::Endpoint;
/// let base: Endpoint = "tcp://*:5557".parse()?;
/// assert_eq!(base.for_rank(2)?.to_string(), "tcp://*:5559");
/// assert_eq!(base.on_host("10.0.0.7").to_string(), "tcp://10.0.0.7:5557");
/// # Ok::<(), kv_events::adapter::zmq::EndpointError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint(Address);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Address {
    Tcp { host: String, port: u16 },
    Ipc { path: PathBuf },
}

impl Endpoint {
    /// The endpoint of data-parallel rank `rank`: for tcp the port plus `rank`; an ipc endpoint serves every rank as it is.
    ///
    /// # Errors
    /// [`EndpointError::RankPort`] when the sum is no port.
    pub fn for_rank(&self, rank: u32) -> Result<Self, EndpointError> {
        let Address::Tcp { host, port } = &self.0 else { return Ok(self.clone()) };
        let moved = u16::try_from(u32::from(*port).saturating_add(rank));
        let port = moved.map_err(|_| EndpointError::RankPort { base: *port, rank })?;
        Ok(Self(Address::Tcp { host: host.clone(), port }))
    }

    /// The same endpoint on `host` if its own host is a wildcard, unchanged otherwise.
    #[must_use]
    pub fn on_host(&self, host: &str) -> Self {
        match &self.0 {
            Address::Tcp { port, .. } if self.is_wildcard() => Self(Address::Tcp { host: host.to_owned(), port: *port }),
            _ => self.clone(),
        }
    }

    /// The port, of a tcp endpoint.
    pub fn port(&self) -> Option<u16> {
        match self.0 {
            Address::Tcp { port, .. } => Some(port),
            Address::Ipc { .. } => None,
        }
    }

    /// Whether the host stands for every interface of the machine that binds it.
    pub fn is_wildcard(&self) -> bool {
        matches!(&self.0, Address::Tcp { host, .. } if matches!(host.as_str(), "*" | "0.0.0.0" | "::"))
    }

    /// The host and port to connect to, or the path.
    pub(super) fn dialled(&self) -> Address {
        self.on_host("127.0.0.1").0
    }

    /// The host and port to listen at, or the path.
    pub(super) fn bound(&self) -> Address {
        match &self.0 {
            Address::Tcp { host, port } if host == "*" => Address::Tcp { host: "0.0.0.0".to_owned(), port: *port },
            other => other.clone(),
        }
    }

    pub(super) fn tcp(host: String, port: u16) -> Self {
        Self(Address::Tcp { host, port })
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if let Some(path) = text.strip_prefix("ipc://") {
            return ipc(text, Path::new(path));
        }
        let rest = text.strip_prefix("tcp://").ok_or_else(|| EndpointError::Scheme { got: text.to_owned() })?;
        let (host, port) = rest.rsplit_once(':').ok_or_else(|| EndpointError::NoPort { got: text.to_owned() })?;
        let port = port.parse().map_err(|_| EndpointError::Port { port: port.to_owned(), got: text.to_owned() })?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(EndpointError::NoHost { got: text.to_owned() });
        }
        Ok(Self::tcp(host.to_owned(), port))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
            Address::Ipc { path } => write!(f, "ipc://{}", path.display()),
        }
    }
}

/// Why a text is not an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The text starts with neither of the two schemes.
    #[error("expected tcp://HOST:PORT or ipc://PATH, got {got:?}")]
    Scheme {
        /// The whole text.
        got: String,
    },
    /// A tcp endpoint without a colon before the port.
    #[error("expected a port after the host, as in tcp://HOST:PORT, got {got:?}")]
    NoPort {
        /// The whole text.
        got: String,
    },
    /// A tcp endpoint whose port is no number up to 65535.
    #[error("expected a port from 0 to 65535, got {port:?} in {got:?}")]
    Port {
        /// What stands where the port should.
        port: String,
        /// The whole text.
        got: String,
    },
    /// A tcp endpoint with nothing before the port.
    #[error("expected a host before the port, got {got:?}; every interface is written *")]
    NoHost {
        /// The whole text.
        got: String,
    },
    /// An ipc endpoint without a path.
    #[error("expected a path after ipc://, got {got:?}")]
    NoPath {
        /// The whole text.
        got: String,
    },
    /// The port of this rank would lie above 65535.
    #[error("expected base port plus rank to be at most 65535, got {base} + {rank}")]
    RankPort {
        /// The port of rank 0.
        base: u16,
        /// The rank asked for.
        rank: u32,
    },
}

fn ipc(text: &str, path: &Path) -> Result<Endpoint, EndpointError> {
    if path.as_os_str().is_empty() {
        return Err(EndpointError::NoPath { got: text.to_owned() });
    }
    Ok(Endpoint(Address::Ipc { path: path.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> Endpoint {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn dialled(text: &str) -> String {
        Endpoint(endpoint(text).dialled()).to_string()
    }

    #[test]
    fn wildcards_are_dialled_on_this_machine_and_other_hosts_as_they_are() {
        for wildcard in ["tcp://*:5557", "tcp://0.0.0.0:5557", "tcp://[::]:5557", "tcp://:::5557"] {
            assert!(endpoint(wildcard).is_wildcard(), "{wildcard}");
            assert_eq!(dialled(wildcard), "tcp://127.0.0.1:5557");
        }
        for named in ["tcp://10.1.2.3:5557", "tcp://engine-3.pods:5557", "tcp://[fe80::1]:5557", "ipc:///run/kv"] {
            assert!(!endpoint(named).is_wildcard(), "{named}");
            assert_eq!(dialled(named), named);
            assert_eq!(endpoint(named).on_host("elsewhere"), endpoint(named));
        }
    }

    #[test]
    fn a_rank_moves_the_port_of_tcp_only() {
        assert_eq!(endpoint("tcp://h:65534").for_rank(1).unwrap(), endpoint("tcp://h:65535"));
        assert_eq!(endpoint("ipc:///run/kv").for_rank(7).unwrap(), endpoint("ipc:///run/kv"));
        for rank in [2, u32::MAX] {
            let expected = EndpointError::RankPort { base: 65534, rank };
            assert_eq!(endpoint("tcp://h:65534").for_rank(rank).unwrap_err(), expected);
        }
    }

    #[test]
    fn a_wildcard_is_bound_on_every_interface() {
        assert_eq!(endpoint("tcp://*:1").bound(), endpoint("tcp://0.0.0.0:1").0);
        assert_eq!(endpoint("tcp://[::]:1").bound(), endpoint("tcp://[::]:1").0);
    }

    #[test]
    fn what_is_no_endpoint_is_refused_with_what_it_lacks() {
        let refused = |text: &str| text.parse::<Endpoint>().unwrap_err();
        assert!(matches!(refused("inproc://x"), EndpointError::Scheme { .. }));
        assert!(matches!(refused("127.0.0.1:5557"), EndpointError::Scheme { .. }));
        assert!(matches!(refused("tcp://host"), EndpointError::NoPort { .. }));
        assert!(matches!(refused("tcp://host:65536"), EndpointError::Port { .. }));
        assert!(matches!(refused("tcp://host:"), EndpointError::Port { .. }));
        assert!(matches!(refused("tcp://:5557"), EndpointError::NoHost { .. }));
        assert!(matches!(refused("ipc://"), EndpointError::NoPath { .. }));
    }
}
