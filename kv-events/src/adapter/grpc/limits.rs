//! The bounds of the gRPC adapter, each with its reason.

use std::time::Duration;

use crate::limits::PAYLOAD_BYTES_MAX;

/// Longest message of a stream, in bytes: what an engine's longest payload comes to, and room for the fields around it. A batch that
/// is longer in this form goes out empty, with its loss counted.
pub const UPDATE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + (64 << 10);

/// Longest request, in bytes: a position of each of 1,024 ranks is 40 kB.
pub const REQUEST_BYTES_MAX: usize = 256 << 10;

/// Messages of one subscription that wait for its connection. Beyond, they wait in the relay's window.
pub const STREAM_QUEUE_MAX: usize = 4;

/// How long a reader may take nothing while a snapshot is on its way to it. The relay keeps what a snapshot tells until it is told,
/// and no more than two of them, so that one that is never read would leave none for others.
pub const SNAPSHOT_STALL_MAX: Duration = Duration::from_secs(30);

/// Subscriptions on one connection: a gateway has one of each engine's ranks.
pub const STREAMS_PER_CONNECTION_MAX: u32 = 1024;

/// Connections of one server. Each may keep some 100 kB; a fleet has some gateways, and each a connection for every rank.
pub const CONNECTIONS_MAX: usize = 2048;

/// How long a relay may take to accept a connection, and how long to answer a subscription.
pub const SUBSCRIBE_MAX: Duration = Duration::from_secs(2);

/// Shortest and longest pause before a relay is asked again.
pub const RESUBSCRIBE_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How long a stream that has begun may be silent: three of the relay's heartbeats, at their slowest.
pub const STREAM_SILENCE_MAX: Duration = Duration::from_secs(15);

/// HTTP/2 pings on a connection, and how long their answer may take. Servers built on grpc-core refuse faster ones as too many.
pub const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));
