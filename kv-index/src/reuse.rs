//! How much of a prompt a hybrid model reuses when each of its cache groups keeps blocks by a rule of its own.
//!
//! A model that mixes full attention, sliding windows and recurrent state keeps one cache for each. A prefix is reusable
//! only where *every* group can go on from it: the longest such prefix, not the shortest of the groups' longest.
//! All counts are in *units*: blocks of the keyspace that requests are hashed in.
//!
//! # Where a prefix may end
//! At a multiple of every group's block. vLLM (0.24 and later) also ends prefixes *inside* blocks, at any unit, when it
//! keeps states in blocks coarser than the unit and no window in such blocks: it then announces further entries, each named
//! by the unit in which it ends, for states and for the tails of prompts in full-attention blocks.
//!
//! # What an event stream does not show
//! The rules equal vLLM's lookup on the drawn cases of `tests/reuse_fixture.rs`. They cannot where the wire is silent:
//! * A chunk's length (`chunked_local_attention`). Read as a window of that length, or as full attention, a chunk is
//!   never credited with more than vLLM reuses.
//! * Decode-context parallelism. vLLM then ends prefixes inside full-attention blocks although states are as fine as the
//!   unit; here they end with whole blocks.
//! * EAGLE. For a model of one full-attention group vLLM reuses one block less than here. For a hybrid one it asks each
//!   group with draft layers for one block more behind the prefix's end, and the wire does not say which groups those are.

use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;
use std::str::FromStr;

use thiserror::Error;

use crate::Runs;

/// What a cache group keeps, and so what it needs at the end of a prefix to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// Full attention: every block from the prompt's start.
    Full,
    /// A sliding window: the blocks that the next token still sees.
    Window {
        /// The window's length in tokens, the next token included.
        tokens: NonZeroU32,
        /// Whose rule decides how many whole blocks that is.
        rule: WindowRule,
    },
    /// Recurrent state (Mamba, linear attention): one saved state exactly at the prefix's end.
    State,
}

/// How many whole blocks before a prefix's end a window needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WindowRule {
    /// vLLM: the `window - 1` tokens before the next one, in whole blocks, at least one.
    #[default]
    Vllm,
    /// SGLang: a whole window of tokens.
    Sglang,
}

/// One cache group of a worker.
///
/// Its text form, `kind=sliding_window;window=64;block=32`, is the one encoding of group metadata in this workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// What it keeps.
    pub kind: GroupKind,
    /// Tokens in one of its blocks; a multiple of the unit's.
    pub block_tokens: NonZeroU32,
}

/// Why a text is no [`Group`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GroupError {
    /// A required key is absent.
    #[error("the group {text:?} has no `{key}`")]
    Missing {
        /// The whole text.
        text: String,
        /// The key.
        key: &'static str,
    },
    /// A key's value cannot be read.
    #[error("expected {expected} for `{key}` in the group {text:?}, got {value:?}")]
    Value {
        /// The whole text.
        text: String,
        /// The key.
        key: &'static str,
        /// What came.
        value: String,
        /// What can be read.
        expected: &'static str,
    },
}

/// Evaluates the joint rule over a worker's groups. Reuse one value for many: it keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct JointReuse {
    groups: Vec<Covered>,
    used: usize,
}

/// What a group covers, with the numbers its rule needs.
#[derive(Clone, Debug)]
struct Covered {
    kind: GroupKind,
    /// Units in a block of the group.
    block: u32,
    /// Units in a step: a block, or one unit for states, which may be kept inside blocks.
    step: u32,
    /// Covered steps.
    runs: Vec<Range<u32>>,
    /// Covered steps that must stand before the end of a prefix, unless the run reaches the prompt's start.
    lookback: u32,
    /// Covered units, where blocks are of several: entries may end inside blocks.
    entries: Vec<Range<u32>>,
}

impl GroupKind {
    /// Whether the group keeps the whole prompt, so that a plain prefix lookup of its view bounds the reuse.
    pub const fn is_main(self) -> bool {
        matches!(self, Self::Full)
    }

