//! An engine's publisher, with its replay socket and without.

use std::time::Duration;

use kv_events::admission::{Degraded, Findings};
use kv_events::limits::{HELD_BATCHES_MAX, REPLAY_TRIES_MAX};
use kv_events::{Batch, Delivery, Follower, Loss, ReplayOutcome, Source, Trust};

use crate::rig::{Rig, batch, clear};

const REPLAYS: Source = Source::EngineWithReplay;
const ALONE: Source = Source::Engine;
const COMPLETE: ReplayOutcome = ReplayOutcome::Complete;
const INCOMPLETE: ReplayOutcome = ReplayOutcome::Incomplete;

fn degraded(rig: &Rig) -> Degraded {
    match rig.follower.trust() {
        Trust::Degraded(degraded) => degraded,
        trust => panic!("not degraded: {trust:?}"),
    }
}

/// R1, P1, P37: engine restarts in place, numbers begin at 0 again.
#[test]
fn a_restart_in_place_restarts_the_stream_with_a_replay_socket_and_without() {
    for first in [batch(2, 0), clear(2, 0), batch(2, 1)] {
        let mut rig = Rig::at(ALONE, 5);
        let sequence = first.sequence;
        assert_eq!(rig.live(first.clone()), format!("restart {sequence}"));
        assert_eq!(rig.follower.incarnation().life, 1);
        let mut rig = Rig::at(REPLAYS, 5);
        assert_eq!(rig.live(first), "restart ?0");
        assert_eq!(rig.replay_to(2, sequence, COMPLETE).split(' ').next(), Some("0"));
        assert_eq!((rig.trust(), rig.follower.counts().restarts), ("exact", 1));
    }
}

/// What was told is not what was meant, and nothing in the stream shows it: an answer does.
#[test]
fn a_stream_that_is_mistrusted_is_asked_for_whole_and_cleared_only_if_it_can_be_rebuilt() {
    let mut rig = Rig::at(REPLAYS, 5);
    assert!(rig.follower.handle_mistrusted(rig.now));
    assert_eq!(rig.told(), "?0");
    assert_eq!(rig.replay_to(1, 5, COMPLETE), "clear 0 1 2 3 4 5 ?5");
    assert_eq!((rig.trust(), rig.follower.counts().rebuilds), ("exact", 1));
    assert!(rig.follower.handle_mistrusted(rig.now));
    rig.told();
    assert_eq!(rig.answer((3..=5).map(|sequence| batch(1, sequence)), COMPLETE), "", "its start is not kept any more");
    assert_eq!((rig.trust(), rig.follower.counts().rebuilds), ("exact", 1));
    // What it says now is not what it said.
    assert!(rig.follower.handle_mistrusted(rig.now));
    rig.told();
    assert!(rig.replay_to(2, 5, COMPLETE).starts_with("restart ?0 0 1 2 3 4 5"));
    rig.disconnect();
    assert!(!rig.follower.handle_mistrusted(rig.now) && !Rig::at(ALONE, 5).follower.handle_mistrusted(rig.now));
}

/// Found by a million seeds: the replay socket was silent while a stream was joined late, and told the next life when it was asked for a
/// repair; what the life before it had sent came last, with the number that followed.
#[test]
fn what_a_former_life_sent_is_not_taken_for_the_life_that_repaired_the_stream() {
    let mut rig = Rig::new(REPLAYS);
    rig.connect();
    rig.lives(1, 1..=3);
    assert_eq!(rig.answer([], ReplayOutcome::Incomplete), "1 2 3");
    assert_eq!(degraded(&rig).unknown_before, 1);
    assert_eq!(rig.pass(1), "?0");
    assert_eq!(rig.replay_to(2, 3, COMPLETE), "clear 0 1 2 3 ?3");
    assert_eq!(rig.trust(), "exact");
    assert_eq!(rig.lives(1, 4..=4), "?3", "whose is it?");
    rig.replay_to(2, 3, COMPLETE);
    assert_eq!((rig.follower.position().unwrap().sequence, rig.follower.counts().foreign), (3, 1));
    // Once the connection shows a batch of the new life, what follows is taken as it comes.
    assert_eq!(rig.lives(2, 3..=4), "4");
}

