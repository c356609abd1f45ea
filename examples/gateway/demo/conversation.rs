//! Chats as the demonstration has them: many users under a few long system prompts.

use serde_json::{Value, json};

use crate::mock_engine::SplitMix64;

/// One user's chat, which grows turn by turn.
#[derive(Debug)]
pub(super) struct Conversation {
    words: SplitMix64,
    messages: Vec<Value>,
}

impl Conversation {
    /// The chat of user `number`: under one of [`SYSTEM_PROMPTS`] system prompts.
    pub(super) fn of_user(number: u64) -> Self {
        let shared = number % SYSTEM_PROMPTS;
        let system = text(&mut SplitMix64::new(shared), SYSTEM_WORDS);
        // Users and system prompts draw from different streams.
        let words = SplitMix64::new(SYSTEM_PROMPTS + number);
        Self { words, messages: vec![json!({"role": "system", "content": system})] }
    }

    /// The request for the next answer, with a new question at its end.
    pub(super) fn ask(&mut self, model: &str) -> Value {
        let question = text(&mut self.words, QUESTION_WORDS);
        self.messages.push(json!({"role": "user", "content": question}));
        json!({"model": model, "messages": self.messages, "max_tokens": ANSWER_TOKENS})
    }

    /// Takes the answer into the chat; whether there was one.
    pub(super) fn hear(&mut self, answer: &Value) -> bool {
        let message = &answer["choices"][0]["message"];
        let heard = message["content"].is_string();
        if heard {
            self.messages.push(message.clone());
        }
        heard
    }
}

fn text(random: &mut SplitMix64, words: usize) -> String {
    let word = |_| format!("w{}", random.next_u64() % VOCABULARY);
    (0..words).map(word).collect::<Vec<_>>().join(" ")
}

/// System prompts that the users share: more than there are engines, so that every engine gets some.
const SYSTEM_PROMPTS: u64 = 8;
const SYSTEM_WORDS: usize = 1200;
const QUESTION_WORDS: usize = 60;
const ANSWER_TOKENS: usize = 24;
const VOCABULARY: u64 = 50_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_begins_with_the_turns_before_it() {
        let mut chat = Conversation::of_user(3);
        let first = chat.ask("m");
        assert!(chat.hear(&json!({"choices": [{"message": {"role": "assistant", "content": "yes"}}]})));
        assert!(!chat.hear(&json!({"error": {}})));
        let second = chat.ask("m");
        let messages = |request: &Value| request["messages"].as_array().unwrap().clone();
        assert_eq!(messages(&second)[..2], messages(&first)[..]);
        assert_eq!(messages(&second).len(), 4);
    }

    #[test]
    fn users_share_system_prompts_and_nothing_else() {
        let ask = |number| Conversation::of_user(number).ask("m")["messages"].as_array().unwrap().clone();
        let (one, other, same) = (ask(1), ask(2), ask(1 + SYSTEM_PROMPTS));
        assert_eq!(one[0], same[0]);
        assert_ne!(one[0], other[0]);
        assert_ne!(one[1], same[1]);
    }
}
