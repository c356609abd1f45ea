//! What the simulation found wrong, rule by rule.

use std::time::Duration;

use kv_events::limits::QUIET_MAX;
use kv_events::relay::{Code, Heartbeat, Next, Options, Relay, ReplayEnd, ReplayRequest, Restart, SubscriberId};

use crate::publisher::{Publisher, Work};
use crate::rules::{answer, primed, publish, serve};

const NOW: Duration = Duration::ZERO;

/// Whether each message that there is for `reader` is doubted, by number; a heartbeat's is said once more.
fn doubts(relay: &mut Relay, reader: SubscriberId) -> Vec<(u64, bool)> {
    let next = || match relay.poll(NOW, reader) {
        Next::Batch(relayed) => Some((relayed.batch.sequence, relayed.doubted)),
        Next::Heartbeat(beat) => Some((beat.sequence, beat.doubted)),
        Next::Wait { .. } => None,
        other => panic!("{other:?}"),
    };
    std::iter::from_fn(next).collect()
}

/// The first heartbeat from `now` on.
fn heartbeat(relay: &mut Relay, mut now: Duration, reader: SubscriberId) -> Heartbeat {
    loop {
        match relay.poll(now, reader) {
            Next::Heartbeat(beat) => return beat,
            Next::Batch(_) => {}
            Next::Wait { until: Some(until) } => now = until,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_relay_that_does_not_know_whose_batches_it_takes_says_so_with_each() {
    let (mut relay, mut publisher) = (primed(Options { replays: false, ..Options::default() }), Publisher::new(9));
    publish(&mut relay, &mut publisher, &serve(&[0]));
    let (quick, slow) = (relay.subscribe(NOW, &[]).unwrap(), relay.subscribe(NOW, &[]).unwrap());
    assert_eq!(doubts(&mut relay, quick), [(0, false)]);
    relay.handle_disconnected(0);
    relay.handle_connected(NOW, 0);
    assert_eq!(doubts(&mut relay, quick), [(0, true)], "at once");
    publish(&mut relay, &mut publisher, &serve(&[1]));
    assert_eq!(doubts(&mut relay, quick), [(1, true)]);
    publish(&mut relay, &mut publisher, &[Work::Clear]);
    assert_eq!(doubts(&mut relay, quick), [(2, false)], "what was held does not matter any more");
    assert_eq!(doubts(&mut relay, slow), [(0, false), (1, true), (2, false)], "to whoever comes to it later it does");
}

#[test]
fn a_snapshot_of_a_relay_that_doubts_says_so() {
    let (mut relay, mut publisher) =
        (primed(Options { replays: false, history_batches: 1, ..Options::default() }), Publisher::new(9));
    (0..2).for_each(|block| _ = publish(&mut relay, &mut publisher, &serve(&[block])));
    relay.handle_disconnected(0);
    relay.handle_connected(NOW, 0);
    let reader = relay.subscribe(NOW, &[]).unwrap();
    let Next::Snapshot(snapshot) = relay.poll(NOW, reader) else { panic!("a snapshot comes first") };
    assert!(snapshot.into_iter().all(|chunk| chunk.doubted && chunk.lost == 0));
}

#[test]
fn what_waits_when_a_replay_shows_another_life_is_not_taken_into_it() {
    let (mut relay, mut publisher) = (primed(Options::default()), Publisher::new(9));
    publish(&mut relay, &mut publisher, &serve(&[0]));
    publisher.publish(&serve(&[1]));
    publish(&mut relay, &mut publisher, &serve(&[2]));
    let request = relay.poll_request().expect("1 is missing");
    publisher.restart();
    publisher.publish(&serve(&[2, 2]));
    publisher.publish(&serve(&[2, 1]));
    answer(&mut relay, &publisher, request, ReplayEnd::Complete);
    while let Some(request) = relay.poll_request() {
        answer(&mut relay, &publisher, request, ReplayEnd::Complete);
    }
    let status = relay.status(0).unwrap();
    assert_eq!((status.last, status.counts.outlived), (Some(1), 1), "2 was the former life's");
    assert_eq!(status.live_blocks, publisher.names().len());
}

#[test]
fn an_end_marker_behind_news_vouches_for_nothing() {
    let (mut relay, mut publisher) = (primed(Options::default()), Publisher::new(9));
    publish(&mut relay, &mut publisher, &serve(&[0]));
    let reader = relay.subscribe(NOW, &[]).unwrap();
    relay.handle_disconnected(0);
    (1..4).for_each(|block| _ = publisher.publish(&serve(&[block])));
    relay.handle_connected(NOW, 0);
    let request = relay.poll_request().unwrap();
    answer(&mut relay, &publisher, request, ReplayEnd::Complete);
    assert!(!heartbeat(&mut relay, Duration::from_secs(1), reader).vouched, "the socket may have dropped what was behind");
    let request = relay.poll_request().expect("the end is asked for");
    assert_eq!(request.from, 3, "and nothing else");
    answer(&mut relay, &publisher, request, ReplayEnd::Complete);
    assert!(heartbeat(&mut relay, Duration::from_secs(3), reader).vouched);
    // Another life begins, and nothing of what was answered before counts for it.
    let mut other = Publisher::new(9);
    other.publish(&serve(&[9]));
    let payload = other.replay(0).remove(0).1;
    relay.handle_live(NOW, 0, 0, &payload);
    let request = relay.poll_request().expect("its beginning is asked for");
    relay.handle_replay_end(NOW, request, ReplayEnd::Incomplete);
    let reader = relay.subscribe(NOW, &[]).unwrap();
    assert!(!heartbeat(&mut relay, Duration::from_secs(5), reader).vouched);
}

#[test]
fn a_number_that_was_never_the_publishers_is_found_out_by_its_replay_socket() {
    let (mut relay, mut publisher) = (primed(Options::default()), Publisher::new(9));
    let mut now = NOW;
    relay.handle_live(now, 0, u64::MAX - 1, b"\x92\x00\x90");
    publisher.publish(&serve(&[0]));
    for _ in 0..6 {
        while let Some(request) = relay.poll_request() {
            answer(&mut relay, &publisher, request, ReplayEnd::Complete);
        }
        now += QUIET_MAX;
        relay.handle_timeout(now);
    }
    let status = relay.status(0).unwrap();
    assert_eq!((status.last, status.unknown_before, status.live_blocks), (Some(0), 0, 1), "{:?}", status.counts);
}

/// Seeds 46717, 61551 and 11625: the connection is older than the life that its replay socket told of, and what the former life sent is
/// still on its way.
#[test]
fn what_a_former_life_sent_is_not_taken_for_the_one_that_was_replayed() {
    let (mut relay, mut former, mut publisher) = (Relay::new(NOW, 7, Options::default()), Publisher::new(9), Publisher::new(9));
    let late: Vec<_> = (0..4).map(|block| former.publish(&serve(&[block]))).collect();
    (4..7).for_each(|block| _ = publisher.publish(&serve(&[block])));
    relay.handle_connected(NOW, 0);
    let answer_all = |relay: &mut Relay, publisher: &Publisher| {
        while let Some(request) = relay.poll_request() {
            answer(relay, publisher, request, ReplayEnd::Complete);
        }
    };
    answer_all(&mut relay, &publisher);
    for (sequence, payload) in &late {
        relay.handle_live(NOW, 0, *sequence, payload);
        answer_all(&mut relay, &publisher);
    }
    let status = relay.status(0).unwrap();
    assert_eq!((status.last, status.live_blocks, status.counts.outlived), (Some(2), publisher.names().len(), 4));
    // Its own messages are known, and what follows them is taken at once.
    let (sequence, payload) = publisher.replay(2).remove(0);
    relay.handle_live(NOW, 0, sequence, &payload);
    publish(&mut relay, &mut publisher, &serve(&[7]));
    assert_eq!((relay.status(0).unwrap().last, relay.poll_request()), (Some(3), None));
    // A later life's message under a number that is known is told from a former life's by asking.
    let mut relay = Relay::new(NOW, 7, Options::default());
    relay.handle_connected(NOW, 0);
    answer_all(&mut relay, &former);
    publish(&mut relay, &mut publisher, &serve(&[8]));
    answer_all(&mut relay, &publisher);
    assert_eq!(relay.status(0).unwrap().live_blocks, publisher.names().len());
}

/// Seed 710617: the replay socket said nothing when it was asked, and what the former life had sent was joined to what it had told before.
#[test]
fn where_nobody_says_whose_a_message_is_it_is_not_joined_to_what_is_held() {
    let (mut relay, mut former, mut publisher) = (Relay::new(NOW, 7, Options::default()), Publisher::new(9), Publisher::new(9));
    let late = (0..4).map(|block| former.publish(&serve(&[block]))).last().unwrap();
    (4..7).for_each(|block| _ = publisher.publish(&serve(&[block])));
    relay.handle_connected(NOW, 0);
    while let Some(request) = relay.poll_request() {
        answer(&mut relay, &publisher, request, ReplayEnd::Complete);
    }
    let told = relay.status(0).unwrap();
    assert_eq!((told.last, told.unknown_before), (Some(2), 0));
    relay.handle_live(NOW, 0, late.0, &late.1);
    while let Some(request) = relay.poll_request() {
        relay.handle_replay_end(NOW, request, ReplayEnd::Incomplete);
    }
    let status = relay.status(0).unwrap();
    assert_eq!((status.last, status.unknown_before, status.live_blocks), (Some(3), 3, 1), "alone, and said to be not all");
    assert_ne!(status.incarnation, told.incarnation);
}

/// A relay that has seen the batches from 0 on but those that are left out of every answer and came by no other way, and when it is.
fn given_up(publisher: &mut Publisher, left_out: &[u64]) -> (Relay, Duration) {
    let (mut relay, mut now) = (primed(Options::default()), NOW);
    for word in 0..20 {
        let (sequence, payload) = publisher.publish(&serve(&[word]));
        if !left_out.iter().any(|lost| [*lost, lost - 1].contains(&sequence)) {
            relay.handle_live(now, 0, sequence, &payload);
        }
        while let Some(request) = relay.poll_request() {
            now += Duration::from_millis(1);
            answer_without(&mut relay, now, publisher, request, left_out);
        }
    }
    let status = relay.status(0).unwrap();
    assert_eq!((status.last, status.lost), (Some(19), left_out.len() as u64));
    (relay, now)
}

fn answer_without(relay: &mut Relay, now: Duration, publisher: &Publisher, request: ReplayRequest, left_out: &[u64]) {
    let told = publisher.replay(request.from).into_iter().filter(|(sequence, _)| !left_out.contains(sequence));
    told.for_each(|(sequence, payload)| relay.handle_replayed(now, request, sequence, &payload));
    relay.handle_replay_end(now, request, ReplayEnd::Complete);
}

/// Lets time pass, answers as the publisher does but for `left_out`, and returns what was asked from a number below the last ones.
fn pass(relay: &mut Relay, now: Duration, time: Duration, publisher: &Publisher, left_out: &[u64]) -> Vec<(u64, u64)> {
    let (end, mut asked) = (now + time, Vec::new());
    while let Some(due) = relay.next_timeout().filter(|due| *due <= end) {
        relay.handle_timeout(due);
        while let Some(request) = relay.poll_request() {
            asked.push((due.as_secs(), request.from));
            answer_without(relay, due, publisher, request, left_out);
        }
    }
    asked.retain(|(_, from)| *from < 15);
    asked
}

#[test]
fn what_a_replay_socket_has_dropped_from_every_answer_is_had_once_it_drops_it_no_more() {
    let mut publisher = Publisher::new(100);
    let (mut relay, now) = given_up(&mut publisher, &[10]);
    let reader = relay.subscribe(now, &[]).unwrap();
    let asked = pass(&mut relay, now, Duration::from_mins(1), &publisher, &[]);
    assert_eq!(asked, [(5, 10), (5, 0)], "for the batch, and as the publisher has it for everything");
    let status = relay.status(0).unwrap();
    assert_eq!((status.last, status.lost, status.live_blocks), (Some(19), 0, 20));
    assert_eq!(status.counts.restarts[Restart::Relearned as usize], 1);
    assert_eq!(ended(&mut relay, now + Duration::from_mins(1), reader), Some(Code::DataLoss), "its readers begin anew");
}

#[test]
fn what_a_publisher_never_had_is_asked_for_now_and_then_and_disturbs_nobody() {
    let mut publisher = Publisher::new(100);
    let (mut relay, now) = given_up(&mut publisher, &[10]);
    let reader = relay.subscribe(now, &[]).unwrap();
    let asked = pass(&mut relay, now, Duration::from_mins(5), &publisher, &[10]);
    assert_eq!(asked, [(5, 10), (15, 10), (35, 10), (75, 10), (135, 10), (195, 10), (255, 10)]);
    let status = relay.status(0).unwrap();
    assert_eq!((status.last, status.lost, status.counts.restarts), (Some(19), 1, [0; Restart::ALL.len()]));
    assert_eq!(ended(&mut relay, now + Duration::from_mins(5), reader), None);
}

#[test]
fn what_can_be_had_again_is_found_behind_what_cannot() {
    let mut publisher = Publisher::new(100);
    let (mut relay, now) = given_up(&mut publisher, &[5, 10]);
    let asked = pass(&mut relay, now, Duration::from_secs(6), &publisher, &[5]);
    assert_eq!(asked[..2], [(5, 5), (5, 0)]);
    let status = relay.status(0).unwrap();
    assert_eq!((status.last, status.lost, status.live_blocks), (Some(19), 1, 19));
    assert_eq!(pass(&mut relay, now + Duration::from_secs(6), Duration::from_secs(10), &publisher, &[5]), [(10, 5)]);
    assert_eq!(relay.status(0).unwrap().counts.restarts[Restart::Relearned as usize], 1, "once");
}

#[test]
fn a_publisher_that_keeps_nothing_is_not_asked_in_a_loop_for_what_was_lost() {
    let (mut relay, mut publisher) = (primed(Options::default()), Publisher::new(0));
    publish(&mut relay, &mut publisher, &serve(&[0]));
    publisher.publish(&serve(&[1]));
    publish(&mut relay, &mut publisher, &serve(&[2]));
    while let Some(request) = relay.poll_request() {
        answer_without(&mut relay, NOW, &publisher, request, &[]);
    }
    assert_eq!(relay.status(0).unwrap().lost, 1);
    let mut asked = 0;
    while let Some(due) = relay.next_timeout().filter(|due| *due <= Duration::from_mins(5) && asked < 1000) {
        relay.handle_timeout(due);
        while let Some(request) = relay.poll_request() {
            asked += 1;
            answer_without(&mut relay, due, &publisher, request, &[]);
        }
    }
    assert!((60..150).contains(&asked), "{asked} questions in 5 minutes, where silence asks every 5 s");
}

/// Simulation, seed 32143 of the plans of December 2026.
#[test]
fn a_number_below_all_that_was_replayed_is_no_repeat() {
    let mut publisher = Publisher::new(1);
    (0..3).for_each(|word| _ = publisher.publish(&serve(&[word])));
    let mut relay = Relay::new(NOW, 7, Options::default());
    // The second connection shows that the publisher is the same.
    for _ in 0..2 {
        relay.handle_disconnected(0);
        relay.handle_connected(NOW, 0);
        while let Some(request) = relay.poll_request() {
            answer(&mut relay, &publisher, request, ReplayEnd::Complete);
        }
    }
    assert_eq!(relay.status(0).map(|status| (status.first, status.last, status.doubted)), Some((Some(2), Some(2), false)));
    publisher.restart();
    let messages: Vec<_> = (10..15).map(|word| publisher.publish(&serve(&[word]))).collect();
    for at in [0, 3, 4] {
        relay.handle_live(NOW, 0, messages[at].0, &messages[at].1);
    }
    while let Some(request) = relay.poll_request() {
        answer(&mut relay, &publisher, request, ReplayEnd::Complete);
    }
    let status = relay.status(0).unwrap();
    assert_eq!((status.first, status.last, status.live_blocks), (Some(4), Some(4), 1), "nothing of the former life");
}

/// How the subscription ends, after all that it has to say.
fn ended(relay: &mut Relay, now: Duration, reader: SubscriberId) -> Option<Code> {
    loop {
        match relay.poll(now, reader) {
            Next::End(end) => return Some(end.code()),
            Next::Wait { .. } => return None,
            _ => {}
        }
    }
}
