//! What the chain index is made of, and why it is sound to read without a lock.
//!
//! From the bottom up: [`memory`] (words that stay readable), [`slabs`] (blocks of lines), [`record`] (how a segment lies in a
//! block), [`segments`] (locks and windows), [`holders`] (who holds what of a segment), [`edges`] (which segment comes next),
//! [`names`] (which place a name stands at).
//!
//! # How it works
//! Everything that a reader may look at beside a writer is an atomic word at an address that stays readable, so a reader may be
//! wrong but never undefined. It opens a *window*: loads a descriptor, follows it, and loads the descriptor again. A writer changes
//! in place only what one store can change; all else it builds aside, publishes with one store of a descriptor of the next
//! *generation*, and only then lets go of the old. So either the descriptor is the same at the end, and what was read was one
//! segment's, whole; or it is not, and the reader begins again, because a writer got on.
//!
//! Four descriptors work in this way: a segment's, a record's extension (under the segment's), a shard's of the edges, and the
//! epoch of the workers' numbers.
//!
//! # Invariants
//! 1. *Words stay readable.* A word below a [`memory`]'s capacity is readable as long as the index lives. Memory given back to the
//!    system reads as zeros.
//! 2. *A descriptor names something whole.* What is reachable from a descriptor was written before the descriptor was stored.
//! 3. *A generation does not move.* While it stands still, the record and the blocks that it leads to belong to this segment; of
//!    any length that was published, the contents below do not change; no holder's word moves; the parent is the same.
//! 4. *Nothing is written over in its generation.* What has left a segment (a record, a block, a place cut off) is written over
//!    only after the next generation was stored and a release fence: who sees the new value finds the new generation.
//! 5. *A holder's word is one store.* It alone tells a lookup what the holder covers. Where a mask tells more, the mask is written
//!    before the word says that there is one.
//! 6. *A place has one home.* A child at a place begins otherwise than what follows there in the segment, and than every other
//!    child at the place. Both are decided under the segment's lock; of the root's children, under the edges' shard lock.
//! 7. *A parent outlives its children*, and a place outlives what follows it: it is cut off when nobody holds it and no child leaves
//!    at or beyond it. A place that a worker holds stays where it is.
//! 8. *An edge leads to a child that is alive*, from when the child is whole until it is dead. Links in a record are hints that the
//!    child itself confirms, as are the entries of the table.
//! 9. *A name has one claim.* An entry of the shared table leads to a place that bears the name as claimed; it is taken out under
//!    the segment's lock before the claim goes.
//! 10. *One writer for each worker.* Only the worker's own writer changes what its slots hold; others' may move the words.
//! 11. *A number changes hands when it is empty*: its former owner has no word left, and the epoch rises before the next has one.
//! 12. *Locks are taken in one order*: a worker's state; a segment, then its parent (a child that exists is never locked from its
//!     parent); then an edges' shard, or the names' move and then a names' shard; then a size class, then the pool. A new child,
//!     which nobody else can have locked, may be made under its parent's lock or its shard's.
//!
//! # Who may touch what
//! *Window*: any thread, in a window that it checks afterwards. *Holder*: the thread that has the segment locked.
//!
//! | words | read by | written by | in which state |
//! |---|---|---|---|
//! | descriptor | any thread | whoever locks; holder; who took the id | dead: who took the id from the free list makes it alive and locked; unlocked: an exchange locks it; locked: the holder stores |
//! | meta: length | window, holder | holder | rises with the contents written before; falls with the next generation |
//! | meta: shape, parent's offset; parent | window, holder | who made the record | before the descriptor names it |
//! | meta: holders' count | holder | holder | any |
//! | link, edges | window, holder | holder | the child is whole, and locked by the same thread |
//! | contents below the length | window, holder | nobody | alive |
//! | contents beyond the length | nobody | holder | after a release fence |
//! | claimed, names | window, holder; holder of the name's shard | holder | a claimed name does not change |
//! | extension and its line | window, holder | holder | what they name is whole |
//! | a holder's word or byte | window, holder | holder: the worker's writer; or anyone who moves it | moved with the next generation |
//! | a mask | window, holder | holder: the worker's writer | before the word says that there is one |
//! | a free block | window, believed by nobody | who allocated it | after the release fence of `allocate` |
//! | an edges' shard's descriptor, entries, marks | any thread | holder of the shard's lock | entries do not move within a table |
//! | the names' lines and heads | holder of the shard's lock | the same | no reader ever |
//! | lines of a names' array | holder of a shard that stands there; any writer, to fetch | holder of the move | no shard stands there |
//! | where the names are settled | any writer, to fetch | holder of the move | a hint |
//! | a worker's digests, names, roll | the worker's writer; who iterates | the same | under the state's lock |
//! | siblings' counts | holder of the segment | the same | under a lock of their own |
//! | the epoch, the number of workers | any thread | who adds a worker | under the roster's lock |
//! | private slots, sizes, the lowest slab | any thread | any writer | hints and sums: nothing is concluded from them |
//!
//! # Orderings
//! Every `Acquire`, every `Release` and every fence has its reason at its place. `Relaxed` is one of these:
//! - a word that the thread's lock guards, for the lock orders it;
//! - a load in a window: the descriptor's acquire comes before it, and the acquire fence of [`segments::Window::holds`] after it;
//! - a store of something that a later release publishes, or that a release fence precedes (invariant 4);
//! - a hint or a sum, which promises nothing.
//!
//! No ordering is `SeqCst`: no conclusion here rests on two words that two threads write.
//!
//! # Proof
//! `chain/loom` has models of these races, and `bash .ci/loom.sh` runs them: an append against a lookup,
//! a place cut off and used again against a lookup (4), two workers creating one child (6), naming one block and one name for two
//! blocks (9), going private against a lookup, and segments freed and used again against a lookup. The last stands for a free list's
//! ABA: free lists are under locks here, and it is a segment's id that comes back to a reader who knew it before. Whole fleets under
//! random schedules: `chain/shuttle.rs`. On the real machine: `tests/concurrent`, and `.ci/sanitize.sh`.
//!
//! A model proves an ordering only if it fails without it. No model fails yet without one of these alone, because another fence
//! stands in for it there: the release fences of `publish`, of an append, of an edge table's rebuild and of `allocate`, and the
//! acquire loads of an edge and of the extension. They rest on the reasons given where they stand.

pub(crate) mod buckets;
#[cfg_attr(not(any(kv_loom, kv_portable, kv_shuttle)), expect(unsafe_code, reason = "vector loads of atomics"))]
pub(crate) mod compare;
pub(crate) mod edges;
pub(crate) mod holders;
#[expect(unsafe_code, reason = "the one place that turns addresses into words")]
mod memory;
#[expect(unsafe_code, reason = "what a shard's lock guards is lent to its holder")]
pub(crate) mod names;
pub(crate) mod place;
#[expect(unsafe_code, reason = "the processor's prefetch instruction")]
pub(crate) mod prefetch;
pub(crate) mod record;
pub(crate) mod secret;
pub(crate) mod segments;
pub(crate) mod slabs;
#[cfg_attr(not(any(kv_loom, kv_shuttle)), expect(unsafe_code, reason = "a lock lends what it guards"))]
mod spin;
