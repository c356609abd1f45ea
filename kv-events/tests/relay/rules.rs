//! What a relay does with what comes, rule by rule.

use std::time::Duration;

use kv_events::limits::{QUIET_MAX, RELAY_CUTS_MAX, RELAY_RETRY_EVERY, REPLAY_SILENCE_MAX};
use kv_events::relay::{Code, End, Load, LoadCore, Next, Options, OutOfRange, Refusal, Relay, ReplayEnd, ReplayRequest, Restart};
use kv_events::{Incarnation, Position, Tiers};

use crate::publisher::{Publisher, Work};
use crate::reader::{Known, drain};

const NOW: Duration = Duration::ZERO;

fn options() -> Options {
    Options { history_batches: 4, ..Options::default() }
}

/// A relay of one rank whose publisher was asked, and had nothing.
pub(crate) fn primed(options: Options) -> Relay {
    let mut relay = Relay::new(NOW, 7, options);
    relay.handle_connected(NOW, 0);
    if let Some(request) = relay.poll_request() {
        relay.handle_replay_end(NOW, request, ReplayEnd::Complete);
    }
    relay
}

pub(crate) fn serve(path: &[u8]) -> [Work; 1] {
    [Work::Serve { path: path.to_vec(), tier: 0, again: false }]
}

pub(crate) fn publish(relay: &mut Relay, publisher: &mut Publisher, work: &[Work]) -> u64 {
    let (sequence, payload) = publisher.publish(work);
    relay.handle_live(NOW, 0, sequence, &payload);
    sequence
}

pub(crate) fn answer(relay: &mut Relay, publisher: &Publisher, request: ReplayRequest, end: ReplayEnd) {
    for (sequence, payload) in publisher.replay(request.from) {
        relay.handle_replayed(NOW, request, sequence, &payload);
    }
    relay.handle_replay_end(NOW, request, end);
}

fn restarts(relay: &Relay, restart: Restart) -> u64 {
    relay.status(0).unwrap().counts.restarts[restart as usize]
}

fn at(relay: &Relay, sequence: u64) -> [(u32, Position); 1] {
    [(0, Position { incarnation: relay.status(0).unwrap().incarnation, sequence })]
}

/// What a reader that resumes at `positions` gets: numbers, or the refusal.
fn resumed(relay: &mut Relay, positions: &[(u32, Position)]) -> Result<Vec<u64>, Refusal> {
    let subscriber = relay.subscribe(NOW, positions)?;
    let mut all = Vec::new();
    loop {
        match relay.poll(NOW, subscriber) {
            Next::Batch(relayed) => all.push(relayed.batch.sequence),
            Next::Snapshot(snapshot) => all.extend(snapshot.map(|chunk| 1_000 + chunk.sequence())),
            Next::Heartbeat(_) => {}
            Next::Wait { .. } => return Ok(all),
            Next::End(end) => panic!("{end}"),
        }
    }
}

// D14.
#[test]
fn a_position_resumes_in_its_life_and_window_only() {
    let (mut relay, mut publisher) = (primed(options()), Publisher::new(9));
    let position = at(&relay, 0);
    assert_eq!(resumed(&mut relay, &position), Err(Refusal::OutOfRange(vec![(0, OutOfRange::Empty { got: 0 })])));
    assert_eq!(resumed(&mut relay, &[]), Ok(vec![]));
    let request = relay.poll_request().expect("a subscriber that finds nothing has the replay socket asked once more");
    answer(&mut relay, &publisher, request, ReplayEnd::Complete);
    (0..3).for_each(|block| _ = publish(&mut relay, &mut publisher, &serve(&[block])));
    assert_eq!(resumed(&mut relay, &[]), Ok(vec![0, 1, 2]), "the whole history");
    (3..7).for_each(|block| _ = publish(&mut relay, &mut publisher, &serve(&[block % 3, block])));
    assert_eq!(resumed(&mut relay, &[]), Ok(vec![1_006]), "one chunk, with the last batch's number");
    let (here, four, six) = (at(&relay, 2), at(&relay, 4), at(&relay, 6));
    assert_eq!(resumed(&mut relay, &here), Ok(vec![3, 4, 5, 6]));
    assert_eq!((resumed(&mut relay, &four), resumed(&mut relay, &six)), (Ok(vec![5, 6]), Ok(vec![])));
    let refused = |relay: &mut Relay, positions: &[(u32, Position)]| match resumed(relay, positions) {
        Err(Refusal::OutOfRange(reasons)) => reasons[0].1,
        other => panic!("{other:?}"),
    };
    let (behind, ahead) = (at(&relay, 1), at(&relay, 7));
    assert_eq!(refused(&mut relay, &behind), OutOfRange::Behind { oldest: 3, got: 1 });
    assert_eq!(refused(&mut relay, &ahead), OutOfRange::Ahead { newest: 6, got: 7 });
    // Another relay's life, though its numbers fit (1.6 ii).
    let (current, got) = (Incarnation::first(7), Incarnation::first(8));
    let foreign = [(0, Position { incarnation: got, sequence: 5 })];
    assert_eq!(refused(&mut relay, &foreign), OutOfRange::ForeignIncarnation { current, got });
    assert_eq!(refused(&mut relay, &[(3, here[0].1)]), OutOfRange::UnknownRank { ranks: 1 });
}

