//! Prometheus' text format, as far as gauges and counters need it.

/// One sample line: `name{label="value",...} 1.5`, perhaps with a time behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    labels: &'a str,
    /// The value's text: most lines are of no interest, and numbers are costly to read.
    value: &'a str,
}

/// The lines of `body` that are samples. What is none, comments included, is left out.
pub(super) fn lines(body: &[u8]) -> impl Iterator<Item = Line<'_>> {
    body.split(|&byte| byte == b'\n').filter_map(|line| Line::read(std::str::from_utf8(line).ok()?.trim()))
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let ends = line.find(|char: char| char == '{' || char.is_whitespace())?;
        let (name, rest) = line.split_at(ends);
        if name.is_empty() || name.starts_with('#') {
            return None;
        }
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => rest.split_at_checked(closing_brace(rest)?).map(|(labels, rest)| (labels, &rest[1..]))?,
            None => ("", rest),
        };
        Some(Self { name, labels, value: rest.split_whitespace().next()? })
    }

    pub(super) fn value(&self) -> Option<f64> {
        self.value.parse().ok()
    }

    /// The label's value as it is written, escapes and all.
    pub(super) fn label(&self, key: &str) -> Option<&'a str> {
        let mut rest = self.labels;
        loop {
            let (name, quoted) = rest.split_once('=')?;
            let quoted = quoted.trim_start().strip_prefix('"')?;
            let end = closing_quote(quoted)?;
            if name.trim_start_matches([',', ' ']).trim_end() == key {
                return Some(&quoted[..end]);
            }
            rest = &quoted[end + 1..];
        }
    }
}

/// Where the labels end: at a brace outside of quotes.
fn closing_brace(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let next = from + text[from..].find(['}', '"'])?;
        if text.as_bytes()[next] == b'}' {
            return Some(next);
        }
        from = next + 1 + closing_quote(&text[next + 1..])? + 1;
    }
}

/// Where a quoted text ends: at a quote without a backslash.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Line<'_> {
        Line::read(line).unwrap()
    }

    #[test]
    fn names_labels_and_values() {
        let line = read(r#"vllm:n{model_name="a}b \"c\" , x",engine="1"} 3.5e2 1712345"#);
        assert_eq!((line.name, line.label("engine"), line.value()), ("vllm:n", Some("1"), Some(350.0)));
        assert_eq!((line.label("model_name"), line.label("name")), (Some(r#"a}b \"c\" , x"#), None));
        let bare = read("up 1");
        assert_eq!((bare.name, bare.label("engine"), bare.value()), ("up", None, Some(1.0)));
        assert_eq!(read("a{} NaN").value().map(f64::is_nan), Some(true));
        assert_eq!((read("a{b=\"\"} +Inf").value(), read("a x").value()), (Some(f64::INFINITY), None));
        assert_eq!(read(r#"a{ b = "1" , c="2" } 1"#).label("c"), Some("2"));
    }

    #[test]
    fn what_is_no_sample_is_none() {
        for line in ["", "# TYPE a gauge", "a", "a{", "a{b=\"}", "a{b=\"\\\"} 1", "{} 1", "a{b=\"c\"}"] {
            assert_eq!(Line::read(line), None, "{line}");
        }
        let body = b"# HELP a b\na 1\n\xff\xfe 2\r\nb{c=\"\xc3\xa9}\"} 2\r\n";
        assert_eq!(lines(body).map(|line| line.name).collect::<Vec<_>>(), ["a", "b"]);
    }
}
