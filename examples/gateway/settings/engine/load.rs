//! Where an engine is asked for its load.

use std::str::FromStr;

use serde::Deserialize;

use super::EngineSpecError;

/// Where an engine is asked for its load, while it pushes none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadSource {
    /// Wherever it answers: its gRPC servicer, if it has a port for that; then `/metrics`, or SGLang's endpoint. What is
    /// SGLang's is asked first where the events are SGLang's.
    #[default]
    Auto,
    /// `/metrics`, as vLLM and SGLang serve it.
    Metrics,
    /// SGLang's `/v1/loads`, or `/get_load` where there is none.
    Sglang,
    /// `GetLoads` of vLLM's gRPC servicer.
    GrpcVllm,
    /// `GetLoads` of SGLang's gRPC servicer.
    GrpcSglang,
    /// Nowhere.
    Off,
}

impl LoadSource {
    /// Whether it is a gRPC servicer and nothing else.
    pub(super) const fn is_servicer(self) -> bool {
        matches!(self, Self::GrpcVllm | Self::GrpcSglang)
    }

    /// As options and files write it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Metrics => "metrics",
            Self::Sglang => "sglang",
            Self::GrpcVllm => "grpc-vllm",
            Self::GrpcSglang => "grpc-sglang",
            Self::Off => "off",
        }
    }

    const ALL: [Self; 6] = [Self::Auto, Self::Metrics, Self::Sglang, Self::GrpcVllm, Self::GrpcSglang, Self::Off];
}

impl FromStr for LoadSource {
    type Err = EngineSpecError;

    fn from_str(text: &str) -> Result<Self, EngineSpecError> {
        let named = Self::ALL.into_iter().find(|source| source.as_str() == text);
        named.ok_or_else(|| EngineSpecError::Load { got: text.to_owned() })
    }
}
