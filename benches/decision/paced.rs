//! One contender's round: decisions that begin when they are due, each timed.

use std::hint::{black_box, spin_loop};
use std::time::{Duration, Instant};

use contest::measure::alloc::live_bytes;
use contest::measure::clock::{reading_ns, thread_ns};
use kv_index::{ContentHash, Index, Matches, Namespace};
use kv_routing::select::Scratch;
use kv_routing::{Lookup, Policy, Request, Router};

use super::Options;
use super::dynamo::Dynamo;
use super::fleet::Fleet;
use super::prompts::{Prompt, Prompts, SCHEME};
use super::report::Row;

/// Who decides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// A policy of ours, and how many other cache groups a hybrid model has.
    Ours(Policy, Option<u32>),
    Dynamo,
}

impl Who {
    pub fn name(self) -> String {
        match self {
            Self::Ours(policy, None) => format!("{policy:?}"),
            Self::Ours(policy, Some(groups)) => format!("{policy:?}, hybrid of {} groups", groups + 1),
            Self::Dynamo => "dynamo".into(),
        }
    }
}

/// What a contender of ours works with.
struct Ours {
    router: Router,
    groups: Option<u32>,
    matches: Matches,
    scratch: Scratch,
}

/// When one decision was begun and what was done when, in ns of the thread's time.
struct Times {
    began: u64,
    found: u64,
    chosen: u64,
}

/// Paces decisions and times each.
pub fn play(fleet: &mut Fleet, prompts: &Prompts, who: Who, options: &Options) -> Row {
    let overhead = reading_ns();
    let mut ours = match who {
        Who::Ours(policy, groups) => Some(Ours::new(policy, groups)),
        Who::Dynamo => None,
    };
    let count = (options.seconds * options.rate).max(200) + WARM_UP;
    let gap = Duration::from_secs(1) / u32::try_from(options.rate).expect("a rate of decisions");
    let mut row = Row::with_room(count as usize);
    let (mut hashes, mut held, began) = (Vec::new(), 0, Instant::now());
    for nth in 0..count {
        let prompt = prompts.request(nth);
        while began.elapsed() < gap * nth as u32 {
            spin_loop();
        }
        if nth == WARM_UP {
            held = live_bytes();
        }
        let at = thread_ns();
        SCHEME.hash_prompt(Namespace::default(), black_box(&prompt.tokens), &mut hashes);
        let hashed = thread_ns();
        let reusable = &hashes[..SCHEME.reusable_in(prompt.tokens.len())];
        let is_checked = nth < CHECKED;
        let (worker, times) = match &mut ours {
            Some(ours) => ours.decide(fleet, prompt, reusable, nth, is_checked),
            None => dynamos(fleet, prompt, reusable, is_checked),
        };
        if nth >= WARM_UP {
            let spans = [hashed - at, times.found - times.began, times.chosen - times.found];
            row.push(spans.map(|ns| ns.saturating_sub(overhead)));
        }
        fleet.book(worker, nth);
    }
    row.allocated = live_bytes() - held;
    row
}

impl Ours {
    fn new(policy: Policy, groups: Option<u32>) -> Self {
        Self { router: Router::new(policy), groups, matches: Matches::new(), scratch: Scratch::new() }
    }

    fn decide(&mut self, fleet: &Fleet, prompt: &Prompt, reusable: &[ContentHash], nth: u64, check: bool) -> (u32, Times) {
        let began = thread_ns();
        fleet.index.find(reusable, &mut self.matches);
        let found = thread_ns();
        let lookup = Lookup { matches: &self.matches, scheme: SCHEME, predicted: &[] };
        let request = Request { prompt_tokens: prompt.tokens.len() as u64, home: None };
        let groups = self.groups;
        let mut refine = |worker, depth| fleet.refine(worker, depth, groups.unwrap_or(0), reusable);
        let refine: Option<&mut dyn FnMut(_, _) -> _> = if groups.is_some() { Some(&mut refine) } else { None };
        let choice = fleet.pool.choose(&self.router, request, &lookup, refine, nth, &mut self.scratch);
        let worker = black_box(choice).expect("the fleet is up").worker;
        let times = Times { began, found, chosen: thread_ns() };
        if check {
            fleet.check(prompt, reusable, &self.matches);
        }
        (worker, times)
    }
}

fn dynamos(fleet: &mut Fleet, prompt: &Prompt, reusable: &[ContentHash], check: bool) -> (u32, Times) {
    fleet.dynamo.prepare(reusable);
    let began = thread_ns();
    let found_in = fleet.dynamo.find();
    let found = thread_ns();
    let worker = black_box(fleet.dynamo.choose(&found_in, prompt.tokens.len()));
    // What was found is dropped inside of the measurement: it was allocated for this decision.
    let deepest = if check { Dynamo::deepest(&found_in) } else { 0 };
    drop(found_in);
    let times = Times { began, found, chosen: thread_ns() };
    if check {
        let mut matches = Matches::new();
        fleet.index.find(reusable, &mut matches);
        assert_eq!(deepest, matches.levels().next().map_or(0, |level| level.depth), "the same events, the same answer");
    }
    (worker, times)
}

/// Decisions before anything is timed, and of these, those whose lookups are compared.
const WARM_UP: u64 = 2_000;
const CHECKED: u64 = 50;