#[test]
fn a_position_before_the_relay_joined_is_said_to_be() {
    let (mut relay, mut publisher) = (primed(Options { replays: false, ..options() }), Publisher::new(9));
    (0..5).for_each(|block| _ = publisher.publish(&serve(&[block])));
    publish(&mut relay, &mut publisher, &serve(&[5]));
    let position = at(&relay, 2);
    let reason = OutOfRange::BeforeStart { first: 5, got: 2 };
    assert_eq!(resumed(&mut relay, &position), Err(Refusal::OutOfRange(vec![(0, reason)])));
    assert_eq!(relay.status(0).unwrap().unknown_before, 5);
    publish(&mut relay, &mut publisher, &[Work::Clear]);
    assert_eq!(relay.status(0).unwrap().unknown_before, 0, "a clear makes the record complete again");
}

// R1, P1, D15, smg#742.
#[test]
fn a_restart_ends_every_live_stream_with_data_loss() {
    let (mut relay, mut publisher) = (primed(options()), Publisher::new(9));
    (0..3).for_each(|block| _ = publish(&mut relay, &mut publisher, &serve(&[block])));
    let subscriber = relay.subscribe(NOW, &[]).unwrap();
    let mut known = [Known::new(Tiers::SERVED)];
    drain(&mut relay, NOW, subscriber, &mut known);
    publisher.restart();
    publish(&mut relay, &mut publisher, &serve(&[9]));
    let request = relay.poll_request().expect("everything of the new life is asked for");
    assert_eq!(request.from, 0);
    answer(&mut relay, &publisher, request, ReplayEnd::Complete);
    let Next::End(end) = drain(&mut relay, NOW, subscriber, &mut known) else { panic!("it ends") };
    assert_eq!((end, end.code()), (End::Restarted { rank: 0 }, Code::DataLoss));
    assert_eq!((restarts(&relay, Restart::CounterRestarted), relay.subscribers()), (1, 0));
    assert_eq!(resumed(&mut relay, &[]), Ok(vec![0]), "of the new life only");
    assert_eq!(relay.status(0).unwrap().incarnation, Incarnation::first(7).next());
}

// 1.6 (i): neither number nor connection shows it, bytes below the cursor do.
#[test]
fn a_restart_that_a_disconnect_hid_is_found_by_what_was_said_before() {
    let (mut relay, mut publisher) = (primed(options()), Publisher::new(9));
    (0..3).for_each(|block| _ = publish(&mut relay, &mut publisher, &serve(&[block])));
    relay.handle_disconnected(0);
    publisher.restart();
    (0..5).for_each(|block| _ = publisher.publish(&serve(&[block + 10])));
    relay.handle_connected(NOW, 0);
    let request = relay.poll_request().unwrap();
    assert_eq!(request.from, 0, "from below the last number, not from the next");
    answer(&mut relay, &publisher, request, ReplayEnd::Complete);
    assert_eq!(restarts(&relay, Restart::OtherMessage), 1);
    let request = relay.poll_request().unwrap();
    answer(&mut relay, &publisher, request, ReplayEnd::Complete);
    let status = relay.status(0).unwrap();
    assert_eq!((status.last, status.lost, status.unknown_before, status.live_blocks), (Some(4), 0, 0, 5));
}

