//! `tojson` as transformers has it: Python's `json.dumps(value, ensure_ascii=False, indent=...)`.

use std::io;

use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, Value};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// The filter. Unlike Jinja's own it escapes nothing for HTML.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
pub(super) fn to_json(value: &Value, kwargs: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = kwargs.get("indent")?;
    // transformers accepts it, and no template that is in use gives anything but false.
    let _ascii: Option<bool> = kwargs.get("ensure_ascii")?;
    kwargs.assert_all_used()?;
    let text = match indent {
        None => write(value, Spaced),
        Some(width) => write(value, PrettyFormatter::with_indent(" ".repeat(width).as_bytes())),
    };
    text.map(Value::from_safe_string).map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

fn write(value: &Value, formatter: impl Formatter) -> serde_json::Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, formatter))?;
    Ok(String::from_utf8(text).expect("the serializer writes UTF-8"))
}

/// Python's default separators: `", "` and `": "`.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
