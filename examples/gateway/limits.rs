//! Every bound of the gateway, with its reason.

use std::time::Duration;

/// Longest request body by default, in bytes. A million tokens as ids are some 7 MB, as text 5 MB; images go inline as base64.
pub(crate) const BODY_BYTES: usize = 32 << 20;

/// Longest answer that is collected before it is passed on, in bytes. Streams are not collected. 100,000 tokens with 20
/// logprobs each are about 100 MB.
pub(crate) const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Longest event of a streamed answer that is searched for its usage, in bytes. Longer ones pass by unread.
pub(crate) const STREAM_EVENT_BYTES_MAX: usize = 4 << 20;

/// Longest answer of an engine to a question of ours (`/v1/models`, `/tokenize`), in bytes: a million token ids.
pub(crate) const SIDE_ANSWER_BYTES_MAX: usize = 16 << 20;

/// Longest `x-kv-decision` header, in bytes. Proxies cut or refuse longer header lines (nginx: 4 to 8 kB for all of them).
pub(crate) const DECISION_HEADER_BYTES_MAX: usize = 2048;

/// Most data-parallel ranks of one engine. The largest published deployments have some hundreds.
pub(crate) const RANKS_MAX: u32 = 1024;

/// Longest wait for an engine's first byte by default. A long generation that is not streamed sends nothing until it ends.
pub(crate) const MAX_WAIT: Duration = Duration::from_mins(10);

/// Longest wait for a TCP connection to an engine. Beyond it, another engine is a better use of the time.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(3);

/// How long a connection to an engine is kept for the next request. Less than the 5 s after which uvicorn, the server of vLLM
/// and SGLang, closes it, so that no request meets a closing one.
pub(crate) const IDLE_CONNECTION_MAX: Duration = Duration::from_secs(4);

/// How often an engine is asked for its health and models.
pub(crate) const POLL_EVERY: Duration = Duration::from_secs(2);

/// First and longest pause between questions to an engine that does not answer.
pub(crate) const POLL_BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Longest wait for an engine's health or models. An engine in a long prefill answers late.
pub(crate) const POLL_MAX: Duration = Duration::from_secs(5);

/// Longest wait for an engine's `/tokenize`. Beyond it, the request is better off routed by load.
pub(crate) const TOKENIZE_MAX: Duration = Duration::from_secs(2);

/// How often an engine that pushes no load is asked for it: as long as an account of overload is believed. With the ten seconds of routers
/// in the field, overload would steer in one second of ten. An answer is one page of text.
pub(crate) const LOAD_EVERY: Duration = kv_routing::limits::OVERLOAD_BELIEVED_FOR;

/// After so many questions in a row that nobody answered, what a gRPC port said of its engine's health counts no more: half a minute, where
/// it refuses, and up to two minutes where it is silent.
pub(crate) const HEALTH_UNHEARD_MAX: u32 = 15;

/// After how long a gRPC port without a health service is asked again: another server may have been started there.
pub(crate) const HEALTH_ANEW: Duration = Duration::from_mins(1);

/// How long a session is remembered by default: a conversation that is quiet for longer has been evicted.
pub(crate) const SESSION_FOR: Duration = Duration::from_hours(1);

/// How often ranks are looked at for warm-up, and repairs for their time: as often as the library wants sizes.
pub(crate) const KEEP_EVERY: Duration = kv_routing::limits::SIZES_EVERY;

/// Tokens of an answer that are counted into a rank's memory beforehand, at most: clients allow far more than they get. Conversations of the
/// Mooncake trace have answers of 343 tokens on average.
pub(crate) const ANSWER_TOKENS: u64 = 512;

/// The size of a block that is assumed for engines that have announced none, to tell siblings by: vLLM's default. In tokens.
pub(crate) const BLOCK_TOKENS: std::num::NonZeroU32 = std::num::NonZeroU32::new(16).unwrap();

/// What a client is told to wait for when no engine is ready, in seconds: about one poll.
pub(crate) const RETRY_AFTER_S: u64 = 2;

/// How long running answers may go on after Ctrl-C or SIGTERM.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// How long the last bytes may take after that.
pub(crate) const GRACE_LAST: Duration = Duration::from_secs(1);

/// How often the table is drawn: on a terminal, and where the output is a file.
pub(crate) const TABLE_EVERY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
