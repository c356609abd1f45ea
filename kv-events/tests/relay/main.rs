//! The relay, driven by a test instead of sockets: what its subscribers end up with.

mod encode;
mod reader;
mod told;