/// D15, 1.6 (i): the new life's numbers are past ours by the time the connection is back.
#[test]
fn a_restart_that_a_disconnection_hid_is_found_by_what_its_batches_say() {
    let mut rig = Rig::at(REPLAYS, 5);
    rig.disconnect();
    assert_eq!((rig.trust(), rig.connect().as_str()), ("exact as of the last sequence", "?5"));
    assert_eq!(rig.replay_to(2, 9, COMPLETE), "restart ?0 0 1 2 3 4 5 6 7 8 9 ?9");
    assert_eq!(rig.trust(), "exact");
}

#[test]
fn a_publisher_that_has_not_got_our_last_batch_has_started_again() {
    let mut rig = Rig::at(REPLAYS, 5);
    rig.disconnect();
    rig.connect();
    assert_eq!(rig.replay_to(2, 3, COMPLETE), "restart ?0 0 1 2 3 ?3");
    assert_eq!((rig.trust(), rig.follower.position().unwrap().sequence), ("exact", 3));
}

/// Without a replay socket nothing can tell, so it is said, until a clear or a restart.
#[test]
fn without_a_replay_socket_a_new_connection_is_not_verified() {
    let mut rig = Rig::at(ALONE, 5);
    rig.disconnect();
    rig.connect();
    let worth = degraded(&rig);
    assert!(worth.unverified && !worth.repairable && rig.follower.trust().may_overstate());
    assert_eq!((rig.lives(1, [6, 7]).as_str(), degraded(&rig).unverified), ("6 7", true));
    rig.live(clear(1, 8));
    assert_eq!(rig.follower.trust(), Trust::ExactAsOf { sequence: 8 });
}

#[test]
fn what_can_no_longer_be_verified_is_said_until_a_clear() {
    let unverified = || {
        let mut rig = Rig::at(REPLAYS, 5);
        rig.disconnect();
        rig.connect();
        rig.answer([], INCOMPLETE);
        assert_eq!(rig.lives(1, 6..=9), "6 7 8 9", "it goes on while the replay socket rests");
        assert!(degraded(&rig).unverified && degraded(&rig).repairable);
        assert_eq!(rig.pass(1), "?5", "from the last batch that is known to be of this life");
        rig
    };
    let mut rig = unverified();
    assert_eq!(rig.replay_to(1, 9, COMPLETE), "?9", "answers behind 9 may have been dropped");
    assert_eq!(rig.trust(), "exact");
    let mut rig = unverified();
    rig.answer((7..=9).map(|sequence| batch(1, sequence)), COMPLETE);
    assert!(degraded(&rig).unverified && !degraded(&rig).repairable, "the window has moved on");
    assert_eq!((rig.pass(5).as_str(), rig.replay_to(1, 9, COMPLETE).as_str()), ("?9", ""));
    assert!(degraded(&rig).unverified, "another question does not make it better");
    let mut rig = unverified();
    assert_eq!(rig.answer([5, 6, 7, 8, 10].map(|sequence| batch(1, sequence)), COMPLETE), "10", "9 was dropped");
    assert!(degraded(&rig).unverified, "and may have been another's");
    assert_eq!(rig.pass(1), "?5", "no batch that came in doubt tells lives apart");
    let mut rig = unverified();
    assert!(rig.answer((5..=9).map(|sequence| batch(u64::from(sequence > 5) + 1, sequence)), COMPLETE).starts_with("restart ?0"));
}

/// D10, D11, P2, P25, R2: an ordinary gap costs one question, and nothing that is held.
#[test]
fn a_gap_is_replayed_and_loses_nothing() {
    let mut rig = Rig::at(REPLAYS, 5);
    assert_eq!(rig.live(batch(1, 8)), "?5");
    assert_eq!(rig.lives(1, [9, 10]), "", "held until the replay ends");
    assert_eq!(rig.answer((5..=8).map(|sequence| batch(1, sequence)), COMPLETE), "6 7 8 9 10");
    assert_eq!((rig.trust(), rig.follower.counts().missed), ("exact", 0));
}

