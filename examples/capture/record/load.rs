//! Requests that make a cache work: shared prefixes, branches, repeats, continued answers, more than a small pool holds.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::mock_engine::SplitMix64;

use super::engine::{Engine, EngineKind, Evidence};
use super::journal::{Inference, Journal, Line, NO_ANSWER, RequestLine};

/// The built-in load.
#[derive(Args, Clone, Debug)]
pub struct LoadOptions {
    /// Send this many requests.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub load: u64,
    /// Requests at the same time. With more than one, only some order of their starts explains the answers.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub concurrency: u16,
    /// Pause after each answer and each clear, so that its events come before the next request.
    #[arg(long, default_value_t = 50)]
    pub pause_ms: u64,
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
    /// Empty the cache before every so many requests.
    #[arg(long, value_name = "N")]
    pub clear_every: Option<u64>,
}

/// Sends the load to `engine` and records every request.
pub(super) async fn send(options: &LoadOptions, ranks: u32, engine: Arc<Engine>, journal: &Journal) {
    let generator = Generator::new(options.clone(), ranks);
    let shared =
        Arc::new(Shared { generator: Mutex::new(generator), engine, journal: journal.clone(), progress: bar(options.load) });
    let mut clients = JoinSet::new();
    for _ in 0..options.concurrency {
        let (shared, options) = (shared.clone(), options.clone());
        clients.spawn(async move { client(&shared, &options).await });
    }
    clients.join_all().await;
    shared.progress.finish_and_clear();
}

struct Shared {
    generator: Mutex<Generator>,
    engine: Arc<Engine>,
    journal: Journal,
    progress: ProgressBar,
}

async fn client(shared: &Shared, options: &LoadOptions) {
    let pause = Duration::from_millis(options.pause_ms);
    loop {
        let Some(plan) = shared.generator.lock().next() else { return };
        if options.clear_every.is_some_and(|every| plan.number > 0 && plan.number.is_multiple_of(every)) {
            clear(shared).await;
            sleep(pause).await;
        }
        let line = complete(shared, &plan).await;
        if let Some(output) = line.inference.as_ref().and_then(|inference| inference.output_token_ids.as_ref()) {
            shared.generator.lock().learn(&plan.prompt, output);
        }
        shared.progress.inc(1);
        shared.journal.add(Line::Request(Box::new(line))).await;
        sleep(pause).await;
    }
}

async fn clear(shared: &Shared) {
    let (path, t_start) = (shared.engine.kind.clear_path(), shared.journal.now());
    let answer = shared.engine.client.post(shared.engine.url(path)).send().await;
    let status = answer.map_or(NO_ANSWER, |answer| answer.status().as_u16());
    let (name, path, t) = ("clear".to_owned(), Some(path.to_owned()), shared.journal.now());
    shared.journal.add(Line::Request(Box::new(RequestLine { name, path, t_start, t, status, inference: None }))).await;
}

async fn complete(shared: &Shared, plan: &Plan) -> RequestLine {
    let (engine, journal) = (&shared.engine, &shared.journal);
    let extra = plan.extra(engine.kind);
    let model = plan.adapter.clone().unwrap_or_else(|| engine.model.clone());
    let mut body = extra.clone();
    body.insert("model".to_owned(), json!(model));
    body.insert("prompt".to_owned(), json!(plan.prompt));
    body.insert("max_tokens".to_owned(), json!(plan.max_tokens));
    let mut request = engine.client.post(engine.url(COMPLETIONS)).timeout(ANSWER_MAX).json(&body);
    if let Some(rank) = plan.rank {
        request = request.header("X-data-parallel-rank", rank);
    }
    let t_start = journal.now();
    let (status, evidence) = answer(request).await;
    let inference = Inference {
        model: Some(model),
        rank: plan.rank,
        prompt_token_ids: Some(plan.prompt.clone()),
        max_tokens: Some(plan.max_tokens.into()),
        output_token_ids: evidence.output_token_ids,
        prompt_tokens: evidence.prompt_tokens,
        completion_tokens: evidence.completion_tokens,
        cached_tokens: evidence.cached_tokens,
        extra,
    };
    let name = format!("{}-{}", plan.number, plan.shape.name());
    RequestLine { name, path: None, t_start, t: journal.now(), status, inference: Some(inference) }
}

/// Status and evidence; of an answer that does not come, none.
async fn answer(request: reqwest::RequestBuilder) -> (u16, Evidence) {
    let Ok(answer) = request.send().await else { return (NO_ANSWER, Evidence::default()) };
    let status = answer.status().as_u16();
    match answer.bytes().await {
        Ok(body) => (status, Evidence::read(&body)),
        Err(_) => (NO_ANSWER, Evidence::default()),
    }
}

/// How a prompt relates to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
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
    fn name(self) -> &'static str {
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
struct Plan {
    number: u64,
    shape: Shape,
    prompt: Vec<u32>,
    max_tokens: u32,
    salt: Option<String>,
    adapter: Option<String>,
    rank: Option<u32>,
}

