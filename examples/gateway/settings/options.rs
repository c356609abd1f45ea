//! The command line.

use std::path::PathBuf;

use clap::Parser;

use super::{EngineSpec, IndexKind, PolicyKind, Seconds, Tuning};

/// Sends each LLM request to the engine that already holds its prefix in the KV cache.
///
/// The gateway speaks OpenAI's API to clients and to engines. From each engine it takes the KV-cache events of vLLM or
/// SGLang over ZeroMQ, or from a relay beside it over gRPC, so it knows block by block what every engine holds; a request goes to
/// the engine where computing what it lacks, waiting and company cost least together, and as long as another can serve not to one
/// that shows no life. Every answer says which engine it came from, how many tokens the gateway expected it to reuse, and how many
/// the engine says it reused.
///
/// Without arguments it starts four mock engines, sends them a short load, and stays up for you to try.
#[derive(Clone, Debug, Parser)]
#[command(name = "gateway", version, after_long_help = EXAMPLES)]
pub struct Options {
    /// Where clients connect; port 0 takes any free port [default: 127.0.0.1:8080]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,

    /// An engine to route to; repeat it for each
    ///
    /// URL is where the engine serves OpenAI's API. The keys, separated by commas:
    ///   events=tcp://HOST:PORT   where it publishes KV-cache events (without: routed to by load alone)
    ///   events=grpc://HOST:PORT  the relay that runs beside it, instead of its own sockets
    ///   replay=tcp://HOST:PORT   where it answers for events that were missed
    ///   ranks=N                  its data-parallel ranks; rank n publishes at the ports plus n
    ///   bind                     its publisher connects to events=, where the gateway listens
    ///   name=NAME                its name in headers, metrics and the table [default: HOST:PORT of URL]
    ///   topic=PREFIX             the start of the topics to subscribe to
    ///   block-size=TOKENS        the size of a block, for wires that do not tell
    ///   set-copies               it announces again what it has (vLLM in the full report mode)
    ///   drops-last-block         it recomputes the last block that matched (EAGLE, MTP)
    ///   grpc=grpc://HOST:PORT    its gRPC servicer beside URL: asked for its health, and by load=auto first for its load
    ///   load=WHERE               where it is asked for its load: metrics, sglang (its load endpoint), grpc-vllm or grpc-sglang
    ///                            (that servicer, at grpc=), off [default: auto]
    ///   overload-waiting=COUNT   its own --overload-waiting, or off
    ///   overload-kv=SHARE        its own --overload-kv, or off
    #[arg(long = "engine", value_name = "URL[,KEY=VALUE]...", verbatim_doc_comment)]
    pub engines: Vec<EngineSpec>,

    /// A TOML file with any of these settings and with engines; options win over it
    ///
    /// examples/gateway/sample.toml explains every key.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The index that keeps what every engine holds [default: chain]
    #[arg(long, value_enum, value_name = "KIND")]
    pub kv_index: Option<IndexKind>,

    /// Threads that write what engines announce into the index, 1 to 63 [default: half of the cores, at most 8]
    #[arg(long, value_name = "COUNT")]
    pub lanes: Option<usize>,

    /// How a request finds its engine [default: blend]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub policy: Option<PolicyKind>,

    /// Seed of the draws between equally good engines [default: 7]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// The model's tokenizer.json, or the folder with it; without it the engines tokenize
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<PathBuf>,

    /// A Jinja chat template, where it is not the one beside the tokenizer
    #[arg(long, value_name = "FILE", requires = "tokenizer")]
    pub chat_template: Option<PathBuf>,

    /// Environment variable with the API key for the gateway's own questions to engines (models, tokens)
    ///
    /// Requests go to engines with the key that their client sent.
    #[arg(long, value_name = "VARIABLE")]
    pub api_key_env: Option<String>,

    /// Longest request body; longer ones get 413 [default: 33554432]
    #[arg(long, value_name = "BYTES")]
    pub body_limit: Option<usize>,

    /// Longest wait for an engine's first byte; then 504 [default: 600]
    #[arg(long, value_name = "SECONDS")]
    pub max_wait: Option<u64>,

