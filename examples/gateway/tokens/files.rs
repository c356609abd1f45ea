//! A model's tokenizer files, as Hugging Face lays them out.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use thiserror::Error;

/// What of a model's folder rendering needs.
#[derive(Debug, Default)]
pub(super) struct TemplateFiles {
    /// The template.
    pub(super) default: String,
    /// The template for requests with tools, where the model has one of its own.
    pub(super) tool_use: Option<String>,
    /// `bos_token` and so on.
    pub(super) special_tokens: Vec<(String, String)>,
}

/// Why a tokenizer or a template cannot be used.
#[derive(Debug, Error)]
pub enum TokenFilesError {
    /// A file that cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file that is not JSON.
    #[error("{}: expected JSON: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A tokenizer that the library does not take.
    #[error("{}: expected a Hugging Face tokenizer (tokenizer.json): {reason}", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// The library's reason.
        reason: String,
    },
    /// A template that is no Jinja.
    #[error("{}: cannot compile the chat template: {reason}", path.display())]
    Template {
        /// The file.
        path: PathBuf,
        /// Line and reason.
        reason: String,
    },
}

impl TemplateFiles {
    /// Finds the chat template of the tokenizer at `tokenizer`: the file `named`, else `chat_template.jinja` beside the
    /// tokenizer, else the one inside `tokenizer_config.json`. Returns where it was found as well; nothing where there is none.
    pub(super) fn find(tokenizer: &Path, named: Option<&Path>) -> Result<Option<(Self, PathBuf)>, TokenFilesError> {
        let folder = tokenizer.parent().unwrap_or(Path::new("."));
        let config_path = folder.join("tokenizer_config.json");
        let config = if config_path.exists() { json(&config_path)? } else { Json::Null };
        let special_tokens = special_tokens(&config);
        let beside = Some(folder.join("chat_template.jinja")).filter(|path| path.exists());
        if let Some(path) = named.map(Path::to_owned).or(beside) {
            let files = Self { default: read(&path)?, tool_use: None, special_tokens };
            return Ok(Some((files, path)));
        }
        let of_config = |default| (Self { default, tool_use: named_template(&config, "tool_use"), special_tokens }, config_path);
        Ok(named_template(&config, "default").map(of_config))
    }
}

/// The template `name` of a `tokenizer_config.json`, whose `chat_template` is a text or a list of named ones.
fn named_template(config: &Json, name: &str) -> Option<String> {
    match &config["chat_template"] {
        Json::String(source) => (name == "default").then(|| source.clone()),
        Json::Array(named) => named.iter().find(|entry| entry["name"] == name)?["template"].as_str().map(str::to_owned),
        _ => None,
    }
}

/// Every `*_token` of the configuration: a text, or an object with its text as `content`.
fn special_tokens(config: &Json) -> Vec<(String, String)> {
    let fields = config.as_object().into_iter().flatten();
    let tokens = fields.filter(|(name, _)| name.ends_with("_token"));
    tokens.filter_map(|(name, token)| Some((name.clone(), token.as_str().or(token["content"].as_str())?.to_owned()))).collect()
}

fn json(path: &Path) -> Result<Json, TokenFilesError> {
    serde_json::from_str(&read(path)?).map_err(|source| TokenFilesError::Json { path: path.to_owned(), source })
}

fn read(path: &Path) -> Result<String, TokenFilesError> {
    fs::read_to_string(path).map_err(|source| TokenFilesError::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn special_tokens_are_texts_or_objects() {
        let config = json!({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "add_bos_token": true,
            "pad_token": null});
        let mut tokens = special_tokens(&config);
        tokens.sort();
        assert_eq!(tokens, [("bos_token".to_owned(), "<s>".to_owned()), ("eos_token".to_owned(), "</s>".to_owned())]);
    }

    #[test]
    fn a_configuration_may_name_several_templates() {
        let config = json!({"chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]});
        assert_eq!(named_template(&config, "default").as_deref(), Some("a"));
        assert_eq!(named_template(&config, "tool_use").as_deref(), Some("b"));
        assert_eq!(named_template(&json!({"chat_template": "c"}), "tool_use"), None);
    }
}
