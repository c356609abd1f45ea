//! Steering, and turning away.

#[path = "../written/mod.rs"]
mod written;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kv_routing::overload::Sheds;
use kv_routing::{Branch, Candidate, NoCandidate, Policy, Request, Router};

use crate::written::assert_written;

fn standing(ready: bool, vetoed: bool, overloaded: bool) -> Candidate {
    Candidate { ready, vetoed, overloaded, ..Candidate::default() }
}

fn router(shed_overloaded: bool) -> Router {
    Router { shed_overloaded, ..Router::new(Policy::Random) }
}

fn decide(router: &Router, fleet: &[Candidate], seed: u64) -> Result<(usize, Branch), NoCandidate> {
    router.decide(Request::default(), fleet, seed).map(|decision| (decision.choice.index, decision.choice.branch))
}

fn all() -> Vec<Candidate> {
    let flags = [false, true];
    flags
        .into_iter()
        .flat_map(|ready| flags.into_iter().flat_map(move |veto| flags.map(move |overloaded| standing(ready, veto, overloaded))))
        .collect()
}

fn word(worker: Candidate) -> String {
    let words = [(!worker.ready, "not ready"), (worker.vetoed, "vetoed"), (worker.overloaded, "overloaded")];
    let said: Vec<&str> = words.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect();
    if said.is_empty() { "well".to_owned() } else { said.join(" ") }
}

/// Who of the fleet is chosen, over many seeds.
fn chosen(router: &Router, fleet: [Candidate; 2]) -> String {
    let choices: Result<BTreeSet<_>, _> = (0..32)
        .map(|seed| decide(router, &fleet, seed).map(|(at, branch)| (at, matches!(branch, Branch::Fallback(_)))))
        .collect();
    match choices {
        Ok(choices) => {
            let is_fallback = choices.iter().any(|choice| choice.1);
            let words: Vec<String> = choices.into_iter().map(|(at, _)| word(fleet[at])).collect();
            format!("{}{}", if is_fallback { "last resort: " } else { "" }, words.join(" + "))
        }
        Err(NoCandidate::Shed { .. }) => "shed".to_owned(),
        Err(_) => "nobody".to_owned(),
    }
}

/// Every fleet of two kinds of workers.
fn table() -> String {
    let mut out = String::from("workers; steering: who is chosen; with shed: who is chosen\n");
    for (place, first) in all().into_iter().enumerate() {
        for second in &all()[place..] {
            let fleet = [first, *second];
            let (steered, shed) = (chosen(&router(false), fleet), chosen(&router(true), fleet));
            let row = format!("{:62} {steered:66} {shed}", fleet.map(word).join(" + "));
            writeln!(out, "{}", row.trim_end()).expect("to memory");
        }
    }
    out
}

#[test]
fn every_fleet_is_steered_as_it_is_written_down() {
    assert_written("overload/table.txt", &table());
}

#[test]
fn a_veto_steers_and_never_refuses() {
    for fleet in [vec![standing(true, true, true)], vec![standing(true, true, false), standing(true, false, true)]] {
        assert!(decide(&router(false), &fleet, 0).is_ok(), "{fleet:?}");
    }
    for shed in [false, true] {
        let refused = decide(&router(shed), &[], 0).unwrap_err();
        assert_eq!(refused, NoCandidate::EmptyPool, "an empty pool has too little, not too much");
        assert!(refused.is_retryable());
    }
}

// Defect 30.
#[test]
fn a_shed_is_final_and_counted_once() {
    let sheds = Sheds::default();
    let (busy, well) = (standing(true, false, true), standing(true, false, false));
    let mut request = sheds.request();
    let shed = request.decide(|| decide(&router(true), &[busy], 0)).unwrap_err();
    assert!(!shed.is_retryable() && shed == NoCandidate::Shed { candidates: 1 });
    for _ in 0..3 {
        let again = request.decide(|| decide(&router(true), &[well], 0));
        assert_eq!(again, Err(shed), "a caller that tries again all the same");
    }
    assert_eq!(sheds.count(), 1);
    assert!(sheds.request().decide(|| decide(&router(true), &[busy], 0)).is_err());
    assert_eq!(sheds.count(), 2);
    let mut unlucky = sheds.request();
    let down = unlucky.decide(|| decide(&router(true), &[standing(false, false, false)], 0));
    assert_eq!(down, Err(NoCandidate::NoneReady { candidates: 1 }));
    assert!(unlucky.decide(|| decide(&router(true), &[well], 0)).is_ok(), "this may be tried again");
    assert_eq!(sheds.count(), 2);
}
