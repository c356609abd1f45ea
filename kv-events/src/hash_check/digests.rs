//! The digests of the last blocks, by the names under which they were announced.

use std::collections::VecDeque;

use hashbrown::HashMap;
use kv_index::BlockName;

use crate::limits::CHECKED_DIGESTS_MAX;

/// A SHA-256 digest; the 16 bytes of an XXH3 one stand in its front.
type Bytes = [u8; 32];

#[derive(Clone, Debug, Default)]
pub(super) struct Digests {
    of: HashMap<BlockName, Bytes>,
    /// The names, the oldest first.
    order: VecDeque<BlockName>,
}

impl Digests {
    pub(super) fn get(&self, name: BlockName) -> Option<&Bytes> {
        self.of.get(&name)
    }

    /// Remembers the digest of a block. The oldest gives way to it at the bound.
    pub(super) fn insert(&mut self, name: BlockName, digest: &[u8]) {
        let mut bytes = Bytes::default();
        bytes.iter_mut().zip(digest).for_each(|(byte, of)| *byte = *of);
        if self.of.insert(name, bytes).is_some() {
            return;
        }
        self.order.push_back(name);
        if self.order.len() > CHECKED_DIGESTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.of.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_give_way_at_the_bound_and_nothing_is_kept_of_them() {
        let mut digests = Digests::default();
        let names = 0..CHECKED_DIGESTS_MAX as u64 + 100;
        names.for_each(|name| digests.insert(BlockName(name), &name.to_le_bytes()));
        digests.insert(BlockName(500), &[7]);
        assert_eq!((digests.of.len(), digests.order.len()), (CHECKED_DIGESTS_MAX, CHECKED_DIGESTS_MAX));
        assert!(digests.get(BlockName(99)).is_none());
        assert_eq!(digests.get(BlockName(100)).map(|bytes| bytes[0]), Some(100));
        assert_eq!(digests.get(BlockName(500)).map(|bytes| bytes[0]), Some(7), "the latest counts");
    }
}
