//! Who is in a pool, and what they have in common.

use std::collections::HashSet;

use kv_index::{View, WorkerId};

use super::PoolError;
use crate::limits::POOL_WORKERS_MAX;
use crate::{Candidate, Fleet, Overlap, Router};

/// The workers of a fleet, kept between decisions.
///
/// A decision in a fleet of thousands must not look at thousands of workers. It looks at those that hold most of the prompt, which the
/// index tells deepest first, and at a few drawn from the rest, so it costs about the same at 64 workers and at 4,096. What it needs
/// to know of all (who may be chosen, the mean of requests in flight, the mean rate) is kept up to date as workers change. Up to
/// [`POOL_SCAN_MAX`](crate::limits::POOL_SCAN_MAX) workers, and when nobody may be chosen, all are looked at.
///
/// One thread at a time changes a pool; any number may choose from it. Share it behind the lock that the rest of the fleet's state is
/// behind.
///
/// ```
/// use kv_index::{Matches, Scheme, WorkerId};
/// use kv_routing::select::Scratch;
/// use kv_routing::{Lookup, Pool, Request, Router};
///
/// let mut pool = Pool::new();
/// (0..1_000).for_each(|worker| pool.insert(WorkerId(worker), worker, 0).expect("there is room"));
/// pool.update(WorkerId(7), |candidate| candidate.load.queued_tokens = 30_000)?;
///
/// // What the index found for the prompt; here, nothing.
/// let lookup = Lookup { matches: &Matches::new(), scheme: Scheme::plain(16.try_into()?), predicted: &[] };
/// let request = Request { prompt_tokens: 1_000, ..Request::default() };
/// let choice = pool.choose(&Router::default(), request, &lookup, None, 42, &mut Scratch::new())?;
/// assert_ne!(choice.worker, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Pool {
    pub(super) members: Vec<Member>,
    /// The row of each worker, by its id; [`NOBODY`] for others.
    rows: Vec<u32>,
    /// The rows of those who may be chosen, in no order.
    pub(super) eligible: Vec<u32>,
    /// The same as bits, by worker id: levels are read against it.
    eligible_ids: Vec<u64>,
    ranks: HashSet<(u32, u32)>,
    /// Over the eligible: requests in flight, and the known rates in whole tokens a second, so that sums do not drift.
    in_flight: u64,
    rates: u32,
    rate_sum: u64,
}

/// One worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) worker: WorkerId,
    engine: u32,
    rank: u32,
    /// The view of its index that has device blocks only, where that is kept apart.
    pub(super) device: Option<View>,
    /// Its place among the eligible, or [`NOBODY`].
    spot: u32,
    pub(super) candidate: Candidate,
}

impl Pool {
    /// A pool of nobody.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a worker: `rank` of `engine`, both the caller's numbers. It may be chosen at once.
    ///
    /// # Errors
    /// [`PoolError::Present`], [`PoolError::Full`].
    pub fn insert(&mut self, worker: WorkerId, engine: u32, rank: u32) -> Result<(), PoolError> {
        let (at, workers, limit) = (worker.0 as usize, self.members.len(), POOL_WORKERS_MAX);
        if at >= limit || workers >= limit {
            return Err(PoolError::Full { worker, workers, limit });
        }
        if self.row(worker).is_some() || !self.ranks.insert((engine, rank)) {
            return Err(PoolError::Present { worker, engine, rank });
        }
        if self.rows.len() <= at {
            self.rows.resize(at + 1, NOBODY);
            self.eligible_ids.resize(at / 64 + 1, 0);
        }
        let row = row_number(workers);
        self.rows[at] = row;
        let candidate = Candidate { worker: worker.0, ..Candidate::default() };
        self.members.push(Member { worker, engine, rank, device: None, spot: NOBODY, candidate });
        self.admit(row);
        Ok(())
    }

    /// Takes a worker out.
    ///
    /// # Errors
    /// [`PoolError::UnknownWorker`].
    pub fn remove(&mut self, worker: WorkerId) -> Result<(), PoolError> {
        let row = self.row(worker).ok_or(PoolError::UnknownWorker { worker })?;
        self.dismiss(row);
        let gone = self.members.swap_remove(row as usize);
        self.ranks.remove(&(gone.engine, gone.rank));
        self.rows[worker.0 as usize] = NOBODY;
        if let Some(&Member { worker: moved, spot, .. }) = self.members.get(row as usize) {
            self.rows[moved.0 as usize] = row;
            if spot != NOBODY {
                self.eligible[spot as usize] = row;
            }
        }
        Ok(())
    }

    /// Changes what is known of a worker. What it would reuse is asked for with every request, so an overlap set here is not kept;
    /// its number stays.
    ///
    /// # Errors
    /// [`PoolError::UnknownWorker`].
    pub fn update(&mut self, worker: WorkerId, change: impl FnOnce(&mut Candidate)) -> Result<(), PoolError> {
        let row = self.row(worker).ok_or(PoolError::UnknownWorker { worker })?;
        self.dismiss(row);
        let candidate = &mut self.members[row as usize].candidate;
        change(candidate);
        (candidate.worker, candidate.overlap) = (worker.0, Overlap::default());
        self.admit(row);
        Ok(())
    }

