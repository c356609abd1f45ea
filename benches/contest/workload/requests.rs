//! What is looked up: known prompts with something new at the end, prefixes of them, and unknown ones.

use super::prompts::Prompts;
use crate::random::SplitMix64;

/// Draws `count` requests: 80 % a prompt and 0 to 8 unknown blocks, 10 % a proper prefix of one, 10 % unknown.
/// Prompts are in their `generation`.
pub fn draw(prompts: &Prompts, generation: u32, count: usize, seed: u64) -> Vec<Vec<u64>> {
    let mut random = SplitMix64::new(seed);
    (0..count).map(|_| one(prompts, generation, &mut random)).collect()
}

fn one(prompts: &Prompts, generation: u32, random: &mut SplitMix64) -> Vec<u64> {
    let kind = random.below(10);
    let mut path = prompts.path(random.below(u64::from(prompts.len())) as u32, generation);
    match kind {
        0 => path.truncate(1 + random.below(path.len() as u64 - 1) as usize),
        1 => path.iter_mut().for_each(|content| *content = random.word()),
        _ => path.extend((0..random.below(9)).map(|_| random.word()).collect::<Vec<_>>()),
    }
    path
}
