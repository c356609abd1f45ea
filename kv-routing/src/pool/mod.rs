//! The workers of a fleet, kept between decisions.

mod error;
mod members;
mod shortlist;

pub use error::PoolError;
pub use members::Pool;
pub use shortlist::Lookup;

use kv_index::WorkerId;

use crate::cost::Ask;
use crate::record::Decision;
use crate::select::Scratch;
use crate::{Choice, NoCandidate, Request, Router};

/// What of a worker's depth, in blocks of the main cache group, its other groups leave usable: at most that depth.
pub type Refine<'a> = &'a mut dyn FnMut(WorkerId, u32) -> u32;

impl Pool {
    /// Chooses one of the pool's workers and allocates nothing once `scratch` has grown. [`Choice::index`] is the place in
    /// [`Scratch::shortlist`], [`Choice::worker`] the index's id.
    ///
    /// For hybrid models, `refine` is asked about the deepest few holders only
    /// ([`REFINED_MAX`](crate::limits::REFINED_MAX)); other holders get no credit. It stops earlier when nobody left could have
    /// more, so within that bound the best is found.
    ///
    /// # Errors
    /// [`NoCandidate`].
    pub fn choose(
        &self,
        router: &Router,
        request: Request,
        lookup: &Lookup<'_>,
        refine: Option<Refine<'_>>,
        seed: u64,
        scratch: &mut Scratch,
    ) -> Result<Choice, NoCandidate> {
        let ask = self.ask(router, request, lookup, refine, seed, scratch);
        let shortlist = std::mem::take(&mut scratch.shortlist);
        let choice = router.choose_among(&ask, &shortlist, &|_| 0.0, seed, scratch);
        scratch.shortlist = shortlist;
        choice
    }

    /// Chooses like [`choose`](Self::choose), and keeps what it was chosen from.
    ///
    /// # Errors
    /// [`NoCandidate`].
    pub fn decide(
        &self,
        router: &Router,
        request: Request,
        lookup: &Lookup<'_>,
        refine: Option<Refine<'_>>,
        seed: u64,
    ) -> Result<Decision, NoCandidate> {
        let mut scratch = Scratch::new();
        let ask = self.ask(router, request, lookup, refine, seed, &mut scratch);
        let shortlist = std::mem::take(&mut scratch.shortlist);
        let choice = router.choose_among(&ask, &shortlist, &|_| 0.0, seed, &mut scratch)?;
        Ok(Decision { choice, record: router.record(&ask, &shortlist, &|_| 0.0, seed, &choice) })
    }

    /// Gathers the shortlist, and what all have in common.
    fn ask(
        &self,
        router: &Router,
        request: Request,
        lookup: &Lookup<'_>,
        refine: Option<Refine<'_>>,
        seed: u64,
        scratch: &mut Scratch,
    ) -> Ask {
        self.gather(router, request, lookup, refine, seed, scratch);
        router.ask(request, self.fleet(router, &scratch.shortlist), &scratch.shortlist)
    }
}
