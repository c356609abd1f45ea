//! Requests that make a prefix cache work: shared prefixes, branches, repeats, continued answers, more than a small pool holds.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::mock_engine::SplitMix64;

/// What the prompts are like.
#[derive(Args, Clone, Debug)]
pub struct PromptOptions {
    /// Equal seeds send equal prompts to an engine that gives equal answers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Longest prompt, in tokens.
    #[arg(long, default_value_t = 320, value_parser = clap::value_parser!(u32).range(16..))]
    pub prompt_max: u32,
    /// Longest answer, in tokens; most are of one token.
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(1..))]
    pub output_max: u32,
    /// Token ids lie below this.
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(2..))]
    pub vocabulary: u32,
    /// Half of the requests carry one of this many cache salts.
    #[arg(long, default_value_t = 0)]
    pub salts: u32,
    /// Half of the requests go to one of these served LoRA adapters.
    #[arg(long, value_delimiter = ',')]
    pub adapters: Vec<String>,
}

/// How a prompt relates to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Shares nothing.
    Fresh,
    /// The same again: fully cached but for its last token.
    Repeat,
    /// A shared prefix, then other tokens.
    Branch,
    /// Only a prefix.
    Shorter,
    /// A prompt, its answer, and more: blocks filled by decoding are found again.
    Continued,
}

impl Shape {
    /// The shape's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Repeat => "repeat",
            Self::Branch => "branch",
            Self::Shorter => "shorter",
            Self::Continued => "continued",
        }
    }
}

/// One request to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Counts the requests from 0.
    pub number: u64,
    /// How its prompt came about.
    pub shape: Shape,
    /// The prompt: never empty.
    pub prompt: Vec<u32>,
    /// How many tokens to ask for, at least 1.
    pub max_tokens: u32,
    /// The cache salt.
    pub salt: Option<String>,
    /// The LoRA adapter's served name.
    pub adapter: Option<String>,
    /// The data-parallel rank, where there are several.
    pub rank: Option<u32>,
}

impl Plan {
    /// A name for people: number and shape.
    pub fn name(&self) -> String {
        format!("{}-{}", self.number, self.shape.name())
    }

    /// The body's fields besides model, prompt and length: an answer of full length, with its token ids.
    pub fn extra(&self) -> Map<String, Value> {
        let mut extra = Map::new();
        extra.insert("temperature".to_owned(), json!(0));
        extra.insert("ignore_eos".to_owned(), json!(true));
        extra.insert("return_token_ids".to_owned(), json!(true));
        if let Some(salt) = &self.salt {
            extra.insert("cache_salt".to_owned(), json!(salt));
        }
        extra
    }

    /// The body of `POST /v1/completions`, for the adapter or else `model`.
    pub fn body(&self, model: &str, extra: Map<String, Value>) -> Map<String, Value> {
        let mut body = extra;
        body.insert("model".to_owned(), json!(self.adapter.as_deref().unwrap_or(model)));
        body.insert("prompt".to_owned(), json!(self.prompt));
        body.insert("max_tokens".to_owned(), json!(self.max_tokens));
        body
    }
}

/// Plans requests from a seed and from what was answered.
#[derive(Debug)]
pub struct PromptGenerator {
    options: PromptOptions,
    ranks: u32,
    planned: u64,
    random: SplitMix64,
    /// Prompts, with their answers where known, the latest last.
    known: Vec<Vec<u32>>,
}

impl PromptGenerator {
    /// For an engine of `ranks` data-parallel ranks; with one, the plans name none.
    pub fn new(options: PromptOptions, ranks: u32) -> Self {
        let random = SplitMix64::new(options.seed);
        Self { options, ranks, planned: 0, random, known: Vec::new() }
    }

    /// The next request.
    pub fn plan(&mut self) -> Plan {
        let (shape, prompt) = self.prompt();
        let plan = Plan {
            number: self.planned,
            shape,
            prompt,
            max_tokens: self.max_tokens(),
            salt: self.half(self.options.salts).map(|salt| format!("tenant-{salt}")),
            adapter: self.adapter(),
            rank: (self.ranks > 1).then(|| self.below(self.ranks)),
        };
        self.planned += 1;
        self.remember(plan.prompt.clone());
        plan
    }

    /// Keeps a prompt with its answer, to be continued.
    pub fn learn(&mut self, prompt: &[u32], output: &[u32]) {
        self.remember([prompt, output].concat());
    }

    fn remember(&mut self, tokens: Vec<u32>) {
        if self.known.len() == KNOWN_MAX {
            self.known.remove(0);
        }
        self.known.push(tokens);
    }

    fn prompt(&mut self) -> (Shape, Vec<u32>) {
        if self.known.is_empty() {
            return (Shape::Fresh, self.tokens());
        }
        let mut known = self.any_known();
        let shape = match self.below(100) {
            0..15 => return (Shape::Fresh, self.tokens()),
            15..30 => Shape::Repeat,
            30..60 => Shape::Branch,
            60..75 => Shape::Shorter,
            _ => Shape::Continued,
        };
        if matches!(shape, Shape::Branch | Shape::Shorter) {
            known.truncate(self.cut(known.len()));
        }
        if matches!(shape, Shape::Branch | Shape::Continued) {
            known.extend(self.tokens());
        }
        known.truncate(self.options.prompt_max as usize);
        (shape, known)
    }

