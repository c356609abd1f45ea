//! Messages as engines hand them to a template.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

/// Whether a template walks through the parts of a message's content itself.
pub(super) fn loops_over_content(source: &str) -> bool {
    let dense: String = source.split_whitespace().collect::<Vec<_>>().join(" ");
    CONTENT_LOOPS.iter().any(|text| dense.contains(text))
}

/// What vLLM and SGLang change before they render: lists of text parts become one text, unless the template loops over
/// them, and the arguments of tool calls, which clients send as text, become what they say.
pub(super) fn as_templates_see_them(messages: Value, loops_over_content: bool) -> Result<Value, Error> {
    if messages.kind() != ValueKind::Seq {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("expected a list of messages, got a {}", messages.kind())));
    }
    let change = |key: &str, field: Value| match key {
        "content" if !loops_over_content => joined_text(field),
        "tool_calls" => {
            each(field, |call| fields(call, &|key, field| if key == "function" { function(field) } else { Ok(field) }))
        }
        _ => Ok(field),
    };
    each(messages, |message| fields(message, &change))
}

/// `text` up to the end of the last message's content: where an engine that continues that message begins.
pub(super) fn cut_after_last(mut text: String, messages: &Value) -> Result<String, Error> {
    let last = messages.len().and_then(|len| len.checked_sub(1)).map(|index| messages.get_item_by_index(index)).transpose()?;
    let content = last.map(|message| message.get_attr("content")).transpose()?.unwrap_or_default();
    let content = content.as_str().map(str::trim).unwrap_or_default();
    let absent = || Error::new(ErrorKind::InvalidOperation, "the template drops the message that is to be continued");
    let end = text.rfind(content).ok_or_else(absent)? + content.len();
    text.truncate(end);
    Ok(text)
}

/// The text parts of a content, a line each; anything else as it is.
fn joined_text(content: Value) -> Result<Value, Error> {
    if content.kind() != ValueKind::Seq {
        return Ok(content);
    }
    let mut lines = Vec::new();
    for part in content.try_iter()? {
        let text = if part.kind() == ValueKind::String { part } else { part.get_attr("text")? };
        lines.push(text.as_str().unwrap_or_default().to_owned());
    }
    Ok(lines.join("\n").into())
}

fn function(function: Value) -> Result<Value, Error> {
    fields(function, &|key, field| match field.as_str().filter(|_| key == "arguments") {
        Some(text) => Ok(serde_json::from_str(text).unwrap_or(field)),
        None => Ok(field),
    })
}

/// A list with every element changed; anything else as it is.
fn each(list: Value, change: impl Fn(Value) -> Result<Value, Error>) -> Result<Value, Error> {
    if list.kind() != ValueKind::Seq {
        return Ok(list);
    }
    list.try_iter()?.map(change).collect::<Result<Vec<_>, _>>().map(Value::from)
}

/// A map with its fields changed, in their order; anything else as it is.
fn fields(map: Value, change: &dyn Fn(&str, Value) -> Result<Value, Error>) -> Result<Value, Error> {
    if map.kind() != ValueKind::Map {
        return Ok(map);
    }
    let field = |key: Value| Ok((key.clone(), change(key.as_str().unwrap_or_default(), map.get_item(&key)?)?));
    map.try_iter()?.map(field).collect::<Result<Vec<(Value, Value)>, Error>>().map(Value::from_pairs)
}

/// How the templates in use begin a loop over the parts of a message.
const CONTENT_LOOPS: [&str; 5] =
    ["in message.content", "in message['content']", "in message[\"content\"]", "in content", "in msg.content"];
