//! Tokens from a `tokenizer.json` on this machine.

use std::path::{Path, PathBuf};

use tokenizers::Tokenizer;

use super::files::{TemplateFiles, TokenFilesError};
use super::template::Template;
use crate::gateway::request::{Chat, Untokenized};

/// A model's tokenizer, with its chat template where one was found.
pub(super) struct Local {
    tokenizer: Tokenizer,
    path: PathBuf,
    template: Option<(Template, PathBuf)>,
}

impl Local {
    /// Opens the tokenizer at `path`, a `tokenizer.json` or the folder that holds one.
    pub(super) fn open(path: &Path, chat_template: Option<&Path>) -> Result<Self, TokenFilesError> {
        let path = if path.is_dir() { path.join("tokenizer.json") } else { path.to_owned() };
        let tokenizer = tokenizer(&path)?;
        let template = TemplateFiles::find(&path, chat_template)?.map(|(files, found)| compile(files, found)).transpose()?;
        Ok(Self { tokenizer, path, template })
    }

    /// What was opened, in words for whoever starts the gateway.
    pub(super) fn describe(&self) -> String {
        let tokenizer = format!("the tokenizer {} ({} tokens)", self.path.display(), self.tokenizer.get_vocab_size(true));
        match &self.template {
            Some((_, path)) => format!("{tokenizer} with the chat template of {}", path.display()),
            None => format!("{tokenizer}; no chat template was found beside it"),
        }
    }

    /// Whether chats can be rendered here. A template that comes with a request is a stranger's program, left to the engine.
    pub(super) fn renders(&self, chat: &Chat) -> bool {
        self.template.is_some() && chat.template.is_none()
    }

    /// The tokens of `text`.
    pub(super) fn text(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, Untokenized> {
        let encoding = self.tokenizer.encode_fast(text, add_special_tokens);
        encoding.map(|encoding| encoding.get_ids().to_vec()).map_err(|error| {
            tracing::debug!(%error, "the tokenizer refused a text");
            Untokenized::Tokenizer
        })
    }

    /// The tokens of `chat`'s prompt.
    pub(super) fn chat(&self, chat: &Chat) -> Result<Vec<u32>, Untokenized> {
        let (template, _) = self.template.as_ref().ok_or(Untokenized::NoTokenizer)?;
        let text = template.render(chat).map_err(|error| {
            tracing::debug!(%error, "the chat template refused a request");
            Untokenized::Template
        })?;
        self.text(&text, chat.add_special_tokens)
    }
}

fn tokenizer(path: &Path) -> Result<Tokenizer, TokenFilesError> {
    let bytes = std::fs::read(path).map_err(|source| TokenFilesError::Read { path: path.to_owned(), source })?;
    let refused = |reason: tokenizers::Error| TokenFilesError::Tokenizer { path: path.to_owned(), reason: reason.to_string() };
    let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(refused)?;
    // A file may carry the cuts and fillings of somebody's training; engines use neither.
    tokenizer.with_truncation(None).map_err(refused)?;
    tokenizer.with_padding(None);
    Ok(tokenizer)
}

fn compile(files: TemplateFiles, path: PathBuf) -> Result<(Template, PathBuf), TokenFilesError> {
    match Template::compile(files) {
        Ok(template) => Ok((template, path)),
        Err(error) => Err(TokenFilesError::Template { path, reason: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(file: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tiny_tokenizer").join(file)
    }

    #[test]
    fn a_folder_gives_tokens_of_texts_and_chats() {
        let local = Local::open(&data(""), None).unwrap();
        assert_eq!(local.text("w1 w2 w3", true).unwrap(), [1, 2, 3]);
        let chat: Chat = serde_json::from_str(r#"{"messages":[{"role":"user","content":"w4 w5"}]}"#).unwrap();
        assert!(local.renders(&chat));
        assert_eq!(local.chat(&chat).unwrap(), [4, 5]);
        assert!(local.describe().contains("tokenizer_config.json"), "{}", local.describe());
    }

    #[test]
    fn a_request_s_own_template_is_not_run_here() {
        let local = Local::open(&data("tokenizer.json"), None).unwrap();
        assert!(!local.renders(&serde_json::from_str(r#"{"messages":[],"chat_template":"x"}"#).unwrap()));
    }

    #[test]
    fn what_is_no_tokenizer_is_named() {
        let error = Local::open(&data("tokenizer_config.json"), None).err().unwrap().to_string();
        assert!(error.contains("tokenizer_config.json: expected a Hugging Face tokenizer"), "{error}");
        let error = Local::open(&data("absent.json"), None).err().unwrap().to_string();
        assert!(error.contains("absent.json: "), "{error}");
        let error = Local::open(&data(""), Some(&data("broken.jinja"))).err().unwrap().to_string();
        assert!(error.contains("broken.jinja: cannot compile the chat template"), "{error}");
    }
}
