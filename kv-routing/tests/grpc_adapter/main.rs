//! Health and loads of gRPC engines, over real sockets.
#![cfg(feature = "grpc")]

mod engine;
mod health;
mod loads;
mod wire;