    fn lookback_blocks(self, block_tokens: NonZeroU32) -> u32 {
        match self {
            Self::Full => u32::MAX,
            Self::State => 1,
            Self::Window { tokens, rule: WindowRule::Vllm } => (tokens.get() - 1).div_ceil(block_tokens.get()).max(1),
            Self::Window { tokens, rule: WindowRule::Sglang } => tokens.get().div_ceil(block_tokens.get()),
        }
    }
}

impl JointReuse {
    /// An evaluator without groups.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the groups and keeps the memory.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// Adds a group and the units of the request that it covers. A block of several units counts as covered when its
    /// last unit is: that is where its name stands. A group whose blocks are no multiple of the unit allows no prefix.
    pub fn push(&mut self, group: Group, unit_tokens: NonZeroU32, covered: &Runs) {
        if self.used == self.groups.len() {
            self.groups.push(Covered::new());
        }
        self.groups[self.used].fill(group, unit_tokens, covered);
        self.used += 1;
    }

    /// The longest prefix, in units and at most `limit`, that every group can go on from. Without groups, `limit`.
    pub fn longest(&self, limit: u32) -> u32 {
        let groups = &self.groups[..self.used];
        let align = align(groups);
        let mut prefix = limit - limit % align;
        // A full group accepts whatever is shorter than what it accepts, so that vLLM asks it once and first: asked again
        // for a prefix that ends inside one of its blocks, it would find no entry there. Groups of one layout answer as one.
        for full in groups.iter().filter(|group| group.kind.is_main()) {
            let twins = groups.iter().filter(|group| group.kind.is_main() && group.block == full.block);
            prefix = settle(&twins, prefix, align);
        }
        settle(&groups.iter().filter(|group| !group.kind.is_main()), prefix, align)
    }
}

impl Covered {
    fn new() -> Self {
        Self { kind: GroupKind::Full, block: 1, step: 1, runs: Vec::new(), lookback: 0, entries: Vec::new() }
    }

    fn fill(&mut self, group: Group, unit_tokens: NonZeroU32, covered: &Runs) {
        self.kind = group.kind;
        let fits = group.block_tokens.get().is_multiple_of(unit_tokens.get());
        self.block = if fits { group.block_tokens.get() / unit_tokens.get() } else { 1 };
        self.step = if group.kind == GroupKind::State { 1 } else { self.block };
        self.lookback = group.kind.lookback_blocks(group.block_tokens);
        let covered = if fits { covered.as_slice() } else { &[] };
        self.entries.clear();
        if self.block > 1 {
            self.entries.extend_from_slice(covered);
        }
        self.runs.clear();
        for run in covered {
            push_joined(&mut self.runs, (run.start + 1).div_ceil(self.step) - 1..run.end / self.step);
        }
    }

    /// The longest prefix at or below `prefix` that this group accepts; both in units and multiples of `align`.
    fn longest(&self, prefix: u32, align: u32) -> u32 {
        let whole = self.longest_whole(prefix, align);
        if self.kind.is_main() { round_down(self.tail_end(whole, prefix), align) } else { whole }
    }

    /// The longest such prefix that ends at a step.
    fn longest_whole(&self, prefix: u32, align: u32) -> u32 {
        let end = prefix / self.step;
        let below = self.runs.partition_point(|run| run.start < end);
        for run in self.runs[..below].iter().rev() {
            let steps = round_down(run.end.min(end) * self.step, align.max(self.step)) / self.step;
            if steps > run.start && (run.start == 0 || steps - run.start >= self.lookback) {
                return steps * self.step;
            }
        }
        0
    }

    /// Where the last entry ends, at or below `prefix`, inside the block behind `whole` blocks; `whole` without one.
    fn tail_end(&self, whole: u32, prefix: u32) -> u32 {
        let end = prefix.min(whole + self.block - 1);
        let below = self.entries.partition_point(|run| run.start < end);
        self.entries[..below].last().map_or(whole, |run| run.end.min(end).max(whole))
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            GroupKind::Full => write!(f, "kind=full_attention;block={}", self.block_tokens),
            GroupKind::State => write!(f, "kind=mamba;block={}", self.block_tokens),
            GroupKind::Window { tokens, rule } => {
                write!(f, "kind=sliding_window;window={tokens};block={}", self.block_tokens)?;
                if rule == WindowRule::Sglang { f.write_str(";rule=sglang") } else { Ok(()) }
            }
        }
    }
}

