//! What is wrong with an engine's description.

use kv_events::adapter::grpc::AddressError;
use kv_events::adapter::zmq::EndpointError;
use kv_events::hash_check::HashingError;
use kv_routing::adapter::grpc as servicer;
use thiserror::Error;

use super::KEYS;
use crate::gateway::limits::RANKS_MAX;
use crate::gateway::settings::NumberError;

/// Why a text or a table does not describe an engine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EngineSpecError {
    /// Not a URL.
    #[error("expected the engine's URL, as in http://127.0.0.1:8000, got {got:?}: {reason}")]
    Url {
        /// The text.
        got: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An endpoint that is none, or whose ports run out before the ranks do.
    #[error("{key}: {source}")]
    Endpoint {
        /// `events` or `replay`
        key: &'static str,
        /// What is wrong with it.
        source: EndpointError,
    },
    /// A relay's address that is none.
    #[error("events: {0}")]
    Relay(#[from] AddressError),
    /// What a relay sees to, beside a relay.
    #[error("{key} says how to listen to an engine, and events=grpc://... names a relay: leave it out")]
    BesideRelay {
        /// `replay`, `bind` or `topic`.
        key: &'static str,
    },
    /// A name that no header can carry.
    #[error("expected a name of visible ASCII characters, got {got:?}")]
    Name {
        /// The name.
        got: String,
    },
    /// No such number of ranks.
    #[error("expected ranks from 1 to {RANKS_MAX}, got {got}")]
    Ranks {
        /// The number.
        got: String,
    },
    /// A size of 0 or no number.
    #[error("expected a block size of at least 1 token, got {got}")]
    BlockSize {
        /// The text.
        got: String,
    },
    /// A place for loads that is none.
    #[error("expected load=auto, metrics, sglang, grpc-vllm, grpc-sglang or off, got {got:?}")]
    Load {
        /// The text.
        got: String,
    },
    /// A servicer's address that is none.
    #[error("grpc: {0}")]
    Servicer(#[from] servicer::AddressError),
    /// A servicer that is to be asked, and is nowhere.
    #[error("load={load} asks the engine's gRPC servicer: expected grpc=grpc://HOST:PORT beside it")]
    NoServicer {
        /// `grpc-vllm` or `grpc-sglang`
        load: &'static str,
    },
    /// A threshold that is none.
    #[error("{key}: {source}")]
    Threshold {
        /// `overload-waiting` or `overload-kv`
        key: &'static str,
        /// What is wrong with it.
        source: NumberError,
    },
    /// A way to hash that is none.
    #[error("hash-check: {0}")]
    Hashing(#[from] HashingError),
    /// Several ranks cannot share one socket.
    #[error(
        "{key}={endpoint} serves one rank, and the engine has {ranks}: expected a tcp:// endpoint, whose port counts up by rank"
    )]
    OneSocket {
        /// `events` or `replay`
        key: &'static str,
        /// The endpoint.
        endpoint: String,
        /// How many ranks the engine has.
        ranks: u32,
    },
    /// A replay socket alone tells nothing.
    #[error("expected events=... beside replay=...")]
    ReplayAlone,
    /// A part of the flag that is no known `key=value`.
    #[error("expected one of {KEYS}, got {got:?}")]
    Key {
        /// The part.
        got: String,
    },
    /// A key given twice.
    #[error("{key} is given twice")]
    Twice {
        /// The key.
        key: String,
    },
}