    /// One of the prompts known, the later ones more often: they are more likely to be cached still.
    fn any_known(&mut self) -> Vec<u32> {
        let len = u32::try_from(self.known.len()).expect("few are known");
        let (a, b) = (self.below(len), self.below(len));
        self.known[a.max(b) as usize].clone()
    }

    /// New tokens, up to a third of the longest prompt.
    fn tokens(&mut self) -> Vec<u32> {
        let len = 1 + self.below(self.options.prompt_max.div_ceil(3));
        (0..len).map(|_| self.below(self.options.vocabulary)).collect()
    }

    /// A length to cut a prompt to; every other time at a block's boundary, where off-by-one errors live.
    fn cut(&mut self, len: usize) -> usize {
        let at = 1 + self.below(u32::try_from(len).unwrap_or(u32::MAX)) as usize;
        if self.below(2) == 0 { at.next_multiple_of(BOUNDARY).min(len) } else { at }
    }

    fn max_tokens(&mut self) -> u32 {
        match self.below(10) {
            0..6 => 1,
            6..8 => 1 + self.below(self.options.output_max.min(8)),
            _ => 1 + self.below(self.options.output_max),
        }
    }

    fn adapter(&mut self) -> Option<String> {
        let adapters = u32::try_from(self.options.adapters.len()).expect("a command line is short");
        self.half(adapters).map(|adapter| self.options.adapters[adapter as usize].clone())
    }

    fn below(&mut self, n: u32) -> u32 {
        u32::try_from(self.random.below(n.into())).expect("less than n")
    }

    /// One of `n`, or none, half of the time each.
    fn half(&mut self, n: u32) -> Option<u32> {
        (n > 0 && self.below(2) == 0).then(|| self.below(n))
    }
}

/// Prompts to build on. More than small pools hold, so that some are found evicted.
const KNOWN_MAX: usize = 48;

/// Engines' block sizes are multiples or divisors of this.
const BOUNDARY: usize = 32;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: PromptOptions,
    }

    fn generator(arguments: &[&str], ranks: u32) -> PromptGenerator {
        let line = [&["prompts"], arguments].concat();
        PromptGenerator::new(Line::try_parse_from(line).unwrap().options, ranks)
    }

    fn plans(count: usize, arguments: &[&str], ranks: u32) -> Vec<Plan> {
        let mut generator = generator(arguments, ranks);
        let answered = |_| {
            let plan = generator.plan();
            generator.learn(&plan.prompt, &vec![7; plan.max_tokens as usize]);
            plan
        };
        (0..count).map(answered).collect()
    }

    #[test]
    fn a_seed_makes_the_same_requests_and_another_others() {
        assert_eq!(plans(50, &[], 1), plans(50, &[], 1));
        assert_ne!(plans(50, &[], 1), plans(50, &["--seed", "2"], 1));
    }

    #[test]
    fn requests_stay_within_their_bounds_and_take_every_shape() {
        let plans = plans(400, &["--prompt-max", "100", "--output-max", "9", "--vocabulary", "50"], 1);
        assert!(plans.iter().all(|plan| (1..=100).contains(&plan.prompt.len()) && (1..=9).contains(&plan.max_tokens)));
        assert!(plans.iter().flat_map(|plan| &plan.prompt).all(|token| *token < 50));
        for shape in [Shape::Fresh, Shape::Repeat, Shape::Branch, Shape::Shorter, Shape::Continued] {
            assert!(plans.iter().filter(|plan| plan.shape == shape).count() > 20, "{shape:?}");
        }
        assert!(plans.iter().all(|plan| plan.salt.is_none() && plan.adapter.is_none() && plan.rank.is_none()));
    }

    #[test]
    fn an_answer_is_continued() {
        let mut generator = generator(&[], 1);
        let first = generator.plan();
        let answered = [&first.prompt[..], &[5000, 5001]].concat();
        generator.learn(&first.prompt, &[5000, 5001]);
        let continued = (0..200).any(|_| generator.plan().prompt.starts_with(&answered));
        assert!(continued, "no request continued the first one's answer");
    }

    #[test]
    fn salts_adapters_and_ranks_are_used_when_there_are_any() {
        let plans = plans(200, &["--salts", "2", "--adapters", "ad1,ad2"], 3);
        let salted = plans.iter().filter(|plan| plan.salt.is_some()).count();
        let adapted = plans.iter().filter(|plan| plan.adapter.is_some()).count();
        assert!((60..140).contains(&salted) && (60..140).contains(&adapted), "{salted} {adapted}");
        for rank in 0..3 {
            assert!(plans.iter().any(|plan| plan.rank == Some(rank)));
        }
    }
}
