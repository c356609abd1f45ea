//! A relay as the source.

use kv_events::admission::SnapshotPart;
use kv_events::{Batch, Delivery, Incarnation, Source, Trust};

use crate::rig::{Rig, batch};

fn named(incarnation: Incarnation, sequence: u64) -> Delivery {
    Delivery { incarnation: Some(incarnation), fingerprint: None, ..batch(1, sequence) }
}

fn part(incarnation: Incarnation, index: u32, count: u32, unknown_before: u64) -> SnapshotPart {
    SnapshotPart { incarnation, through: 40, index, count, unknown_before, lost: 0, bytes: 0, batch: Batch::default() }
}

fn life() -> Incarnation {
    Incarnation::first(77)
}

fn at(last: u64) -> Rig {
    let mut rig = Rig::new(Source::Relay);
    rig.connect();
    (0..=last).for_each(|sequence| _ = rig.live(named(life(), sequence)));
    rig
}

#[test]
fn a_gap_is_resumed_once_and_then_owned_up_to_and_repaired_from_a_snapshot() {
    let mut rig = at(5);
    assert_eq!(rig.live(named(life(), 9)), "?resubscribe>5");
    assert_eq!(rig.live(named(life(), 10)), "", "the old stream is over");
    rig.connect();
    assert_eq!(rig.live(named(life(), 9)), "9");
    assert!(matches!(rig.follower.trust(), Trust::Degraded(worth) if worth.lost == 3 && worth.repairable));
    assert_eq!(rig.pass(1), "?resubscribe");
    rig.connect();
    rig.follower.handle_snapshot(rig.now, part(life(), 0, 2, 0));
    assert_eq!((rig.told().as_str(), rig.trust()), ("restart 40", "resyncing"));
    rig.follower.handle_snapshot(rig.now, part(life(), 1, 2, 0));
    assert_eq!((rig.told().as_str(), rig.follower.trust()), ("40", Trust::ExactAsOf { sequence: 40 }));
    assert_eq!(rig.live(named(life(), 41)), "41");
}

#[test]
fn a_relay_that_is_mistrusted_is_asked_for_everything() {
    let mut rig = at(5);
    assert!(rig.follower.handle_mistrusted(rig.now));
    assert_eq!(rig.told(), "?resubscribe");
    assert_eq!(rig.live(named(life(), 6)), "", "the old stream is over");
    rig.connect();
    rig.follower.handle_snapshot(rig.now, part(life(), 0, 1, 0));
    assert_eq!((rig.told().as_str(), rig.follower.trust()), ("restart 40", Trust::ExactAsOf { sequence: 40 }));
}

/// D9, P34: the cursor after a snapshot is the snapshot's, and what it lacks is said.
#[test]
fn a_snapshot_sets_the_cursor_and_says_what_it_lacks() {
    let mut rig = at(5);
    rig.follower.handle_snapshot(rig.now, part(life(), 0, 1, 12));
    assert_eq!(rig.follower.position().unwrap().sequence, 40);
    assert!(matches!(rig.follower.trust(), Trust::Degraded(worth) if worth.unknown_before == 12 && !worth.repairable));
    rig.told();
    assert_eq!(rig.live(named(life(), 40)), "", "a repeat is stale");
}

/// What a relay has lost may have removed what its snapshot tells: such a snapshot is not called exact.
#[test]
fn a_snapshot_of_a_relay_that_lost_batches_may_overstate() {
    let mut rig = at(5);
    rig.follower.handle_snapshot(rig.now, SnapshotPart { lost: 3, ..part(life(), 0, 1, 12) });
    let trust = rig.follower.trust();
    assert!(matches!(trust, Trust::Degraded(worth) if worth.lost == 3 && worth.unknown_before == 12 && !worth.repairable));
    assert!(trust.may_overstate());
    rig.told();
    rig.follower.handle_heartbeat(rig.now, life(), 40, true);
    assert_eq!(rig.trust(), "degraded", "that it is the last does not bring back what was lost");
}

#[test]
fn half_a_snapshot_is_worth_nothing() {
    let mut rig = at(5);
    rig.follower.handle_snapshot(rig.now, part(life(), 0, 3, 0));
    rig.told();
    assert_eq!(rig.disconnect(), "restart ?resubscribe");
    rig.connect();
    rig.follower.handle_snapshot(rig.now, part(life(), 0, 3, 0));
    rig.follower.handle_snapshot(rig.now, part(life(), 2, 3, 0));
    assert!(rig.told().ends_with("restart ?resubscribe"), "a part is missing");
    rig.connect();
    rig.follower.handle_snapshot(rig.now, part(life(), 0, 3, 0));
    rig.told();
    assert_eq!(rig.live(named(life(), 41)), "restart ?resubscribe", "what follows it came too early");
}

/// Found by the fuzz target `follower`: a part's place was checked, and not what it is a part of.
#[test]
fn parts_of_two_snapshots_are_never_put_together() {
    for other in [SnapshotPart { through: 39, ..part(life(), 1, 3, 0) }, part(life(), 1, 2, 0), part(life().next(), 1, 3, 0)] {
        let mut rig = at(5);
        rig.follower.handle_snapshot(rig.now, part(life(), 0, 3, 0));
        rig.told();
        rig.follower.handle_snapshot(rig.now, other);
        assert_eq!(rig.told(), "restart ?resubscribe");
    }
}

/// 1.6 (ii): the publisher started again while the gateway was away.
#[test]
fn another_life_begins_the_stream_anew_whatever_its_numbers() {
    let mut rig = at(5);
    let next = life().next();
    assert_eq!(rig.live(named(next, 6)), "restart 6");
    assert_eq!(rig.follower.position().unwrap().incarnation, next);
    assert!(matches!(rig.follower.trust(), Trust::Degraded(worth) if worth.unknown_before == 6));
}

