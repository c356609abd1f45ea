//! [`JointReuse`] against vLLM itself: `data/reuse_vllm.json` holds what vLLM's own lookup answered (`make_reuse_vllm.py`).

use std::num::NonZeroU32;

use kv_index::Runs;
use kv_index::reuse::{Group, GroupKind, JointReuse, WindowRule};

#[test]
fn equals_vllm_on_every_drawn_case() {
    let cases = cases("exact");
    assert!(cases.len() >= 300, "only {} cases", cases.len());
    assert_none_wrong(&cases, |predicted, expected| predicted == expected);
}

/// A chunk's length is not on the wire. A chunk read as a window of that length, or as full attention, credits at most
/// what vLLM reuses.
#[test]
fn chunks_credit_at_most_what_vllm_reuses() {
    let mut cases = cases("at_most");
    assert!(cases.len() >= 30, "only {} cases", cases.len());
    assert!(cases.iter().any(|case| case.predicted() > 0), "nothing is credited at all");
    assert_none_wrong(&cases, |predicted, expected| predicted <= expected);
    cases.iter_mut().flat_map(|case| &mut case.groups).for_each(|(group, _)| group.kind = GroupKind::Full);
    assert_none_wrong(&cases, |predicted, expected| predicted <= expected);
}

/// Why `drops_last_block` of kv-events is right for a model with one full-attention group, and for no other.
#[test]
fn a_plain_model_with_eagle_reuses_one_block_less() {
    let cases = cases("eagle");
    assert!(cases.iter().filter(|case| case.expected > 0).count() >= 10, "too few hits");
    for case in &cases {
        let block = case.groups[0].0.block_tokens.get();
        assert_eq!(case.predicted().saturating_sub(block), case.expected, "{}", case.line);
    }
}

/// A prompt, and what each group of one model still holds of it.
struct Case {
    line: &'static str,
    request_tokens: u32,
    unit: NonZeroU32,
    /// With the units in which the held blocks end.
    groups: Vec<(Group, Runs)>,
    /// Tokens that vLLM reuses.
    expected: u32,
}

impl Case {
    fn read(line: &'static str) -> Self {
        let groups = line.split("{\"kind\":").skip(1);
        Self {
            line,
            request_tokens: number(line, "request_tokens"),
            unit: nonzero(number(line, "unit_tokens")),
            groups: groups.map(|text| (group(text), runs(text))).collect(),
            expected: number(line, "expected_hit_tokens"),
        }
    }

    fn predicted(&self) -> u32 {
        let mut joint = JointReuse::new();
        self.groups.iter().for_each(|(group, held)| joint.push(*group, self.unit, held));
        joint.longest((self.request_tokens - 1) / self.unit) * self.unit.get()
    }
}

fn assert_none_wrong(cases: &[Case], is_right: impl Fn(u32, u32) -> bool) {
    let wrong = cases.iter().filter(|case| !is_right(case.predicted(), case.expected));
    let wrong: Vec<_> = wrong.map(|case| format!("{} for {}", case.predicted(), case.line)).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// The cases of one of the file's lists. Each stands on a line of its own, so that no JSON reader is needed.
fn cases(list: &str) -> Vec<Case> {
    let head = format!("\"{list}\":[");
    let lines = include_str!("data/reuse_vllm.json").lines().skip_while(|line| *line != head).skip(1);
    lines.take_while(|line| line.starts_with('{')).map(Case::read).collect()
}

fn group(text: &str) -> Group {
    let tokens = || nonzero(number(text, "window_tokens"));
    let kind = match text.split('"').nth(1) {
        Some("full") => GroupKind::Full,
        Some("mamba") => GroupKind::State,
        Some("window" | "chunk") => GroupKind::Window { tokens: tokens(), rule: WindowRule::Vllm },
        other => panic!("a kind {other:?}"),
    };
    Group { kind, block_tokens: nonzero(number(text, "block_tokens")) }
}

fn runs(text: &str) -> Runs {
    let mut runs = Runs::new();
    let units = after(text, "cached").trim_start_matches('[').split(']').next().expect("a split has a first part");
    units.split_terminator(',').map(|unit| unit.parse().expect("a unit")).for_each(|unit: u32| runs.push(unit, unit + 1));
    runs
}

fn number(text: &str, key: &str) -> u32 {
    let value = after(text, key);
    let end = value.find(|c: char| !c.is_ascii_digit()).expect("no number ends a line");
    value[..end].parse().unwrap_or_else(|error| panic!("{key}: {error} in {text}"))
}

fn after<'a>(text: &'a str, key: &str) -> &'a str {
    text.split_once(&format!("\"{key}\":")).unwrap_or_else(|| panic!("no {key} in {text}")).1
}

fn nonzero(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).expect("a size of zero")
}
