//! gRPC's status, where an answer has one.

use http::HeaderMap;

use super::Failure;

/// What a gRPC answer's headers or trailers say; nothing if they have no status.
pub(super) fn failure(headers: &HeaderMap) -> Option<Failure> {
    let status = headers.get("grpc-status")?;
    match status.as_bytes() {
        b"0" => None,
        // Cancelled, unknown, aborted, unavailable.
        b"1" | b"2" | b"10" | b"14" => Some(Failure::Transport),
        _ => Some(Failure::Answer),
    }
}
