//! Which engine answers, and where.

use std::time::Duration;

use reqwest::{Client, Url};
use serde::Deserialize;

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

const MODELS: &str = "/v1/models";

/// How long the engine may take for a small answer.
const CONNECT_MAX: Duration = Duration::from_secs(10);