/// Defect 6: what a replay brought past the gap comes live too.
// #6.
#[test]
fn a_replay_that_overran_is_no_restart() {
    let mut rig = Rig::at(REPLAYS, 5);
    rig.live(batch(1, 8));
    assert_eq!(rig.replay_to(1, 12, COMPLETE), "6 7 8 9 10 11 12 ?12");
    assert_eq!(rig.lives(1, [9, 10, 11, 12, 13]), "13");
    assert_eq!(rig.follower.counts().restarts, 0);
}

/// R2, D12: a replay socket that is dead or silent holds nothing up, and is asked again with growing pauses.
#[test]
fn a_dead_replay_socket_leaves_the_stream_going() {
    let mut rig = Rig::at(REPLAYS, 5);
    assert_eq!(rig.live(batch(1, 8)), "?5");
    assert_eq!(rig.pass(4), "", "it is given 5 s to say something");
    assert_eq!(rig.pass(1), "8 ?stop");
    assert_eq!((degraded(&rig).lost, degraded(&rig).repairable), (2, true));
    assert_eq!(rig.lives(1, [9, 10, 12]), "9 10 12", "gaps are owned up to at once");
    let questions: Vec<_> = (0..200).map(|_| rig.pass(1)).filter(|told| told.contains("?0")).collect();
    assert!((8..16).contains(&questions.len()), "{} questions in 200 s", questions.len());
    assert!(rig.follower.next_timeout().is_some());
    rig.pass(60);
    while rig.asked.is_none_or(|request| !format!("{request:?}").contains("Replay {")) {
        rig.pass(1);
    }
    assert_eq!(rig.replay_to(1, 12, COMPLETE), "clear 0 1 2 3 4 5 6 7 8 9 10 11 12 ?12");
    assert_eq!(rig.trust(), "exact", "and repaired once it answers");
}

#[test]
fn a_replay_that_never_ends_is_given_up() {
    let mut rig = Rig::at(REPLAYS, 5);
    rig.disconnect();
    rig.connect();
    let Some(kv_events::admission::Request::Replay { session, .. }) = rig.asked.take() else { panic!("asked") };
    let mut told = String::new();
    for _ in 0..16 {
        rig.follower.handle_replayed(rig.now, session, batch(1, 5));
        told += &rig.pass(2);
    }
    assert!(told.contains("?stop"), "30 s are enough, though it was never silent for 5");
}

/// D9, P34: no number that comes makes it ask in a loop.
#[test]
fn a_gap_that_nobody_can_fill_is_settled_once() {
    let mut rig = Rig::at(REPLAYS, 5);
    assert_eq!(rig.live(batch(1, 9)), "?5");
    let answers = || [5, 9].map(|sequence| batch(1, sequence));
    assert_eq!(rig.answer(answers(), COMPLETE), "?5", "answers may have been dropped: once more");
    assert_eq!(rig.answer(answers(), COMPLETE), "9");
    assert_eq!((degraded(&rig).lost, rig.trust()), (3, "degraded"));
    // Whether it can be rebuilt is asked once too: the publisher has kept no start.
    assert_eq!(rig.pass(1), "?0");
    assert_eq!(rig.answer(answers(), COMPLETE), "");
    assert!(!degraded(&rig).repairable);
    for _ in 0..20 {
        assert_eq!(rig.pass(5), "?9", "silences are asked about, and no more");
        assert_eq!(rig.answer([batch(1, 9)], COMPLETE), "");
    }
}