    /// How long after its connection broke an engine that is not heard is passed over, in seconds [default: 2]
    #[arg(long, value_name = "SECONDS")]
    pub stall_after: Option<Seconds>,

    /// How long an engine's streams may show nothing, beyond what their prompts take, before it is passed over; 0: for ever [default: 3]
    #[arg(long, value_name = "SECONDS")]
    pub wedge_after: Option<Seconds>,

    /// Log a line for every decision, with its record as JSON
    #[arg(long)]
    pub log_decisions: bool,

    /// How many mock engines to start
    #[arg(long, value_name = "COUNT", default_value_t = 4, conflicts_with_all = ["engines", "config"])]
    pub mock_engines: usize,

    /// How many blocks of 16 tokens each mock engine's cache holds; by default less than the demonstration fills
    #[arg(long, value_name = "BLOCKS", default_value_t = 800, conflicts_with_all = ["engines", "config"])]
    pub mock_blocks: usize,

    /// Simulated time over real time in the mock engines: 10 makes each ten times as fast
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, conflicts_with_all = ["engines", "config"])]
    pub mock_speed: f64,

    /// How many requests the demonstration sends
    #[arg(long, value_name = "COUNT", default_value_t = 400, conflicts_with_all = ["engines", "config"])]
    pub demo_requests: usize,

    /// Start the mock engines but send them nothing
    #[arg(long, conflicts_with_all = ["engines", "config"])]
    pub no_demo_load: bool,

    /// What decisions are made from. Last, for its heading in the help goes on.
    #[command(flatten)]
    pub tuning: Tuning,
}

const EXAMPLES: &str = "\
Examples:
  gateway
      four mock engines and a demonstration
  gateway --mock-engines 8 --mock-blocks 32768 --mock-speed 10 --no-demo-load
      a fleet for `replay --speedup 10`
  gateway --engine http://127.0.0.1:8000,events=tcp://127.0.0.1:5557,replay=tcp://127.0.0.1:5657 \\
          --engine http://127.0.0.1:8001,events=tcp://127.0.0.1:5757,replay=tcp://127.0.0.1:5857
      two vLLM servers, each started with
        --enable-prompt-tokens-details --kv-events-config '{\"enable_kv_cache_events\":true,\"publisher\":\"zmq\",
        \"endpoint\":\"tcp://*:5557\",\"replay_endpoint\":\"tcp://*:5657\"}'
  gateway --engine http://10.0.0.1:8000,events=grpc://10.0.0.1:5600,ranks=2
      a server with a relay beside it (see relay --help): nothing is missed while the gateway is away
  gateway --engine http://10.0.0.1:8000,grpc=grpc://10.0.0.1:50051,load=grpc-sglang
      a server that tells health and loads by gRPC on another port: NOT_SERVING there takes it out, as a bad /health does
  gateway --config examples/gateway/sample.toml --overload-waiting 16 --overload-kv off --overload-shed
      more in each queue, and 503 with Retry-After when all queues are that long
  gateway --config examples/gateway/sample.toml --policy round-robin
      the same load without the cache, to compare

Routes: /v1/completions, /v1/chat/completions, /v1/models, /health, /metrics, /debug/workers

Headers of every answer: x-kv-worker, x-kv-rank, x-kv-branch (the rule that chose them), x-kv-predicted-tokens, x-kv-expected-tokens
(what was counted on beyond these: siblings under way, or what the engine reuses without having announced it), x-kv-cached-tokens
(when the engine has said it before the headers go out). With `x-kv-explain: 1` in the request also x-kv-decision, the decision's
record as JSON, which decides again offline. `because` of /debug/workers says what speaks for or against each rank.

RUST_LOG=debug shows every batch of events and every retry.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn a_faulty_engine_is_explained() {
        let error = Options::try_parse_from(["gateway", "--engine", "http://h:1,evnts=tcp://h:2"]).unwrap_err().to_string();
        assert!(error.contains("expected one of events=ENDPOINT") && error.contains("evnts=tcp://h:2"), "{error}");
    }

    #[test]
    fn the_demonstration_s_options_need_the_demonstration() {
        assert!(Options::try_parse_from(["gateway", "--no-demo-load", "--engine", "http://h:1"]).is_err());
    }
}
