//! A million short private tails come and go under shared prompts.

use super::fill::store_all;
use super::lane::Lap;
use super::lookups::{Depth, Requests};
use super::{Lane, Trial};
use crate::contender::{Contender, Reader};
use crate::random::SplitMix64;
use crate::workload::Batch;
use crate::workload::decode::{PROMPTS, Tail};
use crate::workload::prompts::Prompts;

/// Tails at scale 1.
const TAILS: f64 = 1_000_000.0;
/// One live tail for so many of all.
const LIVE_SHARE: usize = 10;
/// Tails of one step: stored together, then as many old ones removed.
const STEP_TAILS: usize = 256;
/// Answers are taken so often.
const SAMPLES: usize = 10;
/// Tails looked up at a sample, half of them dead.
const SAMPLE_TAILS: usize = 200;

/// The tails that are alive, and what storing and removing them took.
struct Churn<C> {
    lane: Lane<C>,
    prompts: Prompts,
    random: SplitMix64,
    live: Vec<Tail>,
    stored: Lap,
    removed: Lap,
}

/// Prompts; tails up to the live number; lookups; all further tails, each taking a random old one's place; lookups again;
/// at last some tails that grow block by block.
pub fn decode<C: Contender>(trial: &mut Trial) {
    let shape = PROMPTS.scaled(trial.settings.scale.min(1.0));
    let prompts = Prompts::draw(shape, trial.settings.names, trial.settings.seed);
    let tails = ((TAILS * trial.settings.scale) as usize).max(SAMPLES * STEP_TAILS);
    let lookups = Requests::<C>::draw(trial, |seed| prompt_requests(&prompts, trial.settings.lookups, seed));
    let mut churn = Churn::<C>::open(prompts, trial.settings.seed);
    churn.grow(0, tails / LIVE_SHARE);
    look_up(trial, "lookup at the start", &mut churn, &lookups);
    let held = churn.lane.held().bytes as f64 / churn.memberships() as f64;
    trial.report("bytes at the start", "B/membership", held, churn.memberships());
    churn.turn_over(trial, tails);
    trial.report("store", "ns/block", churn.stored.ns_per_block(), churn.stored.blocks);
    trial.report("remove", "ns/block", churn.removed.ns_per_block(), churn.removed.blocks);
    let held = churn.lane.held().bytes as f64 / churn.memberships() as f64;
    trial.report("bytes", "B/membership", held, churn.memberships());
    look_up(trial, "lookup at the end", &mut churn, &lookups);
    let stepped = churn.grow_by_blocks(tails);
    trial.report("store, a block an event", "ns/block", stepped.ns_per_block(), stepped.blocks);
}

impl<C: Contender> Churn<C> {
    fn open(prompts: Prompts, seed: u64) -> Self {
        let mut lane = Lane::open(prompts.shape.workers);
        store_all(&mut lane, &prompts);
        lane.lap();
        let (stored, removed) = Default::default();
        Self { lane, prompts, random: SplitMix64::new(!seed), live: Vec::new(), stored, removed }
    }

    fn memberships(&self) -> usize {
        self.prompts.memberships() + self.live.iter().map(|tail| tail.len() as usize).sum::<usize>()
    }

    /// Stores `count` new tails, numbered from `first`.
    fn grow(&mut self, first: usize, count: usize) {
        for number in first..first + count {
            let tail = Tail::draw(&self.prompts, number as u64, &mut self.random);
            self.lane.feed(|batch| tail.store(batch));
            self.live.push(tail);
        }
        self.stored.add(self.lane.lap());
    }

    /// Removes `count` random old tails and returns them.
    fn shrink(&mut self, count: usize) -> Vec<Tail> {
        let gone: Vec<Tail> =
            (0..count).map(|_| self.live.swap_remove(self.random.below(self.live.len() as u64) as usize)).collect();
        gone.iter().for_each(|tail| self.lane.feed(|batch| tail.remove(batch)));
        self.removed.add(self.lane.lap());
        gone
    }

    /// All tails beyond the live number, up to number `tails`, with a sample of answers every tenth of them.
    fn turn_over(&mut self, trial: &mut Trial, tails: usize) {
        let steps = (tails - tails / LIVE_SHARE) / STEP_TAILS;
        for step in 0..steps {
            self.grow(tails / LIVE_SHARE + step * STEP_TAILS, STEP_TAILS);
            let gone = self.shrink(STEP_TAILS);
            if (step + 1) % (steps / SAMPLES).max(1) == 0 {
                self.sample(trial, &format!("decode-{step}"), &gone);
            }
        }
    }

    /// Answers to live tails, dead tails, and the prompts under them.
    fn sample(&mut self, trial: &Trial, name: &str, gone: &[Tail]) {
        let live = self.live.iter().rev().take(SAMPLE_TAILS / 2);
        let requests: Vec<_> = live.chain(gone.iter().take(SAMPLE_TAILS / 2)).map(|tail| self.request(tail)).collect();
        trial.answer::<C>(name, &mut self.lane.reader(), &requests);
    }

    fn request(&self, tail: &Tail) -> <C::Reader as Reader>::Request {
        let mut path = self.prompts.path(tail.prompt, 0);
        path.extend(tail.blocks().map(|block| block.content));
        C::Reader::request(&path)
    }

    /// A tenth as many tails again, a block an event, the sequences of a step in turn, as engines announce them.
    fn grow_by_blocks(&mut self, first: usize) -> Lap {
        let mut all = Lap::default();
        for step in 0..(first / 10 / STEP_TAILS).max(1) {
            let numbers = (first + step * STEP_TAILS) as u64..;
            let tails: Vec<Tail> =
                numbers.take(STEP_TAILS).map(|number| Tail::draw(&self.prompts, number, &mut self.random)).collect();
            self.announce(&tails);
            all.add(self.lane.lap());
            self.live.extend(tails);
            self.shrink(STEP_TAILS);
        }
        all
    }

    fn announce(&mut self, tails: &[Tail]) {
        for at in 0..tails.iter().map(Tail::len).max().unwrap_or(0) {
            for tail in tails.iter().filter(|tail| at < tail.len()) {
                self.lane.feed(|batch: &mut Batch| tail.store_block(at, batch));
            }
        }
    }
}

fn prompt_requests(prompts: &Prompts, count: usize, seed: u64) -> Vec<Vec<u64>> {
    let mut random = SplitMix64::new(seed);
    let mut request = || {
        let mut path = prompts.path(random.below(u64::from(prompts.len())) as u32, 0);
        path.extend((0..4).map(|_| random.word()));
        path
    };
    (0..count).map(|_| request()).collect()
}

fn look_up<C: Contender>(trial: &mut Trial, op: &str, churn: &mut Churn<C>, requests: &Requests<C>) {
    if !trial.checks() {
        requests.time_hot(trial, op, &mut churn.lane.reader(), Depth::Deepest);
    }
}
