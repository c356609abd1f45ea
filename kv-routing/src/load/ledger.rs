//! A worker's books, shared between those who write and those who decide.

use std::time::Duration;

use super::book::{Book, LoadCounts, Options};
use super::view::Published;
use super::{Refusal, Sample, View};
use crate::sync::{Arc, Mutex, MutexGuard};

/// One worker's load. See the [module](super).
#[derive(Clone, Debug)]
pub struct Ledger(pub(super) Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    book: Mutex<Book>,
    published: Published,
}

/// One request's place in the books. Dropped on every path, it takes back what it counted for, once.
#[derive(Debug)]
#[must_use = "a booking that is dropped has ended"]
pub struct Booking {
    ledger: Ledger,
    number: u64,
    pending: bool,
}

impl Ledger {
    /// Books without an entry.
    pub fn new(options: Options) -> Self {
        Self(Arc::new(Shared { book: Mutex::new(Book::new(options)), published: Published::default() }))
    }

    /// A sample of one rank came.
    ///
    /// # Errors
    /// A [`Refusal`] when the sample is not used; it is counted, and nothing has changed.
    pub fn handle_sample(&self, now: Duration, rank: u16, sample: &Sample) -> Result<(), Refusal> {
        self.write(|book| book.handle_sample(now, rank, sample))
    }

    /// A request goes to `rank`, whose prompt has `prefill_tokens` that the worker is not expected to reuse. Who does not choose the rank
    /// says 0: then the samples of rank 0 take the request over.
    pub fn dispatch(&self, now: Duration, rank: u16, prefill_tokens: u64) -> Booking {
        let number = self.write(|book| book.dispatch(now, rank, prefill_tokens));
        Booking { ledger: self.clone(), number, pending: true }
    }

    /// How busy the worker is. Takes no lock.
    pub fn view(&self, now: Duration) -> View {
        self.0.published.view(now)
    }

    /// Whether the worker has to be asked for its load: it pushes none, or some rank of those that push was silent for `interval`.
    pub fn wants_poll(&self, now: Duration, interval: Duration) -> bool {
        self.0.book.lock().wants_poll(now, interval)
    }

    /// When the first of the ranks that push will have been silent for `interval`, if it pushes nothing until then: until that moment,
    /// [`wants_poll`](Self::wants_poll) says no. Nothing if none has ever pushed.
    pub fn pushes_lapse(&self, interval: Duration) -> Option<Duration> {
        self.0.book.lock().pushes_lapse(interval)
    }

    /// What became of the samples.
    pub fn counts(&self) -> LoadCounts {
        self.0.book.lock().counts()
    }

    fn write<T>(&self, change: impl FnOnce(&mut Book) -> T) -> T {
        let mut book: MutexGuard<'_, Book> = self.0.book.lock();
        let answer = change(&mut book);
        let (view, own_tokens, fresh_until) = book.view();
        // Under the lock, so that a later state is never overwritten by an earlier one.
        self.0.published.set(&view, own_tokens, fresh_until);
        answer
    }
}

impl Booking {
    /// The first token came: the prompt waits no more. Later calls do nothing.
    pub fn first_token(&mut self) {
        if std::mem::take(&mut self.pending) {
            self.ledger.write(|book| book.prompt_ends(self.number));
        }
    }
}

impl Drop for Booking {
    fn drop(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.ledger.write(|book| {
            if pending {
                book.prompt_ends(self.number);
            }
            book.request_ends();
        });
    }
}
