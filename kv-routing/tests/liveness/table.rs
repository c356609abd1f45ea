//! Every state with every input, compared with what is written down.

use crate::written::assert_written;
use std::fmt::Write as _;

use kv_routing::liveness::{Contact, Task};

use crate::rig::{Rig, polled, pushed, s, silent};

type Given = fn(&mut Rig);

fn states() -> [(&'static str, Rig); 9] {
    let begun = |give: Given| {
        let mut rig = Rig::new();
        give(&mut rig);
        rig
    };
    [
        ("idle", begun(|rig| rig.pass(1.0))),
        ("idle, pushes records", begun(|rig| rig.report(pushed(0, 0)))),
        ("idle, its connection just failed", begun(Rig::fail)),
        ("one stream, silent for 4 s", {
            let mut rig = Rig::new();
            rig.begin(1, Task::streamed(150));
            rig.pass(4.0);
            rig
        }),
        ("four streams, just begun", begun(|rig| rig.begin(4, Task::streamed(150)))),
        ("four whole answers, silent for 4 s", {
            let mut rig = Rig::new();
            rig.begin(4, Task::whole(150));
            rig.pass(4.0);
            rig
        }),
        ("wedged by its pile", Rig::piled()),
        ("wedged by its own account", {
            let mut rig = Rig::new();
            rig.pass(4.0);
            rig.report(silent(5.0));
            rig
        }),
        ("unreachable", Rig::lost()),
    ]
}

const INPUTS: &[(&str, Given)] = &[
    ("contact", |rig| rig.contact(Contact::Traffic)),
    ("probe", |rig| rig.contact(Contact::Probe)),
    ("progress", |rig| {
        rig.tracker.handle_progress(rig.now, rig.worker);
    }),
    ("connection fails", Rig::fail),
    ("fails, 3 s pass", |rig| {
        rig.fail();
        rig.pass(3.0);
    }),
    ("poll: nothing waits", |rig| rig.report(polled(4, 0))),
    ("poll: 3 wait", |rig| rig.report(polled(4, 3))),
    ("record: nothing waits", |rig| rig.report(pushed(4, 0))),
    ("record: 3 wait", |rig| rig.report(pushed(4, 3))),
    ("record: silent 5 s", |rig| rig.report(silent(5.0))),
    ("a stream more, swept", |rig| {
        rig.begin(1, Task::streamed(150));
        rig.pass(0.25);
    }),
    ("all end, swept", |rig| {
        rig.tickets.clear();
        rig.pass(0.25);
    }),
    ("4 s pass", |rig| rig.pass(4.0)),
    ("20 s pass", |rig| rig.pass(20.0)),
];

fn table() -> String {
    let mut out = String::new();
    let count = states().len();
    for state in 0..count {
        writeln!(out, "{}", states()[state].0).expect("to memory");
        for (input, give) in INPUTS {
            let (_, mut rig) = states().into_iter().nth(state).expect("counted above");
            rig.told();
            give(&mut rig);
            let mut said: Vec<String> = rig.told().iter().map(word).collect();
            if said.is_empty() {
                said.push("-".to_owned());
            }
            let veto = rig.veto().map_or("clear", |veto| veto.as_str());
            writeln!(out, "    {input:22} {:46} {veto}", said.join(", ")).expect("to memory");
        }
    }
    out
}

fn word(transition: &kv_routing::liveness::Transition) -> String {
    let to = transition.to.map_or("clear", |veto| veto.as_str());
    let promotes = if transition.promotes() { "!" } else { "" };
    assert!(transition.at >= s(100.0), "{transition:?}");
    format!("{to}{promotes} ({})", transition.cause)
}

#[test]
fn every_state_and_input_is_as_it_is_written_down() {
    assert_written("liveness/table.txt", &format!("state; input, what is said (! promotes), veto afterwards\n{}", table()));
}
