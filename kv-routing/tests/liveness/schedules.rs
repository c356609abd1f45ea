//! What must hold whatever happens in whatever order.

use std::time::Duration;

use kv_routing::liveness::{Cause, Contact, EngineSilence, Report, Task, Veto};
use proptest::prelude::*;

use crate::rig::{Rig, s};

#[derive(Clone, Debug)]
enum Step {
    Pass {
        ms: u64,
    },
    /// The clock goes back, and the caller sweeps.
    Back {
        ms: u64,
    },
    Sweep,
    Contact(Contact),
    Fail,
    Report {
        running: u32,
        waiting: u32,
        pushed: bool,
        silence_ms: Option<u64>,
        reports_steps: bool,
    },
    Begin(Task),
    Chunk(usize),
    FirstToken(usize),
    Finish(usize),
    Drop(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let tokens = prop_oneof![0u64..20_000, Just(u64::MAX)];
    prop_oneof![
        4 => prop_oneof![Just(0), 1u64..5_000, Just(130_000)].prop_map(|ms| Step::Pass { ms }),
        1 => (0u64..100_000).prop_map(|ms| Step::Back { ms }),
        2 => Just(Step::Sweep),
        2 => prop_oneof![Just(Contact::Traffic), Just(Contact::Probe)].prop_map(Step::Contact),
        2 => Just(Step::Fail),
        3 => (0u32..3, 0u32..3, any::<bool>(), proptest::option::of(0u64..9_000), any::<bool>()).prop_map(
            |(running, waiting, pushed, silence_ms, reports_steps)| Step::Report { running, waiting, pushed, silence_ms, reports_steps }
        ),
        5 => (tokens, 0..3).prop_map(|(tokens, kind)| Step::Begin(match kind {
            0 => Task::whole(tokens),
            1 => Task::prefill_leg(tokens),
            _ => Task::streamed(tokens),
        })),
        2 => any::<usize>().prop_map(Step::Chunk),
        1 => any::<usize>().prop_map(Step::FirstToken),
        1 => any::<usize>().prop_map(Step::Finish),
        2 => any::<usize>().prop_map(Step::Drop),
    ]
}

/// Makes the step. Returns whether the engine has said in it that it is silent.
fn make(rig: &mut Rig, step: &Step) -> bool {
    let place = |nth: usize, rig: &Rig| (!rig.tickets.is_empty()).then(|| nth % rig.tickets.len());
    match *step {
        Step::Pass { ms } => rig.pass(Duration::from_millis(ms).as_secs_f64()),
        Step::Back { ms } => {
            rig.now = rig.now.saturating_sub(Duration::from_millis(ms));
            rig.tracker.handle_timeout(rig.now);
        }
        Step::Sweep => rig.tracker.handle_timeout(rig.now),
        Step::Contact(contact) => rig.contact(contact),
        Step::Fail => rig.fail(),
        Step::Report { running, waiting, pushed, silence_ms, reports_steps } => {
            let silence = silence_ms.map(Duration::from_millis);
            let engine = silence.map(|silence| EngineSilence { silence, reports_steps, prefill_tokens: 100 });
            rig.report(Report { running, waiting, pushed, engine });
            return pushed && running + waiting > 0 && silence.is_some_and(|silence| silence >= s(3.0));
        }
        Step::Begin(task) => rig.begin(1, task),
        Step::Chunk(nth) => _ = place(nth, rig).map(|nth| rig.tickets[nth].progress(rig.now)),
        Step::FirstToken(nth) => _ = place(nth, rig).map(|nth| rig.tickets[nth].first_token(rig.now)),
        Step::Finish(nth) => _ = place(nth, rig).map(|nth| rig.tickets.swap_remove(nth).finish(rig.now)),
        Step::Drop(nth) => _ = place(nth, rig).map(|nth| drop(rig.tickets.swap_remove(nth))),
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]
    #[test]
    fn the_invariants_hold_in_any_schedule(steps in proptest::collection::vec(any_step(), 1..120)) {
        let mut rig = Rig::new();
        let mut before = None;
        for step in &steps {
            let tracked_before = rig.vitals.tracked();
            let said_silent = make(&mut rig, step);
            let told = rig.told();
            for transition in &told {
                prop_assert_eq!(transition.from, before, "transitions follow on each other");
                prop_assert!(transition.to != transition.from);
                prop_assert!(!(transition.from == Some(Veto::Unreachable) && transition.to == Some(Veto::Wedged)), "never re-labelled");
                before = transition.to;
                let work = tracked_before.max(rig.vitals.tracked()) > 0;
                match transition.cause {
                    Cause::Pile | Cause::Queue => prop_assert!(work, "wedged without tracked work: {:?}", step),
                    Cause::EngineSilent => prop_assert!(said_silent, "{:?}", step),
                    Cause::Probe => prop_assert!(!transition.promotes()),
                    _ => {}
                }
            }
            prop_assert_eq!(rig.veto(), before, "what is polled is what is read");
            for veto in Veto::ALL {
                prop_assert_eq!(rig.tracker.vetoed(veto), usize::from(before == Some(veto)), "the gauge of {}", veto);
            }
            if matches!(step, Step::Contact(_) | Step::Report { .. }) {
                prop_assert!(before != Some(Veto::Unreachable), "contact ends unreachable");
            }
            let streams = rig.tickets.len() as u64;
            prop_assert!(u64::from(rig.vitals.tracked()) <= streams);
        }
        // Whatever was, the end of all requests and a word from the worker end it, within the time for which an engine's word counts.
        rig.tickets.clear();
        prop_assert_eq!((rig.vitals.tracked(), rig.vitals.pending_prefill_tokens()), (0, 0));
        rig.contact(Contact::Traffic);
        for _ in 0..16 {
            rig.pass(1.0);
            rig.contact(Contact::Traffic);
        }
        prop_assert_eq!(rig.veto(), None);
    }
}
