//! What the gateway does without arguments: mock engines in this process, spoken to over real sockets.

mod conversation;
mod load;

use crate::mock_engine::{MockConfig, MockEngine, MockError, MockFleet, Timing};

pub(super) use self::load::send;
use super::settings::{EngineSpec, EngineSpecError, Options};

/// Starts the demonstration's engines.
pub(super) async fn start_engines(options: &Options) -> Result<MockFleet, MockError> {
    let defaults = MockConfig::default();
    let timing = Timing { speed: options.mock_speed, ..defaults.timing };
    MockFleet::start(MockConfig { engines: options.mock_engines, kv_blocks: options.mock_blocks, timing, ..defaults }).await
}

/// How the gateway reaches `fleet`'s engines.
pub(super) fn specs(fleet: &MockFleet) -> Result<Vec<EngineSpec>, EngineSpecError> {
    fleet.engines().iter().map(|engine| spec(fleet, engine)).collect()
}

fn spec(fleet: &MockFleet, engine: &MockEngine) -> Result<EngineSpec, EngineSpecError> {
    let (url, events, replay) = (engine.http_url(), engine.events_endpoint(), engine.replay_endpoint());
    format!("{url},name=mock-{},events={events},replay={replay},ranks={}", engine.index(), fleet.config().ranks).parse()
}

/// What there is to try, for a gateway at `address`.
pub(super) fn curl_lines(address: &str, model: &str) -> String {
    format!(
        "\
Try it:
  curl -si http://{address}/v1/completions -H 'content-type: application/json' -H 'x-kv-explain: 1' \\
       -d '{{\"model\": \"{model}\", \"prompt\": \"{WORDS}\", \"max_tokens\": 8}}'
       (twice: the second time, 16 of its tokens are cached, and x-kv-predicted-tokens knew it)
  curl -sN http://{address}/v1/chat/completions -H 'content-type: application/json' \\
       -d '{{\"model\": \"{model}\", \"messages\": [{{\"role\": \"user\", \"content\": \"Hello\"}}], \"stream\": true, \"max_tokens\": 8}}'
  curl -s http://{address}/debug/workers
  curl -s http://{address}/metrics
Ctrl-C ends it."
    )
}

/// A prompt of more than one block.
const WORDS: &str =
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen";