// P37.
#[test]
fn a_loss_of_more_than_1024_throws_away_what_is_held_and_a_smaller_one_does_not() {
    for (next, told) in [(1030, "1030"), (1031, "clear 1031")] {
        let mut rig = Rig::at(ALONE, 5);
        assert_eq!(rig.live(batch(1, next)), told);
        let worth = degraded(&rig);
        assert_eq!((worth.lost, worth.unknown_before), if next == 1030 { (1024, 0) } else { (0, 1025) });
        assert_eq!(rig.follower.trust().may_overstate(), next == 1030);
    }
}

/// P20, P34: what was published before the subscriber came.
#[test]
fn a_late_join_is_replayed_or_owned_up_to() {
    let mut rig = Rig::new(REPLAYS);
    assert_eq!((rig.trust(), rig.connect().as_str()), ("unheard", "?0"));
    assert_eq!(rig.replay_to(1, 3, COMPLETE), "0 1 2 3 ?3");
    assert_eq!(rig.trust(), "exact");
    let mut rig = Rig::new(REPLAYS);
    rig.connect();
    assert_eq!(rig.answer((7..9).map(|sequence| batch(1, sequence)), COMPLETE), "7 8 ?8");
    assert_eq!((degraded(&rig).unknown_before, degraded(&rig).repairable), (7, false));
    assert!(!rig.follower.trust().may_overstate());
    let mut rig = Rig::new(ALONE);
    rig.connect();
    assert_eq!((rig.live(batch(1, 1)).as_str(), degraded(&rig).unknown_before), ("1", 1));
}

/// A publisher that keeps nothing answers as one that has published nothing.
#[test]
fn an_empty_answer_says_nothing() {
    let mut rig = Rig::new(REPLAYS);
    rig.connect();
    assert_eq!((rig.answer([], COMPLETE).as_str(), rig.trust()), ("", "unheard"));
}

/// Found on a second look: each silence ended such a stream's life, and called the nothing that was left exact.
#[test]
fn a_publisher_that_keeps_nothing_is_not_taken_for_another_life() {
    let mut rig = Rig::new(REPLAYS);
    rig.connect();
    rig.answer([], COMPLETE);
    // Nobody vouches for its first batches: they may be a former life's, on their way since.
    for sequence in 0..5 {
        rig.live(batch(1, sequence));
        while rig.follower.is_replaying() {
            rig.answer([], COMPLETE);
        }
        assert_ne!(rig.trust(), "exact");
    }
    let restarts = rig.follower.counts().restarts;
    for _ in 0..20 {
        rig.pass(4);
        while rig.follower.is_replaying() {
            rig.answer([], COMPLETE);
        }
        assert_ne!(rig.trust(), "exact");
    }
    assert_eq!(rig.follower.counts().restarts, restarts);
}

/// Amendment 7: a lost last batch shows nothing until somebody asks.
#[test]
fn a_silence_is_asked_about() {
    let mut rig = Rig::at(REPLAYS, 5);
    assert_eq!((rig.pass(4).as_str(), rig.pass(2).as_str()), ("", "?5"));
    assert_eq!(rig.replay_to(1, 6, COMPLETE), "6 ?6");
    let rig = Rig::at(ALONE, 5);
    assert_eq!((rig.follower.next_timeout(), rig.follower.trust()), (None, Trust::ExactAsOf { sequence: 5 }));
}

/// Found by the simulation (seed 357151): a slow answer to a question about a silence, while batches wait for its end.
#[test]
fn a_stream_that_has_batches_waiting_is_not_exact() {
    let mut rig = Rig::at(REPLAYS, 5);
    assert_eq!((rig.pass(6).as_str(), rig.trust()), ("?5", "exact"));
    assert_eq!((rig.live(batch(1, 6)).as_str(), rig.trust()), ("", "exact as of the last sequence"));
    let mut rig = Rig::at(REPLAYS, 5);
    rig.pass(6);
    let Some(kv_events::admission::Request::Replay { session, .. }) = rig.asked else { panic!("asked") };
    (5..=6).for_each(|sequence| rig.follower.handle_replayed(rig.now, session, batch(1, sequence)));
    assert_eq!(rig.follower.trust(), Trust::ExactAsOf { sequence: 6 }, "the silence hid a loss, and perhaps another");
}

