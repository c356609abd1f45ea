//! When a stream that cannot be believed is learned anew.

use std::time::Duration;

use tokio::time::Instant;

use crate::gateway::limits::RESYNC_PAUSE;

/// The next try, and how long the one after it would wait: twice as long each time, and short again after a long peace. What
/// made a stream unbelievable may come again with the same batch, or the index may still have no room.
#[derive(Debug)]
pub(super) struct Resync {
    due: Option<Instant>,
    pause: Duration,
    /// The last try.
    tried: Option<Instant>,
}

impl Resync {
    pub(super) fn new() -> Self {
        Self { due: None, pause: RESYNC_PAUSE.0, tried: None }
    }

    /// The stream is not to be believed as of `now`. A try that is planned stays as it is.
    pub(super) fn plan(&mut self, now: Instant) {
        let (first, longest) = RESYNC_PAUSE;
        if self.due.is_some() {
            return;
        }
        if self.tried.is_some_and(|tried| now >= tried + 2 * longest) {
            self.pause = first;
        }
        self.due = Some(now + self.pause);
        self.pause = longest.min(self.pause * 2);
    }

    /// The planned try begins.
    pub(super) fn begin(&mut self, now: Instant) {
        (self.due, self.tried) = (None, Some(now));
    }

    /// Waits for the planned try; for ever, if there is none.
    pub(super) async fn due(&self) {
        match self.due {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pauses_grow_to_the_longest_and_shrink_after_peace() {
        let (first, longest) = RESYNC_PAUSE;
        let (mut resync, mut now) = (Resync::new(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..20 {
            resync.plan(now);
            resync.plan(now + first / 2);
            let due = resync.due.unwrap();
            pauses.push(due - now);
            now = due;
            resync.begin(now);
        }
        assert_eq!((pauses[0], pauses[1], pauses[19]), (first, 2 * first, longest));
        assert!(pauses.is_sorted());
        now += 2 * longest;
        resync.plan(now);
        assert_eq!(resync.due, Some(now + first));
    }
}
