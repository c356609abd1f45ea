//! Prompts that begin with a chat template.

use std::num::NonZeroU32;

use contest::random::SplitMix64;
use kv_index::Scheme;

/// Plain blocks of 16 tokens.
pub const SCHEME: Scheme = Scheme::plain(NonZeroU32::new(16).unwrap());

/// A prompt's tokens, and how many of them the template has.
pub struct Prompt {
    pub template: usize,
    pub template_tokens: usize,
    pub tokens: Vec<u32>,
}

/// The prompts that the fleet has seen, and the requests: half of those go on from one that was seen.
pub struct Prompts {
    pub seen: Vec<Prompt>,
    requests: Vec<Prompt>,
}

/// How many chat templates there are.
pub const TEMPLATES: usize = 8;
const SEEN: usize = 4_000;
const REQUESTS: usize = 4_000;

impl Prompts {
    pub fn draw(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let templates: Vec<Vec<u32>> = (0..TEMPLATES).map(|nth| words(&mut random, 160 + nth * 64)).collect();
        let fresh = |random: &mut SplitMix64| {
            let template = random.below(TEMPLATES as u64) as usize;
            let length = length(random).max(templates[template].len() + 16);
            let rest = words(random, length - templates[template].len());
            let template_tokens = templates[template].len();
            Prompt { template, template_tokens, tokens: [templates[template].clone(), rest].concat() }
        };
        let seen: Vec<Prompt> = (0..SEEN).map(|_| fresh(&mut random)).collect();
        let requests = (0..REQUESTS).map(|nth| {
            let new = fresh(&mut random);
            if nth % 2 == 0 {
                return new;
            }
            // A conversation's next turn: some of a prompt that was seen, of the drawn length altogether.
            let old = random.one_of(&seen);
            let kept = old.tokens.len().min(new.tokens.len()) * 4 / 5;
            let tokens = [&old.tokens[..kept], &new.tokens[kept..]].concat();
            Prompt { template: old.template, template_tokens: old.template_tokens.min(kept), tokens }
        });
        let requests = requests.collect();
        Self { seen, requests }
    }

    pub fn request(&self, nth: u64) -> &Prompt {
        &self.requests[nth as usize % self.requests.len()]
    }
}

/// Log-normal: a median of 1,344 tokens, and a 99th percentile of 8,288.
fn length(random: &mut SplitMix64) -> usize {
    // The sum of twelve even numbers is as good as normal out to three deviations.
    let normal: f64 = (0..12).map(|_| random.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>() - 6.0;
    let deviation = (8_288.0f64 / 1_344.0).ln() / 2.326;
    ((1_344.0f64.ln() + deviation * normal).exp() as usize).clamp(32, 32_768)
}

fn words(random: &mut SplitMix64, count: usize) -> Vec<u32> {
    (0..count).map(|_| random.word() as u32).collect()
}
