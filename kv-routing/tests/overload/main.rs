//! Steering, and turning away.

use std::fmt::Write as _;
use std::time::Duration;

use kv_routing::liveness::Veto;
use kv_routing::overload::{Pool, Refused, Sheds, Standing, Steering};

const SHED: Steering = Steering { shed: true, retry_after: Duration::from_secs(10) };

fn standing(ready: bool, veto: bool, overloaded: bool) -> Standing {
    Standing { ready, veto: veto.then_some(Veto::Wedged), overloaded }
}

fn all() -> Vec<Standing> {
    let flags = [false, true];
    flags
        .into_iter()
        .flat_map(|ready| flags.into_iter().flat_map(move |veto| flags.map(move |overloaded| standing(ready, veto, overloaded))))
        .collect()
}

fn word(worker: Standing) -> String {
    let words = [(!worker.ready, "not ready"), (worker.veto.is_some(), "vetoed"), (worker.overloaded, "overloaded")];
    let said: Vec<&str> = words.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect();
    if said.is_empty() { "well".to_owned() } else { said.join(" ") }
}

/// Every fleet of two kinds of workers.
fn table() -> String {
    let mut out = String::from("workers; steering: who is chosen; with shed: who is chosen\n");
    for (place, first) in all().into_iter().enumerate() {
        for second in &all()[place..] {
            let fleet = [first, *second];
            let chosen = |steering: Steering| match steering.pool(fleet) {
                Ok(pool) => {
                    let admitted: Vec<String> = fleet.into_iter().filter(|worker| pool.admits(*worker)).map(word).collect();
                    format!("{}{}", if pool.is_fallback() { "at least load: " } else { "" }, admitted.join(" + "))
                }
                Err(Refused::Shed { .. }) => "shed".to_owned(),
                Err(Refused::NobodyReady) => "nobody".to_owned(),
            };
            let row = format!("{:62} {:66} {}", fleet.map(word).join(" + "), chosen(Steering::default()), chosen(SHED));
            writeln!(out, "{}", row.trim_end()).expect("to memory");
        }
    }
    out
}

#[test]
fn every_fleet_is_steered_as_it_is_written_down() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/overload/table.txt");
    let table = table();
    if std::env::var_os("KV_WRITE_TABLE").is_some() {
        std::fs::write(path, &table).expect("the table can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let differences: Vec<_> = table.lines().zip(written.lines()).filter(|(is, was)| is != was).collect();
    assert!(table == written, "KV_WRITE_TABLE=1 writes it anew; now and then: {differences:#?}");
}

#[test]
fn a_veto_steers_and_never_refuses() {
    for fleet in [vec![standing(true, true, true)], vec![standing(true, true, false), standing(true, false, true)]] {
        let pool = Steering::default().pool(fleet.iter().copied()).unwrap();
        assert!(fleet.iter().any(|worker| pool.admits(*worker)), "{fleet:?}");
    }
    assert_eq!(Steering::default().pool([]), Err(Refused::NobodyReady));
    assert_eq!(SHED.pool([]), Err(Refused::NobodyReady), "an empty pool has too little, not too much");
}

// Defect 30.
#[test]
fn a_shed_is_final_and_counted_once() {
    let sheds = Sheds::default();
    let (busy, well) = (standing(true, false, true), standing(true, false, false));
    let mut request = sheds.request();
    let shed = request.pool(&SHED, [busy]).unwrap_err();
    assert!(!shed.is_retryable() && shed == Refused::Shed { retry_after: Duration::from_secs(10) });
    for _ in 0..3 {
        assert_eq!(request.pool(&SHED, [well]), Err(shed), "a caller that tries again all the same");
    }
    assert_eq!(sheds.count(), 1);
    assert!(sheds.request().pool(&SHED, [busy]).is_err());
    assert_eq!(sheds.count(), 2);
    let mut unlucky = sheds.request();
    assert_eq!(unlucky.pool(&SHED, [standing(false, false, false)]), Err(Refused::NobodyReady));
    assert_eq!(unlucky.pool(&SHED, [well]), Ok(Pool::Eligible), "this may be tried again");
    assert_eq!(sheds.count(), 2);
}