/// Reads what [`Display`](fmt::Display) writes, in any order of keys. Unknown keys are skipped, and the words of the
/// engines (`mla_attention`, `sliding_window_mla`, `swa`, ...) are understood as kinds.
impl FromStr for Group {
    type Err = GroupError;

    fn from_str(text: &str) -> Result<Self, GroupError> {
        let field = |key: &'static str| text.split(';').filter_map(|part| part.split_once('=')).find(|pair| pair.0.trim() == key);
        let required =
            |key| field(key).map(|pair| pair.1.trim()).ok_or_else(|| GroupError::Missing { text: text.to_owned(), key });
        let bad =
            |key, value: &str, expected| GroupError::Value { text: text.to_owned(), key, value: value.to_owned(), expected };
        let count = |key| required(key).and_then(|value| value.parse().map_err(|_| bad(key, value, "a number above 0")));
        let block_tokens = count("block")?;
        let word = required("kind")?;
        let kind = match KindWord::parse(word).ok_or_else(|| bad("kind", word, "a kind of attention"))? {
            KindWord::Full => GroupKind::Full,
            KindWord::State => GroupKind::State,
            KindWord::Window => GroupKind::Window { tokens: count("window")?, rule: window_rule(field("rule"), bad)? },
        };
        Ok(Self { kind, block_tokens })
    }
}

/// What a kind's word on the wire stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KindWord {
    /// Keeps every block.
    Full,
    /// Keeps a window.
    Window,
    /// Keeps states.
    State,
}

impl KindWord {
    /// Understands vLLM's kinds and the common aliases. Nothing for a word that names no cache a prefix can be reused
    /// from (encoder and cross attention) or that is not known.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "full_attention" | "mla_attention" | "sink_full_attention" | "full" => Some(Self::Full),
            // A chunk is what a window of the chunk's length keeps, at most: never more is credited than is held.
            "sliding_window" | "sliding_window_mla" | "chunked_local_attention" | "swa" => Some(Self::Window),
            "mamba" => Some(Self::State),
            _ => None,
        }
    }
}

fn window_rule(
    field: Option<(&str, &str)>,
    bad: impl Fn(&'static str, &str, &'static str) -> GroupError,
) -> Result<WindowRule, GroupError> {
    match field.map(|pair| pair.1.trim()) {
        None | Some("vllm") => Ok(WindowRule::Vllm),
        Some("sglang") => Ok(WindowRule::Sglang),
        Some(value) => Err(bad("rule", value, "vllm or sglang")),
    }
}

/// What every prefix is a multiple of, in units.
fn align(groups: &[Covered]) -> u32 {
    let is_state = |group: &&Covered| group.kind == GroupKind::State;
    let is_window = |group: &&Covered| matches!(group.kind, GroupKind::Window { .. });
    let ends_inside_blocks = groups.iter().filter(is_state).any(|group| group.block > 1)
        && groups.iter().filter(is_window).all(|group| group.block == 1);
    if ends_inside_blocks { 1 } else { groups.iter().fold(1, |align, group| lcm(align, group.block)) }
}

/// The longest prefix at or below `prefix` that all groups accept. Each lowers the candidate to the longest that it
/// accepts by itself, until none lowers it: no prefix that all accept is ever skipped.
fn settle<'a>(groups: &(impl Iterator<Item = &'a Covered> + Clone), mut prefix: u32, align: u32) -> u32 {
    loop {
        let lowered = groups.clone().fold(prefix, |prefix, group| group.longest(prefix, align));
        if lowered == prefix {
            return prefix;
        }
        prefix = lowered;
    }
}

fn round_down(count: u32, step: u32) -> u32 {
    count - count % step
}

