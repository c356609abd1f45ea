//! The whole of the machine at a glance: every state it can be in, and what each input makes of it. The text is checked in.

use std::fmt::Write;
use std::time::Duration;

use kv_events::admission::Findings;
use kv_events::{ReplayOutcome, Source};

use crate::rig::{Rig, batch, clear};

/// Brings a follower into a state.
type Bring = fn(Source) -> Rig;

/// Gives it an input.
type Give = fn(&mut Rig);

/// Names a state and brings a follower into it. In all but the first, the batches 0 to 5 of the life 1 are applied.
const STATES: [(&str, Bring); 8] = [
    ("new", Rig::new),
    ("following", |source| Rig::at(source, 5)),
    ("disconnected", |source| with(source, |rig| _ = rig.disconnect())),
    ("connected again", |source| with(source, |rig| _ = rig.connect())),
    ("again, and verified", |source| {
        with(source, |rig| {
            rig.connect();
            rig.replay_to(1, 5, ReplayOutcome::Complete);
        })
    }),
    ("after a gap to 8", |source| with(source, |rig| _ = rig.live(batch(1, 8)))),
    ("resting", |source| {
        with(source, |rig| {
            rig.live(batch(1, 8));
            if rig.asked.is_some() {
                rig.replay_to(1, 5, ReplayOutcome::Incomplete);
            }
        })
    }),
    ("resyncing", |source| {
        with(source, |rig| {
            rig.follower.handle_findings(rig.now, Findings { crowded_out: 1, ..Findings::default() });
            rig.pass(1);
            if let Some(kv_events::admission::Request::Replay { session, .. }) = rig.asked {
                rig.follower.handle_replayed(rig.now, session, batch(1, 0));
                rig.told();
            }
        })
    }),
];

const INPUTS: [(&str, Give); 14] = [
    ("connected", |rig| rig.follower.handle_connected(rig.now)),
    ("disconnected", |rig| rig.follower.handle_disconnected(rig.now)),
    ("live 5", |rig| rig.follower.handle_live(rig.now, batch(1, 5))),
    ("live 6", |rig| rig.follower.handle_live(rig.now, batch(1, 6))),
    ("live 12", |rig| rig.follower.handle_live(rig.now, batch(1, 12))),
    ("live clear 6", |rig| rig.follower.handle_live(rig.now, clear(1, 6))),
    ("live 0 of life 2", |rig| rig.follower.handle_live(rig.now, batch(2, 0))),
    ("live 6 of life 2", |rig| rig.follower.handle_live(rig.now, batch(2, 6))),
    ("replay to 6", |rig| answered(rig, 1, 6, ReplayOutcome::Complete)),
    ("replay of life 2", |rig| answered(rig, 2, 6, ReplayOutcome::Complete)),
    ("replay empty", |rig| answered(rig, 1, 0, ReplayOutcome::Complete)),
    ("replay fails", |rig| answered(rig, 1, 0, ReplayOutcome::Incomplete)),
    ("lagged", |rig| rig.follower.handle_lagged(rig.now)),
    ("6 s pass", |rig| {
        rig.now += Duration::from_secs(6);
        rig.follower.handle_timeout(rig.now);
    }),
];

fn with(source: Source, change: impl Fn(&mut Rig)) -> Rig {
    let mut rig = Rig::at(source, 5);
    change(&mut rig);
    rig
}

/// Answers the question under way, if there is one: from where it asked up to `last`.
fn answered(rig: &mut Rig, life: u64, last: u64, outcome: ReplayOutcome) {
    let Some(kv_events::admission::Request::Replay { session, from }) = rig.asked.take() else { return };
    (from.max(1)..=last).for_each(|sequence| rig.follower.handle_replayed(rig.now, session, batch(life, sequence)));
    rig.follower.handle_replay_end(rig.now, session, outcome);
}

fn table() -> String {
    let mut out = String::new();
    for source in [Source::EngineWithReplay, Source::Engine] {
        for (state, bring) in STATES {
            let begun = bring(source);
            writeln!(out, "{source:?}, {state}: {}", begun.trust()).expect("to memory");
            for (input, give) in INPUTS {
                let mut rig = begun.clone();
                give(&mut rig);
                let told = rig.told();
                writeln!(out, "    {input:18} {:34} {}", if told.is_empty() { "-" } else { &told }, rig.trust())
                    .expect("to memory");
            }
        }
    }
    out
}

#[test]
fn every_state_and_input_is_as_it_is_written_down() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/admission/table.txt");
    let table = table();
    if std::env::var_os("KV_WRITE_TABLE").is_some() {
        std::fs::write(path, &table).expect("the table can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let differences: Vec<_> = table.lines().zip(written.lines()).filter(|(is, was)| is != was).collect();
    assert!(table == written, "KV_WRITE_TABLE=1 writes it anew; now and then: {differences:#?}");
}
