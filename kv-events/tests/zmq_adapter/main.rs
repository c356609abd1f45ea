//! The ZeroMQ adapter over real sockets: against the `zeromq` crate's PUB and ROUTER, and against peers that no library plays.
#![cfg(feature = "zmq")]

mod peers;
mod replay;
mod subscriber;

use std::future::Future;
use std::time::Duration;

/// Fails a test that would hang.
async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let patience = Duration::from_mins(1); // virtual where a test has paused the clock
    tokio::time::timeout(patience, future).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}
