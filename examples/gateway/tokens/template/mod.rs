//! Chat templates, rendered as the engines' Python renders them.
//!
//! Engines render through Hugging Face's transformers: Jinja with trimmed blocks, Python's string and dict methods, a
//! `tojson` that writes like `json.dumps(ensure_ascii=False)`, `raise_exception` and `strftime_now`. One different space
//! makes every following block another block, so all of that is matched here.

mod clock;
mod json;
mod messages;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Output, State, Value, escape_formatter};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde_json::value::RawValue;

use super::files::TemplateFiles;
use crate::gateway::request::Chat;

/// A model's chat template with its special tokens.
pub(crate) struct Template {
    environment: Environment<'static>,
    /// `bos_token` and so on, as the template sees them.
    special_tokens: Vec<(String, String)>,
    /// Text parts reach a template that does not loop over them as one text.
    loops_over_content: bool,
    has_tool_use: bool,
}

impl Template {
    /// Compiles the template.
    pub(super) fn compile(files: TemplateFiles) -> Result<Self, Error> {
        let mut environment = environment();
        let loops_over_content = messages::loops_over_content(&files.default);
        environment.add_template_owned(DEFAULT, files.default)?;
        let has_tool_use = files.tool_use.is_some();
        if let Some(source) = files.tool_use {
            environment.add_template_owned(TOOL_USE, source)?;
        }
        Ok(Self { environment, special_tokens: files.special_tokens, loops_over_content, has_tool_use })
    }

    /// The text that an engine tokenizes for `chat`.
    pub(super) fn render(&self, chat: &Chat) -> Result<String, Error> {
        let messages = messages::as_templates_see_them(value(&chat.messages)?, self.loops_over_content)?;
        let name = if chat.tools.is_some() && self.has_tool_use { TOOL_USE } else { DEFAULT };
        let text = self.environment.get_template(name)?.render(self.context(chat, messages.clone())?)?;
        if chat.continue_final_message { messages::cut_after_last(text, &messages) } else { Ok(text) }
    }

    fn context(&self, chat: &Chat, messages: Value) -> Result<Value, Error> {
        let special = self.special_tokens.iter().map(|(name, token)| (name.clone(), Value::from(token)));
        let mut fields: Vec<(String, Value)> = special.collect();
        let generates = chat.add_generation_prompt && !chat.continue_final_message;
        fields.push(("messages".to_owned(), messages));
        fields.push(("add_generation_prompt".to_owned(), generates.into()));
        // Absent lists are None to a template, not undefined.
        fields.push(("tools".to_owned(), chat.tools.as_deref().map(value).transpose()?.into()));
        fields.push(("documents".to_owned(), chat.documents.as_deref().map(value).transpose()?.into()));
        if let Some(arguments) = chat.template_arguments.as_deref().map(value).transpose()? {
            for name in arguments.try_iter()? {
                fields.push((name.to_string(), arguments.get_item(&name)?));
            }
        }
        Ok(Value::from_pairs(fields))
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the delimiters are the default ones"));
    environment.set_unknown_method_callback(unknown_method_callback);
    environment.set_formatter(print_as_python);
    environment.add_filter("tojson", json::to_json);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", clock::strftime_now);
    environment
}

/// Python's words where they differ from Jinja's in Rust.
fn print_as_python(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match (value.kind(), value.is_true()) {
        (ValueKind::None, _) => out.write_str("None")?,
        (ValueKind::Bool, true) => out.write_str("True")?,
        (ValueKind::Bool, false) => out.write_str("False")?,
        _ => escape_formatter(out, state, value)?,
    }
    Ok(())
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

fn value(json: &RawValue) -> Result<Value, Error> {
    let bad = |error: serde_json::Error| Error::new(ErrorKind::BadSerialization, error.to_string());
    serde_json::from_str(json.get()).map_err(bad)
}

const DEFAULT: &str = "chat_template";
const TOOL_USE: &str = "tool_use";

#[cfg(test)]
mod tests;
