//! Mock engines through their real sockets.

mod exact;
mod fleet;
mod support;