fn push_joined(runs: &mut Vec<Range<u32>>, run: Range<u32>) {
    match runs.last_mut() {
        _ if run.is_empty() => {}
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run),
    }
}

fn lcm(left: u32, right: u32) -> u32 {
    let (mut a, mut b) = (left, right);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    (left / a).saturating_mul(right)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nonzero(n: u32) -> NonZeroU32 {
        NonZeroU32::new(n).unwrap()
    }

    fn full() -> Group {
        Group { kind: GroupKind::Full, block_tokens: nonzero(1) }
    }

    fn window(tokens: u32, block: u32) -> Group {
        Group { kind: GroupKind::Window { tokens: nonzero(tokens), rule: WindowRule::Vllm }, block_tokens: nonzero(block) }
    }

    fn state(block: u32) -> Group {
        Group { kind: GroupKind::State, block_tokens: nonzero(block) }
    }

    fn runs(ranges: &[Range<u32>]) -> Runs {
        let mut runs = Runs::new();
        ranges.iter().for_each(|range| runs.push(range.start, range.end));
        runs
    }

    fn longest(limit: u32, groups: &[(Group, Runs)]) -> u32 {
        let mut joint = JointReuse::new();
        groups.iter().for_each(|(group, covered)| joint.push(*group, nonzero(1), covered));
        joint.longest(limit)
    }

    #[test]
    fn pins_from_the_engines_lookup() {
        assert_eq!(longest(8, &[(window(1, 1), runs(&[]))]), 0, "a window of 1 with nothing cached");
        let w17 = Group { block_tokens: nonzero(2), ..window(17, 2) };
        let mut joint = JointReuse::new();
        joint.push(w17, nonzero(2), &runs(&[0..8]));
        assert_eq!(joint.longest(20), 8, "a window of 17 in blocks 0 to 7");
        assert_eq!(longest(32, &[(full(), runs(&[0..32])), (state(8), runs(&[23..24, 39..40]))]), 24);
        assert_eq!(longest(40 - 1, &[(state(8), runs(&[39..40]))]), 0, "a state at the request's end is no use");
    }

    #[test]
    fn the_joint_prefix_is_not_the_least_of_the_groups_own() {
        // Full allows 10, the window allows 8 or 3: at 9 and 10 it lacks blocks.
        let groups = [(full(), runs(&[0..10])), (window(3, 1), runs(&[1..3, 6..8]))];
        assert_eq!(longest(20, &groups), 8);
        let groups = [(full(), runs(&[0..7])), (window(3, 1), runs(&[1..3, 6..8]))];
        assert_eq!(longest(20, &groups), 3, "8 is beyond the full group, 7 lacks a block of the window");
    }

    #[test]
    fn a_window_that_reaches_the_start_needs_no_more() {
        assert_eq!(longest(9, &[(window(100, 1), runs(&[0..2]))]), 2);
        assert_eq!(longest(9, &[(window(100, 1), runs(&[1..9]))]), 0);
    }

    #[test]
    fn sglang_wants_the_whole_window() {
        let group = |rule| Group { kind: GroupKind::Window { tokens: nonzero(4), rule }, block_tokens: nonzero(1) };
        let covered = runs(&[2..5]);
        assert_eq!(longest(5, &[(group(WindowRule::Vllm), covered.clone())]), 5);
        assert_eq!(longest(5, &[(group(WindowRule::Sglang), covered)]), 0);
        let coarse = Group { block_tokens: nonzero(3), ..group(WindowRule::Sglang) };
        assert_eq!(longest(9, &[(coarse, runs(&[5..6, 8..9]))]), 9, "two blocks of three hold four tokens");
        assert_eq!(longest(9, &[(coarse, runs(&[8..9]))]), 0, "and one does not");
    }

    #[test]
    fn a_coarse_block_counts_by_its_last_unit() {
        assert_eq!(longest(9, &[(state(4), runs(&[3..4, 7..8]))]), 8);
        assert_eq!(longest(9, &[(Group { block_tokens: nonzero(4), ..full() }, runs(&[3..4, 7..8]))]), 8, "marks at block ends");
        assert_eq!(longest(9, &[(Group { block_tokens: nonzero(4), ..full() }, runs(&[0..7]))]), 4, "whole runs");
    }

    #[test]
    fn coarse_states_let_prefixes_end_inside_blocks() {
        let coarse = Group { block_tokens: nonzero(4), ..full() };
        let held = runs(&[3..4, 7..8, 9..10]);
        let states = runs(&[5..6, 9..10]);
        assert_eq!(longest(12, &[(coarse, held.clone()), (state(4), states.clone())]), 10, "both have an entry there");
        assert_eq!(longest(9, &[(coarse, held.clone()), (state(4), states.clone())]), 6, "a whole block covers what ends in it");
        assert_eq!(longest(6, &[(coarse, held.clone()), (state(4), states.clone())]), 0, "unless the prompt ends in it");
        let [other_tail, tail] = [runs(&[3..4, 6..7]), runs(&[3..4, 5..6])];
        let twins = [(coarse, other_tail), (coarse, tail), (state(4), runs(&[3..4, 5..6]))];
        assert_eq!(longest(8, &twins), 4, "full groups of one layout need an entry in common");
        let window_too = [(coarse, held.clone()), (state(4), states), (window(1, 4), held)];
        assert_eq!(longest(12, &window_too), 0, "a window in coarse blocks keeps all prefixes to whole blocks");
    }

    #[test]
    fn a_group_whose_blocks_do_not_fit_the_unit_allows_nothing() {
        for block in [3, 6] {
            let mut joint = JointReuse::new();
            joint.push(Group { block_tokens: nonzero(block), ..full() }, nonzero(4), &runs(&[0..8]));
            assert_eq!(joint.longest(8), 0, "blocks of {block} tokens in units of 4");
        }
    }

    #[test]
    fn an_evaluator_that_is_used_again_remembers_nothing() {
        let mut joint = JointReuse::new();
        joint.push(full(), nonzero(1), &runs(&[0..1, 3..4]));
        joint.push(state(4), nonzero(1), &runs(&[]));
        assert_eq!(joint.longest(9), 0);
        joint.clear();
        assert_eq!(joint.longest(9), 9, "without groups, all of it");
        joint.push(full(), nonzero(1), &runs(&[]));
        assert_eq!(joint.longest(9), 0);
        joint.clear();
        joint.push(full(), nonzero(1), &runs(&[0..7]));
        assert_eq!(joint.longest(9), 7);
        let coarse = [Group { block_tokens: nonzero(4), ..full() }, state(4)];
        for held in [runs(&[0..8, 9..10]), runs(&[0..8])] {
            joint.clear();
            coarse.iter().for_each(|group| joint.push(*group, nonzero(1), &held));
            let tail = u32::from(held.as_slice().len() > 1) * 2;
            assert_eq!(joint.longest(12), 8 + tail, "entries inside blocks are forgotten too");
        }
    }

    #[test]
    fn the_engines_words_for_kinds_are_understood() {
        let of = |words: &[&str]| words.iter().map(|word| KindWord::parse(word)).collect::<std::collections::HashSet<_>>();
        assert_eq!(of(&["full_attention", "mla_attention", "sink_full_attention", "full"]), [Some(KindWord::Full)].into());
        let windows = ["sliding_window", "sliding_window_mla", "chunked_local_attention", "swa"];
        assert_eq!(of(&windows), [Some(KindWord::Window)].into());
        assert_eq!(of(&["mamba"]), [Some(KindWord::State)].into());
        assert_eq!(of(&["encoder_only_attention", "cross_attention", "unknown", ""]), [None].into());
    }

    #[test]
    fn a_group_survives_its_text() {
        for text in ["kind=full_attention;block=16", "kind=sliding_window;window=64;block=32", "kind=mamba;block=528"] {
            assert_eq!(text.parse::<Group>().unwrap().to_string(), text);
        }
        let sglang = "kind=sliding_window;window=64;block=32;rule=sglang";
        assert_eq!(sglang.parse::<Group>().unwrap().to_string(), sglang);
        assert_eq!("block=4;groups=2;kind=swa;unit=tokens;window=9".parse::<Group>().unwrap(), window(9, 4));
        assert_eq!(" kind = swa ; block = 4; window = 9; rule = vllm".parse::<Group>().unwrap(), window(9, 4));
    }

    #[test]
    fn a_bad_text_says_what_is_wrong() {
        let error = |text: &str| text.parse::<Group>().unwrap_err().to_string();
        assert_eq!(error("kind=full"), "the group \"kind=full\" has no `block`");
        assert_eq!(
            error("kind=full;block=0"),
            "expected a number above 0 for `block` in the group \"kind=full;block=0\", got \"0\""
        );
        assert!(error("kind=swa;block=4").contains("no `window`"));
        assert!(error("kind=cross_attention;block=4").contains("a kind of attention"));
        assert!(error("kind=swa;block=4;window=9;rule=own").contains("expected vllm or sglang for `rule`"));
    }

    /// A group and whether it covers each unit.
    type Held = (Group, Vec<bool>);

    /// The rules themselves, tried from the longest prefix down.
    fn naive(limit: u32, groups: &[Held]) -> u32 {
        let (full, other): (Vec<_>, Vec<_>) = groups.iter().partition(|held| held.0.kind == GroupKind::Full);
        let best = |limit: u32, asked: &[&Held]| {
            (0..=limit).rev().find(|&prefix| may_end(groups, prefix) && asked.iter().all(|held| accepts(held, prefix))).unwrap()
        };
        let bound = full.iter().fold(limit, |bound, held| {
            let twins: Vec<_> = full.iter().copied().filter(|twin| twin.0.block_tokens == held.0.block_tokens).collect();
            best(bound, &twins)
        });
        best(bound, &other)
    }

    fn may_end(groups: &[Held], prefix: u32) -> bool {
        let has_coarse =
            |wanted: fn(GroupKind) -> bool| groups.iter().any(|held| wanted(held.0.kind) && held.0.block_tokens.get() > 1);
        has_coarse(|kind| kind == GroupKind::State) && !has_coarse(|kind| matches!(kind, GroupKind::Window { .. }))
            || groups.iter().all(|held| prefix.is_multiple_of(held.0.block_tokens.get()))
    }

    fn accepts((group, units): &Held, prefix: u32) -> bool {
        let size = group.block_tokens.get();
        let blocks = prefix / size;
        let is_held = |end: u32| end == 0 || units[end as usize - 1];
        let lookback =
            if group.kind == GroupKind::State { 0 } else { group.kind.lookback_blocks(group.block_tokens).min(blocks) };
        is_held(prefix) && (blocks - lookback..blocks).all(|block| is_held((block + 1) * size))
    }

    fn any_group() -> impl Strategy<Value = Group> {
        (prop_oneof![Just(1u32), Just(2), Just(3), Just(4)], 0..4u8, 1..20u32).prop_map(|(block, kind, tokens)| match kind {
            0 => Group { block_tokens: nonzero(block), ..full() },
            1 => state(block),
            2 => window(tokens, block),
            _ => Group {
                kind: GroupKind::Window { tokens: nonzero(tokens), rule: WindowRule::Sglang },
                block_tokens: nonzero(block),
            },
        })
    }

    proptest! {
        #[test]
        fn equals_the_rule_tried_from_the_top(
            groups in proptest::collection::vec((any_group(), proptest::collection::vec(proptest::bool::weighted(0.8), 40)), 1..4),
            limit in 0u32..40,
        ) {
            let covered: Vec<(Group, Runs)> = groups.iter().map(|(group, units)| {
                let mut runs = Runs::new();
                (0u32..).zip(units).filter(|(_, held)| **held).for_each(|(unit, _)| runs.push(unit, unit + 1));
                (*group, runs)
            }).collect();
            prop_assert_eq!(longest(limit, &covered), naive(limit, &groups));
        }
    }
}