#[test]
fn a_publisher_that_forgot_the_last_number_is_another_one() {
    let (mut relay, mut publisher) = (primed(options()), Publisher::new(9));
    (0..3).for_each(|block| _ = publish(&mut relay, &mut publisher, &serve(&[block])));
    relay.handle_timeout(QUIET_MAX);
    let request = relay.poll_request().expect("a quiet stream is asked whether its last batch was lost");
    answer(&mut relay, &publisher, request, ReplayEnd::Complete);
    assert_eq!(relay.status(0).unwrap().confirmed_at, Some(NOW));
    publisher.restart();
    relay.handle_connected(NOW, 0);
    let request = relay.poll_request().unwrap();
    answer(&mut relay, &publisher, request, ReplayEnd::Complete);
    assert_eq!((restarts(&relay, Restart::LastForgotten), relay.status(0).unwrap().live_blocks), (1, 0));
}

#[test]
fn what_waits_when_a_connection_ends_is_not_taken_for_the_next_life_s() {
    let (mut relay, mut publisher) = (Relay::new(NOW, 7, options()), Publisher::new(9));
    relay.handle_connected(NOW, 0);
    let request = relay.poll_request().unwrap();
    publisher.publish(&serve(&[0]));
    publish(&mut relay, &mut publisher, &serve(&[1]));
    publisher.restart();
    publisher.publish(&serve(&[2]));
    relay.handle_disconnected(0);
    // The question was put to the former life, and the new one answers it.
    answer(&mut relay, &publisher, request, ReplayEnd::Complete);
    let status = relay.status(0).unwrap();
    assert_eq!((status.last, status.live_blocks, status.counts.outlived), (Some(0), 1, 1));
}

// P25, D11: a gap costs a question and not the state. Tail loss: amendment 7.
#[test]
fn a_gap_is_refilled_before_subscribers_see_it() {
    let (mut relay, mut publisher) = (primed(options()), Publisher::new(9));
    publish(&mut relay, &mut publisher, &serve(&[0]));
    let subscriber = relay.subscribe(NOW, &[]).unwrap();
    publisher.publish(&serve(&[1]));
    publish(&mut relay, &mut publisher, &serve(&[2]));
    publish(&mut relay, &mut publisher, &serve(&[3]));
    let mut known = [Known::new(Tiers::SERVED)];
    drain(&mut relay, NOW, subscriber, &mut known);
    assert_eq!(known[0].position.unwrap().sequence, 0);
    let request = relay.poll_request().unwrap();
    answer(&mut relay, &publisher, request, ReplayEnd::Complete);
    drain(&mut relay, NOW, subscriber, &mut known);
    assert_eq!((known[0].position.unwrap().sequence, known[0].missing, known[0].names()), (3, 0, publisher.names()));
}

// R2.
#[test]
fn a_replay_socket_that_never_answers_holds_nothing_up_for_long() {
    let (mut relay, mut publisher) = (primed(options()), Publisher::new(9));
    publish(&mut relay, &mut publisher, &serve(&[0]));
    publisher.publish(&serve(&[1]));
    publish(&mut relay, &mut publisher, &serve(&[2]));
    assert_eq!(relay.next_timeout(), Some(REPLAY_SILENCE_MAX));
    relay.handle_timeout(REPLAY_SILENCE_MAX);
    let status = relay.status(0).unwrap();
    assert_eq!((status.last, status.lost, status.asking), (Some(2), 1, false), "said to be lost, and gone on");
    // And once it answers, everything is learned anew (P37).
    relay.handle_timeout(REPLAY_SILENCE_MAX + RELAY_RETRY_EVERY);
    while let Some(request) = relay.poll_request() {
        answer(&mut relay, &publisher, request, ReplayEnd::Complete);
    }
    let status = relay.status(0).unwrap();
    assert_eq!((status.last, status.lost, status.live_blocks), (Some(2), 0, 3));
    assert_eq!(restarts(&relay, Restart::Relearned), 1);
}

