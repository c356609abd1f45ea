//! Which lane serves what next: a ready list for each lane, and who sleeps.
//!
//! The protocol that loses no wake-up: a lane announces that it is idle, *then* looks at every list, and parks only if all
//! were empty. Who lists an item pushes it, *then* looks for an idle lane. Push and look go through the list's lock, so
//! either the lane saw the item, or who pushed it sees that the lane is idle.

use std::collections::VecDeque;
// The standard library's, not the shim's: wakers are made of it.
use std::sync::Arc;
use std::task::Waker;

use super::idle::IdleLanes;
use super::metrics::{LaneMetrics, LaneTallies};
use super::parker::Parker;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};

pub(super) struct Schedule<T> {
    posts: Box<[Post<T>]>,
    idle: IdleLanes,
    stopped: AtomicBool,
}

/// What the others see of a lane. Two cache lines, since x86 fetches them in pairs: lanes do not slow each other down.
#[repr(align(128))]
struct Post<T> {
    ready: Mutex<VecDeque<T>>,
    parker: Arc<Parker>,
    tallies: LaneTallies,
}

impl<T> Schedule<T> {
    /// For `lanes` lanes: at most as many as a word has bits.
    pub(super) fn new(lanes: usize) -> Self {
        let post =
            |_| Post { ready: Mutex::new(VecDeque::new()), parker: Arc::new(Parker::new()), tallies: LaneTallies::default() };
        Self { posts: (0..lanes).map(post).collect(), idle: IdleLanes::new(), stopped: AtomicBool::new(false) }
    }

    /// Puts `item` on `lane`'s list and wakes an idle lane for it, that one if it can.
    pub(super) fn list(&self, lane: usize, item: T) {
        self.push(lane, item);
        self.wake_one(lane);
    }

    /// Puts `item` back on the list of `lane`, which asks and is awake: others are needed only for what waits before it.
    pub(super) fn list_again(&self, lane: usize, item: T) {
        if self.push(lane, item) > 1 {
            self.wake_one(lane);
        }
    }

    /// What `lane` serves next: its own first, then the others', from its neighbour on.
    pub(super) fn take(&self, lane: usize) -> Option<T> {
        self.pop(lane).or_else(|| self.others(lane).find_map(|other| self.steal(lane, other)))
    }

    /// What waits longest on `other`'s list, for `lane`.
    pub(super) fn steal(&self, lane: usize, other: usize) -> Option<T> {
        let item = self.pop(other)?;
        self.posts[lane].tallies.stolen.add(u64::from(lane != other));
        Some(item)
    }

    /// As [`take`](Self::take), but sleeps if there is nothing, and then comes back with nothing: look again at what else
    /// the lane may have been woken for.
    pub(super) fn take_or_park(&self, lane: usize) -> Option<T> {
        self.idle.announce(lane);
        let found = self.take(lane);
        if found.is_none() {
            self.posts[lane].tallies.parked.add(1);
            self.posts[lane].parker.park();
        }
        self.idle.withdraw(lane);
        found
    }

    /// For a lane that is about to do something else and may have been woken for an item: wakes another if any is listed.
    pub(super) fn pass_on(&self, lane: usize) {
        if (0..self.posts.len()).any(|other| self.waiting(other) > 0) {
            self.wake_one(lane);
        }
    }

    /// For a lane that is about to do something else: wakes another if its own list is not empty.
    pub(super) fn pass_own(&self, lane: usize) {
        if self.waiting(lane) > 0 {
            self.wake_one(lane);
        }
    }

    /// Tells every lane to stop, and wakes it.
    pub(super) fn stop(&self) {
        // Relaxed: a lane that parks sees it once it holds its parker's lock, which unparking takes after this store.
        self.stopped.store(true, Ordering::Relaxed);
        self.posts.iter().for_each(|post| post.parker.unpark());
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Wakes `lane` if it parks, or keeps it from parking once.
    pub(super) fn waker(&self, lane: usize) -> Waker {
        Waker::from(Arc::clone(&self.posts[lane].parker))
    }

    pub(super) fn lanes(&self) -> usize {
        self.posts.len()
    }

    pub(super) fn tallies(&self, lane: usize) -> &LaneTallies {
        &self.posts[lane].tallies
    }

    pub(super) fn metrics(&self, lane: usize) -> LaneMetrics {
        self.posts[lane].tallies.read(self.waiting(lane))
    }

    #[cfg(test)]
    pub(super) fn for_each_listed(&self, mut visit: impl FnMut(&T)) {
        self.posts.iter().for_each(|post| post.ready.lock().iter().for_each(&mut visit));
    }

    fn push(&self, lane: usize, item: T) -> usize {
        let mut ready = self.posts[lane].ready.lock();
        ready.push_back(item);
        ready.len()
    }

    fn pop(&self, lane: usize) -> Option<T> {
        self.posts[lane].ready.lock().pop_front()
    }

    fn waiting(&self, lane: usize) -> usize {
        self.posts[lane].ready.lock().len()
    }

    fn others(&self, lane: usize) -> impl Iterator<Item = usize> {
        (lane + 1..self.posts.len()).chain(0..lane)
    }

    fn wake_one(&self, preferred: usize) {
        if let Some(lane) = self.idle.choose(preferred) {
            self.posts[lane].parker.unpark();
        }
    }
}

#[cfg(all(test, not(any(kv_loom, kv_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn what_a_lane_lists_again_wakes_another_only_if_it_must_wait() {
        let schedule = Schedule::new(2);
        schedule.idle.announce(1);
        schedule.list_again(0, "next");
        assert_eq!(schedule.idle.choose(1), Some(1), "lane 0 serves it next, so nobody was chosen");
        schedule.idle.announce(1);
        schedule.list_again(0, "after it");
        assert_eq!(schedule.idle.choose(1), None);
    }

    #[test]
    fn the_lane_that_knows_the_stream_is_woken_first() {
        let schedule = Schedule::new(3);
        [0, 1].into_iter().for_each(|lane| schedule.idle.announce(lane));
        schedule.list(1, "known to lane 1");
        assert_eq!(schedule.idle.choose(2), Some(0), "lane 1 was chosen before");
        assert_eq!(schedule.idle.choose(2), None);
    }
}