/// Found by the simulation (seed 903022): a publisher's socket drops the last answer to a slow reader, and not the end marker
/// behind it.
#[test]
fn an_end_marker_behind_news_is_not_believed_until_it_comes_right_behind_the_last_batch() {
    let mut rig = Rig::new(REPLAYS);
    rig.connect();
    assert_eq!(rig.answer((0..=2).map(|sequence| batch(1, sequence)), COMPLETE), "0 1 2 ?2");
    assert_eq!(rig.follower.trust(), Trust::ExactAsOf { sequence: 2 });
    assert_eq!(rig.answer([2, 3].map(|sequence| batch(1, sequence)), COMPLETE), "3 ?3");
    assert_eq!((rig.answer([batch(1, 3)], COMPLETE).as_str(), rig.trust()), ("", "exact"));
}

/// The same on a connection that brings the end itself, as on a busy stream, where there is always news.
#[test]
fn a_live_batch_at_the_end_of_what_was_replayed_says_that_nothing_is_missing() {
    for last in [8, 9] {
        let mut rig = Rig::at(REPLAYS, 5);
        rig.live(batch(1, 8));
        rig.live(batch(1, 9));
        let told = rig.answer((5..=last).map(|sequence| batch(1, sequence)), COMPLETE);
        assert_eq!((told.as_str(), rig.trust()), ("6 7 8 9", "exact"), "no question is left");
    }
    let mut rig = Rig::at(REPLAYS, 5);
    rig.live(batch(1, 8));
    assert_eq!(rig.answer((5..=9).map(|sequence| batch(1, sequence)), COMPLETE), "6 7 8 9 ?9", "9 has not come live");
}

/// Exact says that a loss would show soon. While nobody can be asked it would not.
#[test]
fn a_stream_whose_replay_socket_rests_is_exact_as_of_its_last_batch() {
    let mut rig = Rig::at(REPLAYS, 5);
    rig.pass(6);
    rig.answer([], INCOMPLETE);
    assert_eq!((rig.live(batch(1, 6)).as_str(), rig.trust()), ("6", "exact as of the last sequence"));
    assert_eq!((rig.pass(1).as_str(), rig.replay_to(1, 6, COMPLETE).as_str(), rig.trust()), ("?6", "", "exact"));
}

#[test]
fn a_publisher_that_always_has_news_is_not_asked_in_a_loop() {
    let mut rig = Rig::new(REPLAYS);
    rig.connect();
    let mut last = 0;
    while rig.asked.is_some() {
        last += 1;
        rig.answer([last - 1, last].map(|sequence| batch(1, sequence)), COMPLETE);
    }
    assert_eq!(last, u64::from(REPLAY_TRIES_MAX) + 1);
    assert_eq!(rig.follower.trust(), Trust::ExactAsOf { sequence: last });
    assert_eq!((rig.pass(5), rig.answer([batch(1, last)], COMPLETE).as_str(), rig.trust()), (format!("?{last}"), "", "exact"));
}

/// A connection that may be an old one's rest is believed only once the replay socket shows one of its batches.
#[test]
fn the_first_batch_of_a_connection_is_shown_by_the_replay_socket_or_left() {
    let mut rig = Rig::at(REPLAYS, 5);
    rig.disconnect();
    rig.connect();
    rig.replay_to(2, 7, COMPLETE);
    assert_eq!(rig.live(batch(1, 8)), "?7", "contiguous, and of the former life");
    assert_eq!(rig.replay_to(2, 7, COMPLETE), "");
    assert_eq!((rig.follower.counts().foreign, rig.follower.position().unwrap().sequence), (1, 7));
    assert_eq!(rig.live(batch(2, 8)), "?7");
    assert_eq!((rig.replay_to(2, 8, COMPLETE).as_str(), rig.lives(2, [9]).as_str()), ("8", "9"));
}