// D14.
#[test]
fn a_reader_that_is_left_behind_is_told_so_and_keeps_nobody_waiting() {
    let (mut relay, mut publisher) = (primed(options()), Publisher::new(9));
    publish(&mut relay, &mut publisher, &serve(&[0]));
    let subscriber = relay.subscribe(NOW, &[]).unwrap();
    (1..9).for_each(|block| _ = publish(&mut relay, &mut publisher, &serve(&[block])));
    let Next::End(end) = relay.poll(NOW, subscriber) else { panic!("it ends") };
    assert_eq!((end, end.code()), (End::LeftBehind { rank: 0, oldest: 5, next: 0 }, Code::DataLoss));
    assert!(matches!(relay.poll(NOW, subscriber), Next::End(End::Unknown)));
}

#[test]
fn readers_share_a_state_and_slow_ones_hold_on_to_few() {
    let (mut relay, mut publisher) = (primed(options()), Publisher::new(9));
    let mut held = Vec::new();
    for round in 0..=RELAY_CUTS_MAX {
        (0..9).for_each(|block| _ = publish(&mut relay, &mut publisher, &serve(&[block, u8::try_from(round).unwrap()])));
        for _ in 0..2 {
            match relay.subscribe(NOW, &[]) {
                Ok(subscriber) => held.extend(match relay.poll(NOW, subscriber) {
                    Next::Snapshot(snapshot) => Some(snapshot),
                    other => panic!("{other:?}"),
                }),
                Err(refusal) => {
                    assert_eq!(refusal, Refusal::TooManySnapshots { rank: 0, limit: RELAY_CUTS_MAX });
                    assert_eq!((round, refusal.code()), (RELAY_CUTS_MAX, Code::Unavailable));
                }
            }
        }
    }
    assert_eq!(held.len(), 2 * RELAY_CUTS_MAX);
    held.clear();
    assert!(relay.subscribe(NOW, &[]).is_ok());
}

// Defect 20.
// D10, #20.
#[test]
fn ranks_are_kept_apart() {
    let mut relay = Relay::new(NOW, 7, Options { ranks: 2, replays: false, history_batches: 1, ..Options::default() });
    let mut publishers = [Publisher::new(9), Publisher::new(9)];
    for (rank, publisher) in (0..).zip(&mut publishers) {
        for block in 0..3 {
            let (sequence, payload) = publisher.publish(&serve(&[block]));
            relay.handle_live(NOW, rank, sequence, &payload);
        }
    }
    let (sequence, payload) = publishers[0].publish(&[Work::Clear]);
    relay.handle_live(NOW, 0, sequence, &payload);
    let blocks = [0, 1].map(|rank| relay.status(rank).unwrap().live_blocks);
    assert_eq!(blocks, [0, 3], "a clear empties its own rank only");
    // A flood of ranks, and a number that ends a replay.
    (2..10_000).for_each(|rank| relay.handle_live(NOW, rank, 0, &payload));
    relay.handle_live(NOW, 1, u64::MAX, &payload);
    assert_eq!((relay.foreign(), relay.status(1).unwrap().counts.unreadable, relay.status(2)), (9_998, 1, None));
    assert_eq!(relay.status(1).unwrap().last, Some(2));
}

#[test]
fn what_cannot_be_read_is_an_empty_batch_under_its_number() {
    let (mut relay, mut publisher) = (primed(options()), Publisher::new(9));
    publish(&mut relay, &mut publisher, &serve(&[0]));
    relay.handle_live(NOW, 0, 1, b"\xc1 no batch");
    assert_eq!(resumed(&mut relay, &[]), Ok(vec![0, 1]));
    assert_eq!(relay.status(0).unwrap().live_counts.losses.total(), 1);
}

