//! Renderings whose text is known: by the cases that an engine's own renderer made, and by Jinja's rules.

use serde_json::{Value as Json, json};

use super::*;

fn template(source: &str) -> Template {
    Template::compile(TemplateFiles { default: source.to_owned(), ..TemplateFiles::default() }).unwrap()
}

fn render(source: &str, request: &Json) -> String {
    let chat: Chat = serde_json::from_value(request.clone()).unwrap();
    template(source).render(&chat).unwrap()
}

/// The pieces of a Qwen3 prompt that do not come from its messages.
const QWEN3_PIECES: [(u64, &str); 9] = [
    (151_644, "<|im_start|>"),
    (151_645, "<|im_end|>"),
    (151_667, "<think>"),
    (151_668, "</think>"),
    (872, "user"),
    (8948, "system"),
    (77091, "assistant"),
    (198, "\n"),
    (271, "\n\n"),
];

/// The text of `ids` with `*` for every run of tokens that belong to a message.
fn outline_of_ids(ids: &[Json]) -> String {
    let mut text = String::new();
    for id in ids {
        let piece = QWEN3_PIECES.iter().find(|(known, _)| id.as_u64() == Some(*known));
        match piece {
            Some((_, piece)) => text.push_str(piece),
            None if text.ends_with('*') => {}
            None => text.push('*'),
        }
    }
    text
}

#[test]
fn rendered_chats_have_the_outline_of_a_qwen3_engine_s_prompts() {
    let cases: Json = serde_json::from_str(include_str!("../../../tests/data/sglang_chat_render_qwen3_8b.json")).unwrap();
    let chatml = include_str!("../../../templates/chatml.jinja");
    for case in cases["cases"].as_array().unwrap() {
        let request = &case["request"];
        let mut rendered = render(chatml, request);
        for message in request["messages"].as_array().unwrap() {
            rendered = rendered.replacen(message["content"].as_str().unwrap(), "*", 1);
        }
        assert_eq!(rendered, outline_of_ids(case["expected_token_ids"].as_array().unwrap()), "{}", case["shape"]);
    }
}

#[test]
fn tools_are_printed_as_python_prints_them_and_in_the_client_s_order() {
    let chat: Chat = serde_json::from_str(
        r#"{"messages": [], "tools": [{"type":"function","function":{"name":"f","description":"é<b>","parameters":{"z":1,"a":[1,2.5,null,true]}}}]}"#,
    )
    .unwrap();
    let line = template("{% for t in tools %}{{ t | tojson }}{% endfor %}").render(&chat).unwrap();
    let expected = r#"{"type": "function", "function": {"name": "f", "description": "é<b>", "parameters": {"z": 1, "a": [1, 2.5, null, true]}}}"#;
    assert_eq!(line, expected);
    let pretty = template("{{ tools[0].function.parameters | tojson(indent=2) }}").render(&chat).unwrap();
    assert_eq!(pretty, "{\n  \"z\": 1,\n  \"a\": [\n    1,\n    2.5,\n    null,\n    true\n  ]\n}");
}

#[test]
fn text_parts_become_lines_unless_the_template_loops_over_them() {
    let request =
        json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]});
    assert_eq!(render("{{ messages[0].content }}", &request), "a\nb");
    let looping = "{% for message in messages %}{% for part in message.content %}[{{ part.text }}]{% endfor %}{% endfor %}";
    assert_eq!(render(looping, &request), "[a][b]");
}

#[test]
fn arguments_of_tool_calls_are_objects_to_a_template() {
    let call = json!({"type": "function", "function": {"name": "f", "arguments": "{\"b\": 1, \"a\": 2}"}});
    let request = json!({"messages": [{"role": "assistant", "content": null, "tool_calls": [call]}]});
    assert_eq!(render("{{ messages[0].tool_calls[0].function.arguments | tojson }}", &request), r#"{"b": 1, "a": 2}"#);
}

#[test]
fn blocks_are_trimmed_and_python_s_methods_are_there() {
    let source = "  {% if messages %}\n{{ messages[0].content.strip().split('</think>')[-1].lstrip('\\n') }}\n  {% endif %}\nend";
    let request = json!({"messages": [{"role": "assistant", "content": " x</think>\n\nAnswer "}]});
    assert_eq!(render(source, &request), "Answer\nend");
}

#[test]
fn a_final_message_can_be_continued() {
    let chatml = include_str!("../../../templates/chatml.jinja");
    let messages = json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": "So far "}]);
    let text = render(chatml, &json!({"messages": messages, "continue_final_message": true, "add_generation_prompt": false}));
    assert_eq!(text, "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nSo far");
}

#[test]
fn special_tokens_and_arguments_reach_the_template() {
    let files = TemplateFiles {
        default: "{{ bos_token }}{{ mode }}{{ tools is none }}".to_owned(),
        special_tokens: vec![("bos_token".to_owned(), "<s>".to_owned())],
        ..TemplateFiles::default()
    };
    let chat = serde_json::from_str(r#"{"messages": [], "chat_template_kwargs": {"mode": "fast"}}"#).unwrap();
    assert_eq!(Template::compile(files).unwrap().render(&chat).unwrap(), "<s>fastTrue");
}

#[test]
fn a_template_that_refuses_is_an_error() {
    let chat = serde_json::from_str(r#"{"messages": []}"#).unwrap();
    let error = template("{{ raise_exception('roles must alternate') }}").render(&chat).unwrap_err();
    assert!(error.to_string().contains("roles must alternate"));
    assert!(template("x").render(&serde_json::from_str(r#"{"messages": "hi"}"#).unwrap()).is_err());
}
