//! What a rank's cache looked like at the end of its last pass, for those who may not wait for the next one.

use std::collections::HashSet;

use parking_lot::RwLock;

use super::events::CacheEvent;

/// The names of a rank's cached blocks as its events tell them: what a perfectly informed router would know.
#[derive(Debug, Default)]
pub(super) struct CacheMirror(RwLock<HashSet<u64>>);

impl CacheMirror {
    pub(super) fn apply(&self, events: &[CacheEvent]) {
        if events.is_empty() {
            return;
        }
        let mut cached = self.0.write();
        for event in events {
            match event {
                CacheEvent::Stored { names, .. } => cached.extend(names),
                CacheEvent::Removed(names) => {
                    for name in names {
                        cached.remove(name);
                    }
                }
                CacheEvent::Cleared => cached.clear(),
            }
        }
    }

    /// How many of the first `names` are cached, without a hole.
    pub(super) fn matched(&self, names: &[u64]) -> usize {
        let cached = self.0.read();
        names.iter().take_while(|name| cached.contains(name)).count()
    }

    /// All names, in no order.
    pub(super) fn names(&self) -> Vec<u64> {
        self.0.read().iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_events() {
        let mirror = CacheMirror::default();
        let stored = |names: &[u64]| CacheEvent::Stored { parent: None, names: names.to_vec(), tokens: Vec::new() };
        mirror.apply(&[stored(&[1, 2, 3]), CacheEvent::Removed(vec![2])]);
        assert_eq!(mirror.matched(&[1, 2, 3]), 1);
        mirror.apply(&[CacheEvent::Cleared, stored(&[2])]);
        assert_eq!(mirror.names(), [2]);
    }
}