/// A question says nothing of what came after it: the batch was published behind the answers, and is nobody else's.
#[test]
fn a_batch_that_came_during_a_replay_is_asked_about_by_the_next_one() {
    let mut rig = Rig::at(REPLAYS, 5);
    rig.disconnect();
    assert_eq!(rig.connect(), "?5");
    assert_eq!(rig.live(batch(1, 6)), "");
    assert_eq!(rig.answer([batch(1, 5)], COMPLETE), "?5");
    assert_eq!(rig.answer([batch(1, 5), batch(1, 6)], COMPLETE), "6");
    assert_eq!(rig.follower.counts().foreign, 0);
    assert_eq!(rig.live(batch(1, 7)), "7");
}

#[test]
fn what_was_held_when_a_restart_is_found_is_not_applied_after_it() {
    let mut rig = Rig::at(REPLAYS, 5);
    rig.live(batch(1, 8));
    assert_eq!(rig.replay_to(2, 7, COMPLETE), "restart ?0 0 1 2 3 4 5 6 7 ?7");
    assert_eq!(rig.follower.counts().foreign, 1);
}

#[test]
fn a_replay_socket_of_another_publisher_is_left_alone() {
    let mut rig = Rig::new(REPLAYS);
    rig.connect();
    rig.answer([], COMPLETE);
    let mut questions = 0;
    for sequence in 0..50 {
        rig.live(batch(1, sequence));
        while rig.asked.is_some() {
            questions += 1;
            rig.answer([], COMPLETE);
        }
        rig.now += Duration::from_millis(10);
    }
    assert!(questions < 10, "{questions} questions for 50 batches");
    assert_eq!(rig.trust(), "degraded");
}

#[test]
fn an_answer_that_breaks_off_is_asked_for_again_from_where_it_stopped_but_not_for_ever() {
    let mut rig = Rig::new(REPLAYS);
    rig.connect();
    let mut questions = 0;
    while rig.asked.is_some() {
        rig.answer([batch(1, questions), batch(1, questions + 1)], INCOMPLETE);
        questions += 1;
    }
    assert_eq!(questions, u64::from(REPLAY_TRIES_MAX) + 1);
    assert_eq!(rig.follower.position().unwrap().sequence, questions);
}

#[test]
fn a_socket_that_shows_ever_other_lives_is_not_asked_in_a_loop() {
    let mut rig = Rig::at(REPLAYS, 1);
    rig.pass(6);
    let mut questions = 0;
    while let Some(kv_events::admission::Request::Replay { session, .. }) = rig.asked.take() {
        questions += 1;
        rig.follower.handle_replayed(rig.now, session, batch(questions * 2, 1));
        rig.follower.handle_replayed(rig.now, session, batch(questions * 2 + 1, 1));
        rig.told();
    }
    assert!(questions <= u64::from(REPLAY_TRIES_MAX) + 1, "{questions}");
}

#[test]
fn what_finds_no_room_while_a_replay_is_under_way_is_asked_for_after_it() {
    let mut rig = Rig::at(REPLAYS, 5);
    rig.live(batch(1, 8));
    let last = 8 + HELD_BATCHES_MAX as u64 + 10;
    rig.lives(1, 9..=last);
    assert!(rig.follower.counts().overflowed > 0);
    rig.answer((5..=8).map(|sequence| batch(1, sequence)), COMPLETE);
    assert!(rig.asked.is_some(), "the end of what came is missing, and nothing else would show it");
    rig.replay_to(1, last, COMPLETE);
    assert_eq!((rig.trust(), rig.follower.position().unwrap().sequence), ("exact", last));
}

