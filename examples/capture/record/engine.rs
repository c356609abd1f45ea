//! The engine's HTTP side: what it is, and what it says of a completion.

use std::time::Duration;

use reqwest::{Client, Url};
use serde::Deserialize;
use serde_json::Value;

use super::RecordError;

/// Which engine answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EngineKind {
    Vllm,
    Sglang,
    Unknown,
}

impl EngineKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Unknown => "unknown",
        }
    }

    /// By the owner that its list of models names.
    fn of(owner: &str) -> Self {
        match owner {
            "vllm" => Self::Vllm,
            "sglang" => Self::Sglang,
            _ => Self::Unknown,
        }
    }

    /// Where it may say its version; SGLang's second is the name before 0.5.10.
    fn version_paths(self) -> &'static [&'static str] {
        match self {
            Self::Vllm => &["/version"],
            Self::Sglang => &["/server_info", "/get_server_info"],
            Self::Unknown => &[],
        }
    }

    /// Where a POST empties the prefix cache (vLLM: with `VLLM_SERVER_DEV_MODE=1`).
    pub(super) fn clear_path(self) -> &'static str {
        match self {
            Self::Sglang => "/flush_cache",
            Self::Vllm | Self::Unknown => "/reset_prefix_cache",
        }
    }
}

/// An engine that answers.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) kind: EngineKind,
    /// Empty where it cannot be learned.
    pub(super) version: String,
    /// The first model of its list.
    pub(super) model: String,
    pub(super) client: Client,
    base: Url,
}

impl Engine {
    /// Asks the engine at `base` for its version and its models.
    pub(super) async fn discover(base: &Url) -> Result<Self, RecordError> {
        let failed = |source| RecordError::Engine { url: base.clone(), source };
        // An environment's proxy must not come between the engine and its recording.
        let client = Client::builder().no_proxy().connect_timeout(CONNECT_MAX).build().map_err(failed)?;
        let mut engine =
            Self { kind: EngineKind::Unknown, version: String::new(), model: String::new(), client, base: base.clone() };
        let models: Models = engine.get(MODELS).await.map_err(failed)?;
        let first = models.data.into_iter().next().ok_or_else(|| RecordError::NoModel { url: engine.url(MODELS) })?;
        (engine.kind, engine.model) = (EngineKind::of(&first.owned_by), first.id);
        engine.version = engine.ask_version().await.unwrap_or_default();
        Ok(engine)
    }

    /// The address of `path` at this engine.
    pub(super) fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url.set_query(query);
        url
    }

    async fn ask_version(&self) -> Option<String> {
        for path in self.kind.version_paths() {
            if let Ok(Version { version }) = self.get(path).await {
                return Some(version);
            }
        }
        None
    }

    async fn get<T: for<'de> Deserialize<'de>>(&self, path: &str) -> reqwest::Result<T> {
        self.client.get(self.url(path)).timeout(CONNECT_MAX).send().await?.error_for_status()?.json().await
    }
}

/// What an answer says of its tokens, from one JSON body or many streamed chunks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    pub(super) prompt_token_ids: Option<Vec<u32>>,
    pub(super) output_token_ids: Option<Vec<u32>>,
    pub(super) prompt_tokens: Option<u64>,
    pub(super) completion_tokens: Option<u64>,
    pub(super) cached_tokens: Option<u64>,
}

impl Evidence {
    /// Reads an answer's body: JSON, or server-sent events with JSON in them.
    pub(super) fn read(body: &[u8]) -> Self {
        let mut evidence = Self::default();
        if let Ok(answer) = serde_json::from_slice(body) {
            evidence.absorb(answer);
            return evidence;
        }
        let events = body.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
        for answer in events.filter_map(|event| serde_json::from_slice(event).ok()) {
            evidence.absorb(answer);
        }
        evidence
    }

    fn absorb(&mut self, answer: Answer) {
        if let Some(choice) = answer.choices.into_iter().next() {
            let ids = answer.prompt_token_ids.or(choice.prompt_token_ids);
            self.prompt_token_ids = self.prompt_token_ids.take().or(ids);
            if let Some(ids) = choice.token_ids {
                self.output_token_ids.get_or_insert_default().extend(ids);
            }
        }
        if let Some(usage) = answer.usage {
            self.prompt_tokens = usage.prompt_tokens;
            self.completion_tokens = usage.completion_tokens;
            self.cached_tokens = usage.prompt_tokens_details.and_then(|details| details.cached_tokens);
        }
    }
}

/// Token ids of a request's prompt, where it is one list of them.
pub(super) fn token_ids(prompt: &Value) -> Option<Vec<u32>> {
    let ids = prompt.as_array()?.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()));
    ids.collect::<Option<Vec<_>>>().filter(|ids| !ids.is_empty())
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
    #[serde(default)]
    owned_by: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    prompt_token_ids: Option<Vec<u32>>,
}

#[derive(Deserialize)]
struct Choice {
    token_ids: Option<Vec<u32>>,
    prompt_token_ids: Option<Vec<u32>>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
}

const MODELS: &str = "/v1/models";

/// How long the engine may take for a small answer.
const CONNECT_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_streamed_answer_says_the_same_as_a_whole_one() {
        let whole = json!({
            "choices": [{"index": 0, "token_ids": [5, 6, 7], "prompt_token_ids": [1, 2]}],
            "usage": {"prompt_tokens": 2, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}},
        });
        let chunks = [
            json!({"choices": [{"index": 0, "prompt_token_ids": [1, 2], "token_ids": [5]}], "usage": null}),
            json!({"choices": [{"index": 0, "token_ids": [6, 7], "prompt_token_ids": null}]}),
            json!({"choices": [], "usage": whole["usage"]}),
        ];
        let streamed = chunks.map(|chunk| format!("data: {chunk}\r\n\r\n")).concat();
        let evidence = Evidence::read(whole.to_string().as_bytes());
        assert_eq!(evidence.output_token_ids, Some(vec![5, 6, 7]));
        assert_eq!(evidence.cached_tokens, Some(1));
        assert_eq!(Evidence::read(format!("{streamed}data: [DONE]\n\n").as_bytes()), evidence);
    }

    #[test]
    fn what_is_not_said_stays_unknown() {
        let answer = json!({"choices": [{"text": "x"}], "usage": {"prompt_tokens": 2, "prompt_tokens_details": null}});
        let evidence = Evidence::read(answer.to_string().as_bytes());
        assert_eq!(evidence, Evidence { prompt_tokens: Some(2), ..Default::default() });
        assert_eq!(Evidence::read(b"Internal Server Error"), Evidence::default());
    }

    #[test]
    fn only_one_list_of_ids_is_a_prompt_of_ids() {
        assert_eq!(token_ids(&json!([1, 2, 4_294_967_295_u32])), Some(vec![1, 2, u32::MAX]));
        for other in
            [json!("text"), json!([]), json!([[1, 2]]), json!(["a"]), json!([1, -2]), json!([1.5]), json!([4_294_967_296_u64])]
        {
            assert_eq!(token_ids(&other), None, "{other}");
        }
    }
}