#[test]
fn a_load_rides_on_every_message_and_alone_on_a_quiet_stream() {
    let (mut relay, mut publisher) = (primed(options()), Publisher::new(9));
    let load = |running| Load { core: LoadCore { running, ..LoadCore::default() }, ..Load::default() };
    relay.handle_load(0, load(1));
    let subscriber = relay.subscribe(NOW, &[]).unwrap();
    let request = relay.poll_request().unwrap();
    answer(&mut relay, &publisher, request, ReplayEnd::Complete);
    assert!(matches!(relay.poll(NOW, subscriber), Next::Wait { until: None }), "nothing before the first batch");
    publish(&mut relay, &mut publisher, &serve(&[0]));
    let Next::Batch(relayed) = relay.poll(NOW, subscriber) else { panic!("a batch") };
    assert_eq!(relayed.load.map(|load| (load.core.running, load.sample)), Some((1, 0)));
    let heard = |relay: &mut Relay, now| {
        let Next::Heartbeat(beat) = relay.poll(now, subscriber) else { panic!("a heartbeat") };
        (beat.sequence, beat.vouched, beat.load.map(|load| (load.core.running, load.sample)))
    };
    assert_eq!(heard(&mut relay, NOW), (0, true, Some((1, 1))));
    relay.handle_load(0, load(2));
    let Next::Wait { until: Some(until) } = relay.poll(NOW, subscriber) else { panic!("a tick") };
    assert_eq!(heard(&mut relay, until), (0, true, Some((2, 2))));
}

/// Found with a real vLLM under load: a stream that was never quiet had no heartbeat, and its reader never knew that it had all.
#[test]
fn whether_a_relay_can_vouch_is_said_at_once_however_busy_its_stream_is() {
    for resumes in [false, true] {
        let (mut relay, mut publisher) = (primed(options()), Publisher::new(9));
        publish(&mut relay, &mut publisher, &serve(&[0]));
        let position = at(&relay, 0);
        let subscriber = relay.subscribe(NOW, if resumes { &position } else { &[] }).unwrap();
        let next = |relay: &mut Relay| match relay.poll(NOW, subscriber) {
            Next::Batch(relayed) => format!("batch {}", relayed.batch.sequence),
            Next::Heartbeat(beat) => format!("{} at {}", if beat.vouched { "whole" } else { "not known" }, beat.sequence),
            Next::Wait { .. } => "nothing".to_owned(),
            other => panic!("{other:?}"),
        };
        if !resumes {
            assert_eq!(next(&mut relay), "batch 0");
        }
        assert_eq!([next(&mut relay), next(&mut relay)], ["whole at 0", "nothing"]);
        publish(&mut relay, &mut publisher, &serve(&[1]));
        assert_eq!([next(&mut relay), next(&mut relay)], ["batch 1", "nothing"]);
        relay.handle_disconnected(0);
        assert_eq!([next(&mut relay), next(&mut relay)], ["not known at 1", "nothing"]);
    }
}

#[test]
fn a_snapshot_comes_in_numbered_chunks_that_begin_with_a_clear() {
    let mut relay = primed(Options { replays: false, history_batches: 1, ..Options::default() });
    let mut publisher = Publisher::new(0);
    for nth in 0..1_500u32 {
        let path: Vec<u8> = nth.to_be_bytes().into();
        publish(&mut relay, &mut publisher, &serve(&path));
    }
    let subscriber = relay.subscribe(NOW, &[]).unwrap();
    let Next::Snapshot(snapshot) = relay.poll(NOW, subscriber) else { panic!("a snapshot") };
    publish(&mut relay, &mut publisher, &serve(&[7, 7, 7]));
    let chunks: Vec<_> = snapshot.collect();
    let total = relay.status(0).unwrap().live_copies - 3;
    assert_eq!(u64::try_from(chunks.len()).unwrap(), total.div_ceil(2048).max(1));
    assert!(chunks.iter().all(|chunk| (chunk.total, chunk.through, chunk.lost, chunk.unknown_before) == (total, 1_499, 0, 0)));
    assert!(chunks.windows(2).all(|two| two[0].sequence() + 1 == two[1].sequence() && two[0].index + 1 == two[1].index));
    assert_eq!((chunks[0].index, chunks.last().map(|chunk| (chunk.is_last(), chunk.sequence()))), (0, Some((true, 1_499))));
    assert!(chunks[0].batch.clears() && chunks[1..].iter().all(|chunk| !chunk.batch.clears()));
    let Next::Batch(relayed) = relay.poll(NOW, subscriber) else { panic!("live goes on") };
    assert_eq!((relayed.batch.sequence, relayed.missed), (1_500, 0));
}
