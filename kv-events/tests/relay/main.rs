//! The relay, driven by a test instead of sockets: what its subscribers end up with.

#[path = "../wire/allocator.rs"]
mod allocator;
mod cost;
mod encode;
mod found;
mod late;
mod publisher;
mod reader;
mod rules;
mod schedule;
mod told;
