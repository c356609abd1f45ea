//! From a prompt to its tokens: the request's own, a tokenizer on this machine, or the engine's, in that order.

mod files;
mod local;
mod remote;
mod template;

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use reqwest::Client;
use tokio::task::spawn_blocking;

pub use self::files::TokenFilesError;
use self::local::Local;
use super::fleet::Server;
use super::request::{Chat, Inbound, Prompt, Untokenized};

/// Where the gateway takes tokens from.
pub(crate) struct Tokens {
    local: Option<Arc<Local>>,
    client: Client,
}

impl Tokens {
    /// Opens the tokenizer, if one is named; `client` asks the engines.
    pub(crate) fn open(tokenizer: Option<&Path>, chat_template: Option<&Path>, client: Client) -> Result<Self, TokenFilesError> {
        let local = tokenizer.map(|path| Local::open(path, chat_template)).transpose()?.map(Arc::new);
        Ok(Self { local, client })
    }

    /// What is used, in words for whoever starts the gateway.
    pub(crate) fn describe(&self) -> String {
        let local = self.local.as_ref().map(|local| format!(", else {}", local.describe())).unwrap_or_default();
        format!("the request's token ids{local}, else the engine's /tokenize")
    }

    /// The tokens of `inbound`'s prompt, or why there are none.
    pub(crate) async fn of<'a>(&self, inbound: &'a Inbound, servers: &[Server]) -> Result<Cow<'a, [u32]>, Untokenized> {
        let ids = match &inbound.prompt {
            Prompt::Ids(ids) => return Ok(Cow::Borrowed(ids)),
            Prompt::Opaque(reason) => return Err(*reason),
            Prompt::Text { text, add_special_tokens } => match &self.local {
                Some(local) => {
                    let (local, text, special) = (local.clone(), text.clone(), *add_special_tokens);
                    blocking(move || local.text(&text, special)).await
                }
                None => remote::text(&self.client, servers, &inbound.model, text, *add_special_tokens).await,
            },
            Prompt::Chat(chat) => self.chat(chat, &inbound.model, servers).await,
        };
        ids.map(Cow::Owned)
    }

    async fn chat(&self, chat: &Arc<Chat>, model: &str, servers: &[Server]) -> Result<Vec<u32>, Untokenized> {
        if chat.is_multimodal() {
            return Err(Untokenized::Multimodal);
        }
        match self.local.as_ref().filter(|local| local.renders(chat)) {
            Some(local) => {
                let (local, chat) = (local.clone(), chat.clone());
                blocking(move || local.chat(&chat)).await
            }
            None => remote::chat(&self.client, servers, model, chat).await,
        }
    }
}

/// Runs `tokenize` where it may take its time: a long prompt takes tens of milliseconds.
async fn blocking<F>(tokenize: F) -> Result<Vec<u32>, Untokenized>
where
    F: FnOnce() -> Result<Vec<u32>, Untokenized> + Send + 'static,
{
    // It fails only when the tokenizer panics.
    spawn_blocking(tokenize).await.unwrap_or(Err(Untokenized::Tokenizer))
}
