//! Which headers pass, and which belong to one connection only.

use axum::http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};

/// The engine that answered, by its name.
pub(crate) const X_KV_WORKER: HeaderName = HeaderName::from_static("x-kv-worker");
/// The data-parallel rank within it.
pub(crate) const X_KV_RANK: HeaderName = HeaderName::from_static("x-kv-rank");
/// How many of the prompt's tokens the engine should find in its cache.
pub(crate) const X_KV_PREDICTED_TOKENS: HeaderName = HeaderName::from_static("x-kv-predicted-tokens");
/// How many it may find beyond that: what was not announced, and was counted on.
pub(crate) const X_KV_EXPECTED_TOKENS: HeaderName = HeaderName::from_static("x-kv-expected-tokens");
/// Which rule of the policy decided.
pub(crate) const X_KV_BRANCH: HeaderName = HeaderName::from_static("x-kv-branch");
/// How many it found, where its answer said so before the headers went out.
pub(crate) const X_KV_CACHED_TOKENS: HeaderName = HeaderName::from_static("x-kv-cached-tokens");
/// Why there is no prediction.
pub(crate) const X_KV_UNPREDICTED: HeaderName = HeaderName::from_static("x-kv-unpredicted");
/// Why the engine may report something else than what was predicted.
pub(crate) const X_KV_CAVEAT: HeaderName = HeaderName::from_static("x-kv-caveat");
/// `1` in a request asks for [`X_KV_DECISION`].
pub(crate) const X_KV_EXPLAIN: HeaderName = HeaderName::from_static("x-kv-explain");
/// The record of the decision, as JSON.
pub(crate) const X_KV_DECISION: HeaderName = HeaderName::from_static("x-kv-decision");
/// Which rank an engine shall serve the request with.
pub(crate) const X_DATA_PARALLEL_RANK: HeaderName = HeaderName::from_static("x-data-parallel-rank");

/// The headers for the engine: the client's end-to-end ones, and the rank where the engine has several.
pub(crate) fn for_engine(client: &HeaderMap, rank: Option<u32>) -> HeaderMap {
    let mut headers = end_to_end(client);
    for name in [HOST, CONTENT_LENGTH, EXPECT, X_DATA_PARALLEL_RANK, X_KV_EXPLAIN] {
        headers.remove(name);
    }
    // A packed answer could not be searched for its usage, and would be unpacked by nobody on the way.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some(rank) = rank {
        headers.insert(X_DATA_PARALLEL_RANK, rank.into());
    }
    headers
}

/// The engine's end-to-end headers. The length is left to the server, because the body may be cut.
pub(crate) fn for_client(engine: &HeaderMap) -> HeaderMap {
    let mut headers = end_to_end(engine);
    // A gateway behind this one says these of its own engines.
    for name in
        [CONTENT_LENGTH, X_KV_CACHED_TOKENS, X_KV_EXPECTED_TOKENS, X_KV_BRANCH, X_KV_UNPREDICTED, X_KV_CAVEAT, X_KV_DECISION]
    {
        headers.remove(name);
    }
    headers
}

/// Whether the request wants to know why.
pub(crate) fn wants_explanation(client: &HeaderMap) -> bool {
    client.get(X_KV_EXPLAIN).is_some_and(|value| value == "1")
}

/// All headers but those of one connection: the ones that HTTP names (RFC 9110, 7.6.1) and those that `Connection` lists.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let listed = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok()).flat_map(|list| list.split(','));
    let listed: Vec<HeaderName> = listed.filter_map(|name| name.trim().parse().ok()).collect();
    let mut kept = headers.clone();
    for name in HOP_BY_HOP.iter().chain(&listed) {
        kept.remove(name);
    }
    kept
}

static HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn only_end_to_end_headers_reach_the_engine() {
        let client = headers(&[
            ("host", "gateway:8080"),
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("proxy-authorization", "Basic x"),
            ("content-length", "17"),
            ("expect", "100-continue"),
            ("authorization", "Bearer secret"),
            ("x-request-id", "r-1"),
            ("content-type", "application/json"),
        ]);
        let kept = for_engine(&client, None);
        let expected = headers(&[
            ("authorization", "Bearer secret"),
            ("x-request-id", "r-1"),
            ("content-type", "application/json"),
            ("accept-encoding", "identity"),
        ]);
        assert_eq!(kept, expected);
    }

    #[test]
    fn the_rank_is_the_gateway_s_to_say() {
        let client = headers(&[("x-data-parallel-rank", "7")]);
        assert_eq!(for_engine(&client, Some(2))["x-data-parallel-rank"], "2");
        assert!(!for_engine(&client, None).contains_key("x-data-parallel-rank"));
    }

    #[test]
    fn only_end_to_end_headers_reach_the_client() {
        let engine = headers(&[
            ("connection", "keep-alive"),
            ("content-length", "9"),
            ("x-request-id", "r-1"),
            ("trailer", "x"),
            ("x-kv-caveat", "y"),
        ]);
        assert_eq!(for_client(&engine), headers(&[("x-request-id", "r-1")]));
    }

    #[test]
    fn an_explanation_is_asked_for_with_a_one() {
        assert!(wants_explanation(&headers(&[("x-kv-explain", "1")])));
        assert!(!wants_explanation(&headers(&[("x-kv-explain", "0")])));
        assert!(!wants_explanation(&HeaderMap::new()));
    }
}