/// What the subscriber lost while a replay was under way may lie behind all that the replay tells.
#[test]
fn a_loss_while_a_replay_is_under_way_is_asked_about_after_it() {
    let mut rig = Rig::at(REPLAYS, 5);
    rig.live(batch(1, 8));
    rig.follower.handle_lagged(rig.now);
    assert_eq!(rig.told(), "", "one question at a time");
    assert_eq!(rig.answer((5..=8).map(|sequence| batch(1, sequence)), COMPLETE), "6 7 8 ?8");
    assert_eq!(rig.trust(), "exact as of the last sequence", "the answer does not speak of what came after the question");
    assert_eq!((rig.replay_to(1, 9, COMPLETE).as_str(), rig.trust()), ("9 ?9", "exact"));
}

#[test]
fn an_end_that_was_told_before_a_loss_is_not_believed_after_it() {
    let mut rig = Rig::at(REPLAYS, 5);
    rig.pass(6);
    rig.follower.handle_lagged(rig.now);
    rig.told();
    assert_eq!((rig.answer([batch(1, 5)], COMPLETE).as_str(), rig.trust()), ("?5", "exact as of the last sequence"));
}

/// 50 repeats of the cursor are stale, never a restart or a gap.
#[test]
fn repeats_are_stale() {
    for source in [REPLAYS, ALONE] {
        let mut rig = Rig::at(source, 5);
        assert_eq!(rig.lives(1, [5; 50]), "");
        assert_eq!(rig.live(clear(1, 5)), "", "the same fingerprint, whatever it says");
        assert_eq!(rig.lives(1, [4, 3, 0, 6]), "6");
        assert_eq!(rig.follower.counts().restarts, 0);
    }
}

#[test]
fn the_largest_numbers_do_no_harm() {
    for source in [REPLAYS, ALONE] {
        for last in [0, 5] {
            let mut rig = Rig::at(source, last);
            rig.live(batch(1, u64::MAX));
            rig.live(batch(1, u64::MAX - 1));
            rig.replay_to(1, last, COMPLETE);
            for sequence in [u64::MAX - 1, u64::MAX, 0, last + 1] {
                rig.live(batch(1, sequence));
                rig.replay_to(1, last + 1, COMPLETE);
                rig.pass(40);
                rig.replay_to(1, last + 1, COMPLETE);
            }
            assert_eq!(rig.follower.position().map(|position| position.sequence), Some(last + 1), "{source:?}");
        }
    }
}

#[test]
fn a_live_batch_under_the_number_of_the_end_marker_throws_nothing_away() {
    let mut rig = Rig::at(ALONE, 5);
    assert_eq!((rig.live(batch(1, u64::MAX)).as_str(), rig.follower.counts().foreign), ("", 1));
    assert_eq!((rig.live(batch(1, 6)).as_str(), rig.trust()), ("6", "exact as of the last sequence"));
}

/// No publisher has a batch under the end marker's number. Believed, it would be the last for ever.
#[test]
fn an_answer_under_the_number_of_the_end_marker_is_nobodys() {
    let mut rig = Rig::at(REPLAYS, 5);
    rig.pass(6);
    assert_eq!(rig.answer([5, u64::MAX, 6].map(|sequence| batch(1, sequence)), COMPLETE), "6 ?6");
    assert_eq!((rig.replay_to(1, 6, COMPLETE).as_str(), rig.trust(), rig.follower.counts().foreign), ("", "exact", 1));
    assert_eq!(rig.live(batch(1, 7)), "7");
}

#[test]
fn a_clock_that_jumps_does_no_harm() {
    let mut rig = Rig::at(REPLAYS, 5);
    for now in [Duration::MAX, Duration::ZERO, Duration::from_secs(1 << 40), Duration::from_secs(3)] {
        rig.follower.handle_timeout(now);
        rig.now = now;
        rig.told();
        rig.replay_to(1, 5, COMPLETE);
    }
    assert_eq!(rig.trust(), "exact");
    assert_eq!(rig.follower.next_timeout().map(|due| due <= Duration::from_secs(8)), Some(true));
}

