//! Bytes to events.
//!
//! | wire | decoder |
//! | --- | --- |
//! | msgpack batches of vLLM, SGLang, TokenSpeed and Dynamo's TensorRT-LLM publisher | [`decode_batch`] |
//! | their ZeroMQ messages, live and replayed | [`frame`] |
//! | TensorRT-LLM's own JSON, drained over HTTP | [`trtllm`] |
//!
//! Decoding is lenient by one rule: what cannot be read costs as little as possible, and is counted. An unreadable field
//! costs its event, an event costs nothing else in its batch, and an unreadable payload is an empty batch.

mod array;
mod batch;
mod fields;
pub mod frame;
mod ids;
mod map;
mod reader;
pub mod trtllm;

pub use batch::decode_batch;