#[test]
fn a_relay_that_cannot_resume_is_asked_for_everything() {
    let mut rig = at(5);
    rig.follower.handle_rejected(rig.now);
    assert_eq!(rig.told(), "restart ?resubscribe");
    rig.connect();
    assert_eq!(rig.live(named(life().next(), 0)), "0");
    assert_eq!(rig.follower.trust(), Trust::ExactAsOf { sequence: 0 });
}

#[test]
fn a_history_that_begins_at_0_replaces_what_was_held() {
    let mut rig = at(5);
    rig.live(named(life(), 9));
    rig.connect();
    rig.live(named(life(), 9));
    rig.pass(1);
    rig.connect();
    assert_eq!(rig.live(named(life(), 0)), "clear 0");
    (1..=9).for_each(|sequence| _ = rig.live(named(life(), sequence)));
    assert_eq!(rig.follower.trust(), Trust::ExactAsOf { sequence: 9 });
}

#[test]
fn a_heartbeat_confirms_the_last_batch_and_enters_no_cursor() {
    let mut rig = at(5);
    rig.follower.handle_heartbeat(rig.now, life(), 5, true);
    assert_eq!((rig.told().as_str(), rig.trust()), ("", "exact"));
    rig.follower.handle_heartbeat(rig.now, life(), 3, true);
    assert_eq!((rig.told().as_str(), rig.follower.position().unwrap().sequence), ("", 5));
    rig.follower.handle_heartbeat(rig.now, life(), 6, true);
    assert_eq!(rig.told(), "?resubscribe>5", "the end of the stream was lost");
}

/// Relays of ours end the stream instead.
#[test]
fn a_heartbeat_of_another_life_or_amid_a_snapshot_begins_the_stream_anew() {
    let mut rig = at(5);
    rig.follower.handle_heartbeat(rig.now, life().next(), 5, true);
    assert_eq!((rig.told().as_str(), rig.trust()), ("restart ?resubscribe", "unheard"));
    let mut rig = at(5);
    rig.follower.handle_snapshot(rig.now, part(life(), 0, 2, 0));
    rig.told();
    rig.follower.handle_heartbeat(rig.now, life(), 5, true);
    assert_eq!((rig.told().as_str(), rig.trust()), ("restart ?resubscribe", "unheard"));
}

#[test]
fn a_broken_connection_is_resumed_behind_the_last_batch() {
    let mut rig = at(5);
    assert_eq!(rig.disconnect(), "?resubscribe>5");
    assert_eq!(rig.disconnect(), "", "once");
    rig.connect();
    assert_eq!(rig.live(named(life(), 6)), "6");
}

/// Found by the simulation: while the parts of such a snapshot came, what they told was shown as all true.
#[test]
fn a_snapshot_of_a_relay_that_lost_batches_may_overstate_from_its_first_part() {
    let mut rig = at(5);
    rig.follower.handle_snapshot(rig.now, SnapshotPart { lost: 3, ..part(life(), 0, 2, 0) });
    assert!(rig.follower.trust().may_overstate(), "{:?}", rig.follower.trust());
    rig.follower.handle_snapshot(rig.now, part(life().next(), 0, 2, 0));
    assert_eq!(rig.trust(), "resyncing", "another one, which has lost nothing");
}

/// Found by the simulation: the relay did not know whether its publisher was still the same, and its readers called it exact.
#[test]
fn what_a_relay_doubts_is_not_verified_until_it_says_so() {
    let mut rig = at(5);
    rig.follower.handle_doubt(rig.now, true);
    assert!(matches!(rig.follower.trust(), Trust::Degraded(worth) if worth.unverified && !worth.repairable));
    assert_eq!(rig.live(named(life(), 6)), "6");
    assert!(rig.follower.trust().may_overstate());
    rig.follower.handle_doubt(rig.now, false);
    assert_eq!(rig.follower.trust(), Trust::ExactAsOf { sequence: 6 });
    rig.disconnect();
    rig.follower.handle_doubt(rig.now, true);
    assert_eq!(
        rig.follower.trust(),
        Trust::ExactAsOf { sequence: 6 },
        "what is said before the next connection is of the old one"
    );
}

/// Found by the simulation, seed 40789: the snapshot's first part made the stream forgotten, and the doubt that came with it too.
#[test]
fn a_doubt_outlives_what_its_message_makes_forgotten() {
    let doubted = |message: fn(&mut Rig)| {
        let mut rig = at(5);
        rig.follower.handle_doubt(rig.now, true);
        message(&mut rig);
        matches!(rig.follower.trust(), Trust::Degraded(worth) if worth.unverified)
    };
    assert!(doubted(|rig| rig.follower.handle_snapshot(rig.now, part(life(), 0, 1, 0))), "a snapshot of one part");
    assert!(doubted(|rig| _ = rig.live(named(life().next(), 0))), "another life's first batch");
    assert!(!doubted(|rig| rig.follower.handle_rejected(rig.now)), "nothing is held then");
}

/// Found by the simulation: a connection that broke before the repair was asked for left a quiet stream degraded for ever.
#[test]
fn a_repair_that_a_broken_connection_forestalled_is_asked_for_on_the_next() {
    let mut rig = Rig::new(Source::Relay);
    rig.connect();
    assert_eq!(rig.live(named(life(), 3)), "3");
    assert_eq!(rig.disconnect(), "?resubscribe>3");
    rig.connect();
    assert_eq!(rig.pass(1), "?resubscribe");
}