/// P13 and the stores whose parent never came: the stream says so while they wait.
#[test]
fn what_applying_found_is_said_while_it_lasts() {
    let mut rig = Rig::at(REPLAYS, 5);
    let findings = Findings { waiting_blocks: 3, ..Findings::default() };
    rig.follower.handle_findings(rig.now, findings);
    assert_eq!((degraded(&rig).findings, degraded(&rig).since), (findings, rig.now));
    rig.follower.handle_findings(rig.now, Findings::default());
    assert_eq!(rig.trust(), "exact");
}

#[test]
fn a_stream_without_room_in_the_index_is_rebuilt_after_a_pause() {
    let mut rig = Rig::at(REPLAYS, 2);
    rig.follower.handle_findings(rig.now, Findings { crowded_out: 1, ..Findings::default() });
    assert_eq!((rig.trust(), rig.pass(1).as_str()), ("degraded", "?0"));
    assert_eq!(rig.replay_to(1, 2, COMPLETE), "clear 0 1 2 ?2");
    assert_eq!(rig.trust(), "exact");
}

/// Found by the simulation (seed 1, when it began to look for what was gone): who learns anew can meet another loss.
#[test]
fn a_loss_while_a_stream_is_learned_anew_is_said_at_once() {
    let mut rig = Rig::at(REPLAYS, 2);
    rig.follower.handle_findings(rig.now, Findings { crowded_out: 1, ..Findings::default() });
    assert_eq!(rig.pass(1), "?0");
    let Some(kv_events::admission::Request::Replay { session, .. }) = rig.asked else { panic!("asked") };
    rig.follower.handle_replayed(rig.now, session, batch(1, 0));
    assert_eq!((rig.trust(), rig.follower.trust().may_overstate()), ("resyncing", false));
    let mut unreadable = batch(1, 1);
    unreadable.batch.losses.add(Loss::UnreadablePayload);
    rig.follower.handle_replayed(rig.now, session, unreadable);
    assert_eq!((degraded(&rig).unreadable, rig.follower.trust().may_overstate()), (1, true));
}

/// P27: a part that cannot be read may have been a removal.
#[test]
fn a_batch_that_cannot_be_read_degrades_until_a_clear() {
    let mut rig = Rig::at(ALONE, 5);
    let mut unreadable = batch(1, 6);
    unreadable.batch.losses.add(Loss::UnreadablePayload);
    rig.live(unreadable);
    assert_eq!((degraded(&rig).unreadable, degraded(&rig).repairable), (1, false));
    rig.live(clear(1, 7));
    assert_eq!(rig.follower.trust(), Trust::ExactAsOf { sequence: 7 });
    let mut unknown = Delivery { batch: Batch::default(), ..batch(1, 8) };
    unknown.batch.losses.add(Loss::UnknownType);
    rig.live(unknown);
    assert_eq!(rig.follower.trust(), Trust::ExactAsOf { sequence: 8 });
}

#[test]
fn a_stream_that_its_index_lost_is_learned_again() {
    let mut rig = Rig::at(REPLAYS, 5);
    rig.follower.handle_failed(rig.now);
    assert_eq!((degraded(&rig).unknown_before, rig.told().as_str()), (6, ""));
    assert_eq!(rig.pass(1), "?0");
    assert_eq!((rig.replay_to(1, 5, COMPLETE).as_str(), rig.trust()), ("0 1 2 3 4 5 ?5", "exact"));
    let mut rig = Rig::at(ALONE, 5);
    rig.follower.handle_failed(rig.now);
    assert_eq!((rig.lives(1, [6]).as_str(), degraded(&rig).unknown_before), ("6", 6));
}

/// The trust of a step holds once it is made: a clear makes it better with its batch, not before.
#[test]
fn trust_comes_with_the_step_that_brings_it() {
    let mut follower: Follower = Rig::at(ALONE, 5).follower;
    follower.handle_live(Duration::ZERO, batch(1, 8));
    follower.handle_live(Duration::ZERO, clear(1, 9));
    let trusts: Vec<_> = std::iter::from_fn(|| follower.poll_step()).map(|step| step.trust.as_str()).collect();
    assert_eq!(trusts, ["degraded", "exact as of the last sequence"]);
}
