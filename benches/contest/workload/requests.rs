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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::names::Names;
    use crate::workload::prompts::Shape;

    #[test]
    fn four_in_five_requests_go_on_after_a_prompt_and_the_rest_are_prefixes_or_unknown() {
        let prompts = Prompts::draw(Shape::SHARED.scaled(0.2), Names::Agree, 7);
        let paths: Vec<Vec<u64>> = (0..prompts.len()).map(|prompt| prompts.path(prompt, 0)).collect();
        let requests = draw(&prompts, 0, 2_000, 3);
        let known = |request: &[u64]| paths.iter().map(|path| common(path, request)).max().unwrap_or(0);
        let unknown = requests.iter().filter(|request| known(request) == 0).count();
        let prefixes = requests.iter().filter(|request| known(request) == request.len()).count();
        assert!((150..250).contains(&unknown), "{unknown}");
        // Every ninth of the prompts comes without anything new.
        assert!((200 + 120..200 + 240).contains(&prefixes), "{prefixes}");
        let news = requests.iter().map(|request| request.len() - known(request)).filter(|&new| new < 50);
        assert_eq!(news.max(), Some(8));
    }

    fn common(left: &[u64], right: &[u64]) -> usize {
        left.iter().zip(right).take_while(|(left, right)| left == right).count()
    }
}
