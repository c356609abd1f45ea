//! Bytes to events.
