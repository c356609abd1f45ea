//! A gateway in front of mock engines, through real sockets on both sides.

mod answers;
mod decisions;
mod diagnoses;
mod events;
mod failures;
mod index_kinds;
mod life;
mod placement;
mod program;
mod refusals;
mod shutdown;
mod site;