impl Plan {
    /// The body's fields besides model, prompt and length.
    fn extra(&self, kind: EngineKind) -> Map<String, Value> {
        let mut extra = Map::new();
        extra.insert("temperature".to_owned(), json!(0));
        extra.insert("ignore_eos".to_owned(), json!(true));
        extra.insert("return_token_ids".to_owned(), json!(true));
        if let Some(salt) = &self.salt {
            extra.insert("cache_salt".to_owned(), json!(salt));
        }
        if let (Some(rank), EngineKind::Sglang) = (self.rank, kind) {
            extra.insert("routed_dp_rank".to_owned(), json!(rank));
        }
        extra
    }
}

/// Plans requests from a seed and from what was answered.
#[derive(Debug)]
struct Generator {
    options: LoadOptions,
    ranks: u32,
    planned: u64,
    random: SplitMix64,
    /// Prompts, with their answers where known, the latest last.
    known: Vec<Vec<u32>>,
}

impl Generator {
    fn new(options: LoadOptions, ranks: u32) -> Self {
        let random = SplitMix64::new(options.seed);
        Self { options, ranks, planned: 0, random, known: Vec::new() }
    }

    fn next(&mut self) -> Option<Plan> {
        let number = (self.planned < self.options.load).then_some(self.planned)?;
        self.planned += 1;
        let (shape, prompt) = self.prompt();
        let plan = Plan {
            number,
            shape,
            prompt,
            max_tokens: self.max_tokens(),
            salt: self.half(self.options.salts).map(|salt| format!("tenant-{salt}")),
            adapter: self.adapter(),
            rank: (self.ranks > 1).then(|| self.below(self.ranks)),
        };
        self.remember(plan.prompt.clone());
        Some(plan)
    }

    /// Keeps a prompt with its answer, to be continued.
    fn learn(&mut self, prompt: &[u32], output: &[u32]) {
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

fn bar(len: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} requests, {elapsed}").expect("the template is right");
    ProgressBar::new(len).with_style(style)
}

const COMPLETIONS: &str = "/v1/completions";

/// Prompts to build on. More than small pools hold, so that some are found evicted.
const KNOWN_MAX: usize = 48;

/// Engines' block sizes are multiples or divisors of this.
const BOUNDARY: usize = 32;

/// A tiny model on a busy CPU needs a second for 80 tokens; a large one may need minutes.
const ANSWER_MAX: Duration = Duration::from_mins(10);

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: LoadOptions,
    }

    fn generator(arguments: &[&str], ranks: u32) -> Generator {
        let line = [&["load"], arguments].concat();
        Generator::new(Line::try_parse_from(line).unwrap().options, ranks)
    }

    fn plans(arguments: &[&str], ranks: u32) -> Vec<Plan> {
        let mut generator = generator(arguments, ranks);
        let mut plans = Vec::new();
        while let Some(plan) = generator.next() {
            generator.learn(&plan.prompt, &vec![7; plan.max_tokens as usize]);
            plans.push(plan);
        }
        plans
    }

    #[test]
    fn a_seed_makes_the_same_requests_and_another_others() {
        assert_eq!(plans(&["--load", "50"], 1), plans(&["--load", "50"], 1));
        assert_ne!(plans(&["--load", "50"], 1), plans(&["--load", "50", "--seed", "2"], 1));
    }

    #[test]
    fn requests_stay_within_their_bounds_and_take_every_shape() {
        let plans = plans(&["--load", "400", "--prompt-max", "100", "--output-max", "9", "--vocabulary", "50"], 1);
        assert_eq!(plans.len(), 400);
        assert!(plans.iter().all(|plan| (1..=100).contains(&plan.prompt.len()) && (1..=9).contains(&plan.max_tokens)));
        assert!(plans.iter().flat_map(|plan| &plan.prompt).all(|token| *token < 50));
        for shape in [Shape::Fresh, Shape::Repeat, Shape::Branch, Shape::Shorter, Shape::Continued] {
            assert!(plans.iter().filter(|plan| plan.shape == shape).count() > 20, "{shape:?}");
        }
        assert!(plans.iter().all(|plan| plan.salt.is_none() && plan.adapter.is_none() && plan.rank.is_none()));
    }

    #[test]
    fn an_answer_is_continued() {
        let mut generator = generator(&["--load", "200"], 1);
        let first = generator.next().unwrap();
        let answered = [&first.prompt[..], &[5000, 5001]].concat();
        generator.learn(&first.prompt, &[5000, 5001]);
        let continued = std::iter::from_fn(|| generator.next()).any(|plan| plan.prompt.starts_with(&answered));
        assert!(continued, "no request continued the first one's answer");
    }

    #[test]
    fn salts_adapters_and_ranks_are_used_when_there_are_any() {
        let plans = plans(&["--load", "200", "--salts", "2", "--adapters", "ad1,ad2"], 3);
        let salted = plans.iter().filter(|plan| plan.salt.is_some()).count();
        let adapted = plans.iter().filter(|plan| plan.adapter.is_some()).count();
        assert!((60..140).contains(&salted) && (60..140).contains(&adapted), "{salted} {adapted}");
        for rank in 0..3 {
            assert!(plans.iter().any(|plan| plan.rank == Some(rank)));
        }
    }
}
