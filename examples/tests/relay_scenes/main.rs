//! A gateway, a relay and an engine, through real sockets, while things break: afterwards the index is the engine's set, exactly.
//!
//! The relay stands in some scenes and not in others. Each prints how long it took from the end of the fault to exact.

mod hostile;
mod load;
mod program;
mod proxy;
mod scenes;
mod sidecar;
mod site;
mod truth;
