//! A gateway in front of mock engines, through real sockets on both sides.

mod answers;
mod bursts;
mod confirmation;
mod decided;
mod diagnoses;
mod events;
mod failures;
mod grpc;
mod index_kinds;
mod life;
mod loads;
mod overload;
mod placement;
mod program;
mod refusals;
mod servicer;
mod shutdown;
mod site;
mod steering;
