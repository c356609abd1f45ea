//! A production trace: a router's lookups and the engines' events, in turn.

use super::lookups::Depth;
use super::{Lane, Trial, lookups};
use crate::contender::{Contender, Reader};
use crate::measure::clock::thread_ns;
use crate::workload::mooncake::{Replay, Step, folder, read};

/// Requests that are looked up together before their events apply: as many as a busy fleet has on their way.
const TOGETHER: usize = 64;
/// Requests answered in a checking run: one of so many.
const ANSWERED: usize = 4;

/// Per block operation (requested, stored or removed), the CPU time of lookups and of applying events until all is drained.
pub fn replay<C: Contender>(trial: &mut Trial) {
    let Some(replay) = load(trial) else { return };
    let mut lane = Lane::<C>::open(replay.workers);
    let (mut looked_up_ns, mut answered) = (0, Vec::new());
    for steps in replay.steps.chunks(TOGETHER) {
        let requests: Vec<_> = steps.iter().map(|step| C::Reader::request(&replay.request(step))).collect();
        let reader = &mut lane.reader();
        if trial.checks() {
            answered.extend(requests.into_iter().step_by(ANSWERED).map(|request| reader.answer(&request)));
        } else {
            looked_up_ns += look_up::<C>(reader, &requests);
        }
        steps.iter().for_each(|step| lane.feed(|batch| replay.announce(step, batch)));
        lane.flush();
    }
    trial.write_answers("replayed", answered);
    let operations: usize = replay.steps.iter().map(Step::operations).sum();
    let applied = lane.lap();
    let requested = operations - applied.blocks;
    trial.report("cpu", "ns/operation", (looked_up_ns + applied.ns) as f64 / operations as f64, operations);
    trial.report("lookups alone", "ns/block", looked_up_ns as f64 / requested as f64, requested);
    trial.report("events alone", "ns/block", applied.ns_per_block(), applied.blocks);
    let held = lane.held().bytes as f64 / replay.held as f64;
    trial.report("bytes", "B/membership", held, replay.held);
}

/// The trace, as far as the scale goes; a printed line where there is none.
pub(super) fn load(trial: &Trial) -> Option<Replay> {
    let path = folder()?.join("conversation_trace.jsonl");
    path.is_file().then(|| Replay::of(&read(&path, (12_031.0 * trial.settings.scale).ceil() as usize)))
}

fn look_up<C: Contender>(reader: &mut C::Reader, requests: &[<C::Reader as Reader>::Request]) -> u64 {
    let mut rows = Vec::new();
    let began = thread_ns();
    requests.iter().for_each(|request| lookups::look_up(reader, request, Depth::Deepest, &mut rows));
    thread_ns() - began
}
