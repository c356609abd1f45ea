//! The wire: what real engines published, what nobody should send, and what we encode ourselves.

mod allocator;
mod capture;
mod hostile;
mod layouts;
mod published;
mod roundtrip;
mod told;
mod trtllm;
