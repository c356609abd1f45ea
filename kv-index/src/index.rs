//! What every index of this crate can do: the contract as two traits.
//!
//! The rules, with which [`ReferenceIndex`](crate::ReferenceIndex) complies literally and every other index must agree:
//!
//! 1. A store without a parent puts its blocks at positions 0, 1, ... from the root.
//! 2. A store with a parent follows the parent's place. The name must be held by this same worker, in any view;
//!    otherwise [`StoreError::ParentNotHeld`], and nothing of the store is kept.
//! 3. A name stands at one place of its worker. Stored again there, in the same view, it changes nothing; in another
//!    view, that view holds it too. Stored at another place, the latest store wins: every view loses it at the old
//!    place, and the storing view holds it at the new one.
//! 4. Two names at one place (twins) are both held; the place stays covered until the last of them goes.
//! 5. A block without a name is a step of the path: placed and not held.
//! 6. Inside one store the blocks apply one after the other.
//! 7. Removing from a view a name that the view does not hold changes nothing.
//! 8. Removing a block leaves the places of its descendants as they are: a hole, at which a lookup stops. Storing the
//!    missing block again heals it, for the whole suffix.
//! 9. A clear forgets everything of one view or of the whole worker. Dropping the worker does too, and its id can be
//!    used again without a trace of its former owner.
//! 10. [`Index::find`] gives each worker and view the length of the longest prefix of the request whose every place it covers.
//! 11. [`Index::coverage`] gives one view's covered positions, beyond holes too.
//! 12. No name of one worker says anything about another worker's.
//! 13. A lookup beside running writers counts only places that were covered at some moment of the lookup; with no
//!     writer running it is exact.

use crate::{
    Block, BlockName, ContentHash, Digest, Holding, Matches, Removed, Runs, StoreError, Stored, View, ViewsExhausted, WorkerId,
    WorkersExhausted,
};

/// Which worker holds which prefix. Shared by reference between any number of readers and the workers' owners.
pub trait Index: Send + Sync {
    /// The writing end of one worker.
    type Worker: Worker;

    /// Takes a worker in, with one view. Dropping the handle takes it out again.
    ///
    /// # Errors
    /// [`WorkersExhausted`] when the index is full.
    fn add_worker(&self) -> Result<Self::Worker, WorkersExhausted>;

    /// Writes the longest covered prefix of `request`, for each worker and view that covers its first block, into `out`.
    fn find(&self, request: &[ContentHash], out: &mut Matches);

    /// Writes the positions of `request` that `worker`'s `view` covers into `out`, beyond holes too. An unknown worker
    /// or view covers nothing.
    fn coverage(&self, worker: WorkerId, view: View, request: &[ContentHash], out: &mut Runs);

    /// How many blocks of `request` from its start `worker`'s `view` covers.
    fn depth(&self, worker: WorkerId, view: View, request: &[ContentHash]) -> u32;

    /// The summary of what `worker`'s `view` holds; its `count` is the view's number of blocks.
    fn digest(&self, worker: WorkerId, view: View) -> Digest;

    /// Calls `visit` for everything that `worker` holds, in no order. `visit` may use the index, and workers of it.
    fn for_each_holding(&self, worker: WorkerId, visit: &mut dyn FnMut(Holding));

    /// The workers that are in the index, ascending.
    fn workers(&self) -> Vec<WorkerId>;
}

/// Whoever borrows an index can do all that it can.
impl<I: Index> Index for &I {
    type Worker = I::Worker;

    fn add_worker(&self) -> Result<I::Worker, WorkersExhausted> {
        (**self).add_worker()
    }

    fn find(&self, request: &[ContentHash], out: &mut Matches) {
        (**self).find(request, out);
    }

    fn coverage(&self, worker: WorkerId, view: View, request: &[ContentHash], out: &mut Runs) {
        (**self).coverage(worker, view, request, out);
    }

    fn depth(&self, worker: WorkerId, view: View, request: &[ContentHash]) -> u32 {
        (**self).depth(worker, view, request)
    }

    fn digest(&self, worker: WorkerId, view: View) -> Digest {
        (**self).digest(worker, view)
    }

    fn for_each_holding(&self, worker: WorkerId, visit: &mut dyn FnMut(Holding)) {
        (**self).for_each_holding(worker, visit);
    }

    fn workers(&self) -> Vec<WorkerId> {
        (**self).workers()
    }
}

/// The only writer of one worker, by type: not `Clone`, and writing takes `&mut self`. Whoever applies a stream owns it.
pub trait Worker: Send {
    /// The worker's id in lookups, until the handle is dropped.
    fn id(&self) -> WorkerId;

    /// How many views the worker has. At least 1.
    fn views(&self) -> u8;

    /// Gives the worker one more view.
    ///
    /// # Errors
    /// [`ViewsExhausted`] at [`VIEWS_MAX`](crate::limits::VIEWS_MAX).
    fn add_view(&mut self) -> Result<View, ViewsExhausted>;

    /// Stores `blocks` after `parent`'s place, or from the root, and writes what happened to each into `out`, which is
    /// cleared first.
    ///
    /// # Errors
    /// A [`StoreError`]; the index is as it was, and `out` is empty.
    fn store(&mut self, view: View, parent: Option<BlockName>, blocks: &[Block], out: &mut Vec<Stored>)
    -> Result<(), StoreError>;

    /// Takes `names` out of `view` and writes what happened to each into `out`, which is cleared first.
    fn remove(&mut self, view: View, names: &[BlockName], out: &mut Vec<Removed>);

    /// Whether `view` holds `name`.
    fn holds(&self, view: View, name: BlockName) -> bool;

    /// Whether any view holds `name`: whether a store may name it as its parent.
    fn knows(&self, name: BlockName) -> bool;

    /// Forgets everything that `view` holds.
    fn clear_view(&mut self, view: View);

    /// Forgets everything that the worker holds. Its views stay.
    fn clear(&mut self);
}
