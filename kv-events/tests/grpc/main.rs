//! A relay over gRPC: its messages, and its server and client over real sockets.
#![cfg(feature = "grpc")]

mod events;
mod hostile;
mod identity;
mod impostor;
mod scene;
mod sockets;
mod told;
