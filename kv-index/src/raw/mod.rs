//! What the chain index is made of. From the bottom up: [`memory`] (words that stay readable), [`slabs`] (blocks of lines),
//! [`record`] (how a segment lies in a block), [`segments`] (locks and windows), [`holders`] (who holds what of a segment),
//! [`edges`] (which segment comes next), [`names`] (which place a name stands at).

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
mod slabs;
#[cfg_attr(not(any(kv_loom, kv_shuttle)), expect(unsafe_code, reason = "a lock lends what it guards"))]
mod spin;
