//! Whoever comes late, however late.

use std::time::Duration;

use kv_events::Tiers;
use kv_events::relay::{End, Next, Options, Relay};

use crate::publisher::{Publisher, Work};
use crate::reader::{Known, drain};

/// More than any log keeps what nobody has read.
const DAY: Duration = Duration::from_hours(24);

fn serve(path: &[u8]) -> Vec<Work> {
    vec![Work::Serve { path: path.to_vec(), tier: 0, again: false }]
}

/// A publisher that turns its cache over, so that its early batches tell of nothing that is left but what they stored first.
fn work(relay: &mut Relay, publisher: &mut Publisher, now: Duration, batches: u8) {
    for nth in 0..batches {
        let mut work = serve(&[nth, 1]);
        if nth % 3 == 0 {
            work.push(Work::Evict { nth: usize::from(nth), tier: 0 });
        }
        let (sequence, payload) = publisher.publish(&work);
        relay.handle_live(now, 0, sequence, &payload);
    }
}

/// D14: elsewhere, what a late reader needs was purged by age, by the log's size, with a consumer that was taken for dead, or before
/// the snapshot that was to replace it. Here the state is kept apart from the log: a reader that is new finds all of it, after any time
/// and whatever the window has lost; one that has only been idle is still there; and one whose snapshot was overtaken is told so.
#[test]
fn nothing_that_a_late_reader_needs_is_ever_deleted() {
    let options = Options { replays: false, history_batches: 3, chunk_blocks: 1, ..Options::default() };
    let mut relay = Relay::new(Duration::ZERO, 7, options);
    let mut publisher = Publisher::new(9);
    relay.handle_connected(Duration::ZERO, 0);
    let idle = relay.subscribe(Duration::ZERO, &[]).unwrap();
    let mut idler = [Known::new(Tiers::SERVED)];
    for day in 0..4 {
        let now = DAY * day;
        work(&mut relay, &mut publisher, now, 40);
        let late = relay.subscribe(now + DAY / 2, &[]).unwrap();
        let mut known = [Known::new(Tiers::SERVED)];
        assert!(matches!(drain(&mut relay, now + DAY / 2, late, &mut known), Next::Wait { .. }));
        assert_eq!((known[0].missing, known[0].names()), (0, publisher.names()), "day {day}");
        relay.unsubscribe(late);
    }
    // Nobody has taken the idle one's place away: it is told that the window is past it, and begins anew.
    assert!(matches!(drain(&mut relay, DAY * 4, idle, &mut idler), Next::End(End::LeftBehind { .. })));
    let again = relay.subscribe(DAY * 4, &[]).unwrap();
    let Next::Snapshot(mut snapshot) = relay.poll(DAY * 4, again) else { panic!("a snapshot comes first") };
    let before = publisher.names();
    let mut overtaken = Known::new(Tiers::SERVED);
    overtaken.apply(&snapshot.next().unwrap().batch);
    work(&mut relay, &mut publisher, DAY * 4, 40);
    snapshot.for_each(|chunk| overtaken.apply(&chunk.batch));
    assert_eq!(overtaken.names(), before, "what changes meanwhile takes nothing out of a snapshot");
    assert!(matches!(relay.poll(DAY * 4, again), Next::End(End::LeftBehind { .. })), "and what it lacks is not passed over");
}
