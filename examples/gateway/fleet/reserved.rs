//! Who is subscribed to what: one subscription for each rank at a time.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The ranks that are subscribed to. An engine that is added again while its old subscription still ends waits for that end, so
/// that the old one's cleanup never meets the new one's state.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    names: Mutex<HashSet<String>>,
    freed: Notify,
}

/// The right to subscribe to one rank of an engine. The subscription's task owns it, so that it is given back when the task has
/// ended, however it does and whoever has stopped waiting for that.
#[derive(Debug)]
pub(super) struct Reservation {
    all: Arc<Reserved>,
    name: String,
}

impl Reserved {
    /// Waits until nobody else has `name`.
    pub(super) async fn reserve(self: &Arc<Self>, name: &str) -> Reservation {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // Before the look, so that what is freed between the look and the wait is heard of.
            freed.as_mut().enable();
            if self.names.lock().insert(name.to_owned()) {
                return Reservation { all: self.clone(), name: name.to_owned() };
            }
            freed.await;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.all.names.lock().remove(&self.name);
        self.all.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Defect 3.
    #[tokio::test]
    async fn an_endpoint_added_again_waits_for_the_end_of_its_old_subscription() {
        let all = Arc::new(Reserved::default());
        let first = all.reserve("a").await;
        let _other = all.reserve("b").await;
        let moment = Duration::from_millis(20);
        assert!(timeout(moment, all.reserve("a")).await.is_err(), "an adder that gives up leaves nothing behind");
        let second = tokio::spawn({
            let all = all.clone();
            async move { all.reserve("a").await }
        });
        let task = tokio::spawn(async move {
            let _first = first;
            std::future::pending::<()>().await;
        });
        tokio::time::sleep(moment).await;
        assert!(!second.is_finished());
        // Nobody waits for the end of the aborted task.
        task.abort();
        let second = timeout(Duration::from_secs(5), second).await.expect("it is free").unwrap();
        drop(second);
        drop(all.reserve("a").await);
    }
}