    /// Says which view of the worker has device blocks only. Without one, all that it holds counts as on the device.
    ///
    /// # Errors
    /// [`PoolError::UnknownWorker`].
    pub fn set_device_view(&mut self, worker: WorkerId, device: Option<View>) -> Result<(), PoolError> {
        let row = self.row(worker).ok_or(PoolError::UnknownWorker { worker })?;
        self.members[row as usize].device = device;
        Ok(())
    }

    /// What is known of a worker.
    ///
    /// # Errors
    /// [`PoolError::UnknownWorker`].
    pub fn candidate(&self, worker: WorkerId) -> Result<&Candidate, PoolError> {
        let row = self.row(worker).ok_or(PoolError::UnknownWorker { worker })?;
        Ok(&self.members[row as usize].candidate)
    }

    /// The worker that is `rank` of `engine`, for a request that names them. A request that names an engine of several ranks and no
    /// rank does not mean rank 0. Looks at all members.
    ///
    /// # Errors
    /// [`PoolError::UnknownEngine`], [`PoolError::UnknownRank`].
    pub fn pinned(&self, engine: u32, rank: u32) -> Result<WorkerId, PoolError> {
        let of_engine = || self.members.iter().filter(|member| member.engine == engine);
        match of_engine().find(|member| member.rank == rank) {
            Some(member) => Ok(member.worker),
            None => Err(match row_number(of_engine().count()) {
                0 => PoolError::UnknownEngine { engine },
                ranks => PoolError::UnknownRank { engine, rank, ranks },
            }),
        }
    }

    /// How many workers there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is nobody.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// What those who may be chosen have in common; the shortest queue is that of `shortlist`.
    pub(super) fn fleet(&self, router: &Router, shortlist: &[Candidate]) -> Fleet {
        if self.eligible.is_empty() {
            // Then the shortlist is all of them.
            return router.fleet(shortlist);
        }
        let rate_sum = crate::cost::number(self.rate_sum);
        router.fleet_of(row_number(self.eligible.len()), self.in_flight, self.rates, rate_sum, shortlist)
    }

    pub(super) fn row(&self, worker: WorkerId) -> Option<u32> {
        self.rows.get(worker.0 as usize).copied().filter(|&row| row != NOBODY)
    }

    /// Whether a worker of this id is in the pool and may be chosen, or nobody may: then it may be the last resort.
    pub(super) fn may_be_chosen(&self, worker: WorkerId) -> bool {
        self.eligible.is_empty()
            || self.eligible_ids.get(worker.0 as usize / 64).is_some_and(|word| word >> (worker.0 % 64) & 1 == 1)
    }

    /// Counts a row among the eligible, if it is one.
    fn admit(&mut self, row: u32) {
        let member = &mut self.members[row as usize];
        if member.candidate.is_eligible() {
            member.spot = row_number(self.eligible.len());
            self.eligible.push(row);
            self.eligible_ids[member.worker.0 as usize / 64] |= 1 << (member.worker.0 % 64);
            self.in_flight += u64::from(member.candidate.load.in_flight);
            if let Some(rate) = rate(&member.candidate) {
                (self.rates, self.rate_sum) = (self.rates + 1, self.rate_sum + rate);
            }
        }
    }

    /// Takes a row out of the eligible, if it is one of them.
    fn dismiss(&mut self, row: u32) {
        let member = &mut self.members[row as usize];
        let spot = std::mem::replace(&mut member.spot, NOBODY);
        if spot == NOBODY {
            return;
        }
        self.eligible_ids[member.worker.0 as usize / 64] &= !(1 << (member.worker.0 % 64));
        self.in_flight -= u64::from(member.candidate.load.in_flight);
        if let Some(rate) = rate(&member.candidate) {
            (self.rates, self.rate_sum) = (self.rates - 1, self.rate_sum - rate);
        }
        self.eligible.swap_remove(spot as usize);
        if let Some(&moved) = self.eligible.get(spot as usize) {
            self.members[moved as usize].spot = spot;
        }
    }
}

/// A live rate in whole tokens a second.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and cut off far below 2^63")]
fn rate(candidate: &Candidate) -> Option<u64> {
    candidate.load.live_rate().map(|rate| rate.min(RATE_MAX).ceil() as u64)
}

#[expect(clippy::cast_possible_truncation, reason = "a pool has at most POOL_WORKERS_MAX workers")]
fn row_number(row: usize) -> u32 {
    row as u32
}

const NOBODY: u32 = u32::MAX;

/// No worker computes so many tokens in a second; sums of rates stay numbers whatever is reported.
const RATE_MAX: f64 = 1e9;
