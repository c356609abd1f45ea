//! A client's side of completions: requests that make a prefix cache work, and what the answers say of it.

mod evidence;
mod prompts;

pub use evidence::{Evidence, token_ids};
pub use prompts::{Plan, PromptGenerator, PromptOptions, Shape};
